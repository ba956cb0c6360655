"""Every node of the genuine files, lowered alone and fed with the operands that the numpy kernels had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_cpu.fidelity import table_graph
from rknnlite_graph.graph import Graph
from rknnlite_graph.lowering import Form
from rknnlite_graph.read import read_graph

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from tests.cpu.test_swept import models
from tests.support.brothers import first_of_each
from tests.support.corpus import DATA, EXAMPLES, genuine
from tests.support.lowered import accepted, judged_alone, random_inputs, recorded
from tests.support.swept import members

FILES = sorted([*DATA.glob("*.rknn"), *(EXAMPLES / "resnet18").rglob("*.rknn")])
FEW = 4
"""One of so many files is looked at in both forms."""


def check(graph: Graph, form: Form) -> None:
    wrong, tried = [], 0
    for node, operands, results in recorded(graph, random_inputs(graph)):
        for verdict in judged_alone(graph, node, operands, results, form):
            wanted = results[verdict.tensor.index]
            finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
            tried += 1
            if not accepted(verdict, float(finite.max(initial=0))):
                wrong.append(str(verdict))
    assert tried and not wrong, "\n".join(wrong)


def checked_file(source: Path | bytes, form: Form) -> None:
    try:
        graph = read_graph(ModelFile(source).model)
        recorded(graph, random_inputs(graph))
    except RknnError:
        return  # a file of the tests of refusals: it has no nodes to judge
    check(graph, form)


@pytest.mark.parametrize(
    "path", first_of_each(lambda path: path.name.partition(".")[0], FILES), ids=lambda path: path.stem
)
def test_exact(path: Path) -> None:
    checked_file(path, Form.EXACT)


@pytest.mark.parametrize("path", FILES[::FEW], ids=lambda path: path.stem)
def test_exact_in_bytes(path: Path) -> None:
    checked_file(path, Form.EXACT_INT8)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_of_them_in_bytes(path: Path) -> None:
    checked_file(path, Form.EXACT_INT8)


@pytest.mark.parametrize("form", [Form.EXACT, Form.EXACT_INT8], ids=lambda form: form.value)
@pytest.mark.parametrize("name", ["acts_alone.rk3588.i8", "acts_alone.rv1106.i8", "act_silu.rk3588.i8"])
def test_by_the_tables_of_the_file(name: str, form: Form) -> None:
    """To the byte: what is left is a look-up."""
    graph = table_graph(read_graph(ModelFile(genuine(name)).model))
    looked_up = [node for node in graph.nodes if node.stage is not None and node.stage.by_table]
    assert looked_up
    for node, operands, results in recorded(graph, random_inputs(graph)):
        if node in looked_up:
            for verdict in judged_alone(graph, node, operands, results, form):
                assert not verdict.reason and not verdict.different, str(verdict)


@pytest.mark.parametrize(("archive", "target"), models())
def test_swept(archive: Path, target: str) -> None:
    checked_file(members(archive)[f"{target}.rknn"], Form.EXACT)
