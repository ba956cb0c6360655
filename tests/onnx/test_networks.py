"""Whole networks as one segment: without transcendental functions every tensor is the numpy kernels' to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_cpu.plan import MARKERS
from rknnlite_graph.graph import Graph
from rknnlite_graph.lowering import Form, NotLowered
from rknnlite_graph.read import read_graph

from rknnlite.formats import ModelFile
from tests.onnx.support import UNREADABLE
from tests.support.corpus import DATA, EXAMPLES, genuine
from tests.support.lowered import compared, exact, random_inputs, recorded, run

FILES = sorted(
    path
    for path in [*DATA.glob("*.i8.rknn"), *(EXAMPLES / "resnet18").rglob("*.rknn")]
    if path.stem not in UNREADABLE
)
FORMS = (Form.EXACT, Form.EXACT_INT8)


def graph_of(path: Path) -> Graph:
    return read_graph(ModelFile(path).model)


def check(graph: Graph, form: Form, only_outputs: bool) -> None:
    feeds = random_inputs(graph)
    made = {i: (node, v) for node, _, results in recorded(graph, feeds) for i, v in results.items()}
    wanted = [i for i in (graph.outputs if only_outputs else made) if i in made]
    nodes = [node for node in graph.nodes if node.op not in MARKERS]
    try:
        found = run(graph, nodes, feeds, wanted, form)
    except NotLowered:  # one of the nodes is for the numpy kernels, whose bytes hang on floats
        found = run(graph, nodes, feeds, wanted, form.near)
    verdicts = [compared(made[i][0], graph.tensors[i], mine, made[i][1]) for i, mine in zip(wanted, found)]
    tainted: set[int] = set()
    for node in nodes:
        of_node = [verdict for verdict in verdicts if verdict.node is node]
        if tainted & set(node.inputs) or not all(map(exact, of_node)):
            tainted |= set(node.outputs)
    wrong = [str(v) for v in verdicts if v.different and v.tensor.index not in tainted]
    assert verdicts and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
@pytest.mark.parametrize("path", FILES[::4], ids=lambda path: path.stem)
def test_every_tensor(path: Path, form: Form) -> None:
    check(graph_of(path), form, only_outputs=False)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_tensor_of_all(path: Path, form: Form) -> None:
    check(graph_of(path), form, only_outputs=False)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
@pytest.mark.parametrize("name", ["arithmetic.rk3588.i8", "batch_four.rk3588.i8", "conv_3x3_wide.rk3588.i8"])
def test_outputs_alone(name: str, form: Form) -> None:
    """Engines may join nodes whose results nobody asks for."""
    check(graph_of(genuine(name)), form, only_outputs=True)


def test_a_network_is_all_there() -> None:
    graph = graph_of(genuine("conv_3x3_wide.rk3588.i8"))
    feeds = random_inputs(graph)
    nodes = [node for node in graph.nodes if node.op not in MARKERS]
    found = run(graph, nodes, feeds, graph.outputs, Form.EXACT)
    assert [each.shape for each in found] == [graph.tensors[i].shape for i in graph.outputs]
    assert all(np.isfinite(each).all() for each in found)
