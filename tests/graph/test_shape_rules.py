"""What a run would meet is refused when a model is opened: nodes of genuine files whose shapes were changed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.plan import ExecutionPlan
from rknnlite_graph.graph import MARKERS, Graph, Node, Tensor, TensorRole
from rknnlite_graph.read import read_graph

from rknnlite.errors import InputInvalid, ModelInvalid, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, genuine
from tests.support.examples import examples
from tests.support.graphs import constant, one_node, tensor
from tests.support.swept import FOLDER, members

MOST_ELEMENTS = 200_000


def graph_of(path: Path) -> Graph | None:
    """None for a file that is refused on purpose."""
    try:
        return read_graph(ModelFile(path).model)
    except RknnError:
        return None


def changed(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    """One size is another one, or one axis more or less."""
    sizes, kind = list(shape), rng.integers(6)
    if kind == 0 and len(sizes) > 1:
        sizes.pop(rng.integers(len(sizes)))
    elif kind == 1 or not sizes:
        sizes.insert(int(rng.integers(len(sizes) + 1)), int(rng.integers(1, 3)))
    else:
        place = rng.integers(len(sizes))
        sizes[place] = int(rng.choice([sizes[place] + 1, max(1, sizes[place] - 1), 2 * sizes[place], 1, 3]))
    return tuple(sizes)


def damaged(graph: Graph, node: Node, rng: np.random.Generator) -> Graph:
    """A graph of the node alone; a tensor that it computes on or gives has another shape, or an attribute another number."""
    tensors, one = list(graph.tensors), replace(node, attrs=dict(node.attrs))
    live = [i for i in dict.fromkeys(node.inputs) if i >= 0 and tensors[i].role is not TensorRole.CONST]
    numbers = [name for name, value in node.attrs.items() if isinstance(value, int)]
    if numbers and rng.random() < 0.25:
        name = numbers[rng.integers(len(numbers))]
        one.attrs[name] = int(node.attrs[name] + rng.integers(-2, 3))
    else:
        index = int(rng.choice([*live, *node.outputs]))
        tensors[index] = replace(tensors[index], shape=changed(tensors[index].shape, rng))
    return Graph(tensors, [one], live, list(node.outputs))


def zeros(stored: Tensor) -> Any:
    whole = stored.quant is None and not stored.dtype.is_float
    return np.zeros(stored.shape, stored.dtype.numpy if whole else np.float32)


def opens_and_fails(graph: Graph) -> str:
    """What a run says that opening did not."""
    try:
        plan = ExecutionPlan(graph, "damaged.rknn")
    except RknnError as error:
        known = isinstance(error, ModelUnsupported) or graph.nodes[0].name in str(
            error
        )  # a file that lacks weights
        assert known and "damaged.rknn" in str(error), error
        return ""
    used = [graph.tensors[i] for i in (*graph.inputs, *graph.outputs)]
    if sum(int(np.prod(each.shape)) for each in used) > MOST_ELEMENTS:
        return ""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = plan.run({i: zeros(graph.tensors[i]) for i in graph.inputs})
    except InputInvalid:
        return ""  # places that the caller's data give
    except RknnError as error:
        return str(error)
    finally:
        plan.close()
    wrong = [i for i, value in found.items() if value.shape != graph.tensors[i].shape]
    return f"shapes of {wrong}" if wrong else ""


FILES = sorted(path for path in DATA.glob("*.rknn") if path.stat().st_size < 60_000)


@pytest.mark.parametrize("part", range(8))
def test_damaged_nodes(part: int) -> None:
    rng, findings, tried = np.random.default_rng(part), [], 0
    for path in FILES[part::8]:
        graph = graph_of(path)
        nodes = [node for node in graph.nodes if node.op not in MARKERS] if graph is not None else []
        for _ in range(examples(6) if nodes else 0):
            assert graph is not None
            node = nodes[rng.integers(len(nodes))]
            if node.op.startswith("cst") or all(
                graph.tensors[i].role is TensorRole.CONST for i in node.inputs
            ):
                continue
            tried += 1
            text = opens_and_fails(damaged(graph, node, rng))
            findings += [f"{path.name}: {text}"] if text else []
    assert tried > 50 and not findings, findings


def test_what_is_genuine_fits() -> None:
    """Of kept sweeps, whose operators are the widest; all other files of the corpus are run."""
    for archive in sorted(FOLDER.glob("*.tar.xz"))[::3]:
        for name, data in members(archive).items():
            if not name.endswith(".rknn"):
                continue
            graph = read_graph(ModelFile(data).model, attributes={})
            assert ExecutionPlan(graph, name).steps


def test_a_clash_names_model_node_tensor_and_numbers() -> None:
    graph = read_graph(ModelFile(genuine("resnet_like.rk3588.i8")).model)
    node = next(node for node in graph.nodes if node.op == "ConvAddRelu")
    other = graph.tensors[node.inputs[1]]
    graph.tensors[other.index] = replace(other, shape=(*other.shape[:3], 7))
    with pytest.raises(ModelInvalid) as caught:
        ExecutionPlan(graph, "face.rknn")
    for part in ("face.rknn", node.name, graph.tensors[node.outputs[0]].name, "7"):
        assert part in str(caught.value)


CLASHES: list[tuple[str, list[tuple[int, ...]], tuple[int, ...], dict[str, Any]]] = [
    ("exMatMul", [(32, 12, 1, 1), (4, 12, 1, 16)], (4, 32, 1, 16), {}),
    ("exMatMul", [(4, 12, 1, 8), (4, 13, 1, 16)], (4, 8, 1, 16), {}),
    ("exSDPAttention", [(4, 8, 1, 5), (4, 8, 1, 7), (4, 8, 1, 6)], (4, 8, 1, 5), {}),
    ("exSDPAttention", [(4, 8, 1, 5), (4, 8, 1, 7), (4, 8, 1, 7), (1, 6, 1, 5)], (4, 8, 1, 5), {}),
    ("exNorm", [(1, 8, 1, 4), (5,)], (1, 8, 1, 4), {"axes": [1]}),
    ("GroupNormalization", [(1, 8, 4, 4), (8,), (8,)], (1, 8, 4, 4), {"num_groups": 3}),
    ("PRelu", [(1, 8, 4, 4), (1, 8, 3, 1)], (1, 8, 4, 4), {}),
    ("Softmax", [(2, 3)], (2, 3), {"axis": 2}),
    ("Transpose", [(2, 3)], (3, 2), {"perm": [0, 2]}),
    ("TopK", [(2, 3)], (2, 4), {"axis": 1}),
    ("OneHot", [(2, 3), (1,), (1,)], (2, 3, 4), {}),
    ("RoiAlign", [(1, 4, 9, 9), (5, 4), (5,)], (6, 4, 2, 2), {}),
    ("MaxUnpool", [(1, 2, 3, 3), (1, 2, 3, 2)], (1, 2, 6, 6), {}),
    ("exGlu", [(1, 8, 4)], (1, 5, 4), {}),
    ("Det", [(2, 3, 4)], (2,), {}),
    ("RNN", [(5, 1, 3), (1, 4, 3), (1, 4, 5)], (5, 1, 1, 4), {}),
    ("MaxPool", [(1, 2, 6, 6)], (1, 2, 3, 3), {"kernel_shape": [2, 2], "strides": [2, 0]}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "result", "attrs"), CLASHES)
def test_clashes(
    op: str, operands: list[tuple[int, ...]], result: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    given = [tensor(f"x{i}", shape) for i, shape in enumerate(operands)]
    with pytest.raises(ModelInvalid, match=f"the_{op.lower()}"):
        one_node(op, given, [tensor("y", result)], attrs)


def test_parts_of_a_split() -> None:
    parts = [tensor("a", (1, 7, 8, 6)), tensor("b", (1, 13, 8, 6))]
    for whole in ((2, 20, 8, 6), (1, 19, 8, 6)):
        with pytest.raises(ModelInvalid, match="the_split"):
            one_node("Split", [tensor("x", whole)], parts, {"axis": 1})


def test_stored_axes_are_known() -> None:
    axes = constant(np.array([1]))
    with pytest.raises(ModelInvalid, match="the_reducemean"):
        one_node("ReduceMean", [tensor("x", (2, 3, 4)), axes], [tensor("y", (2, 3))])


@pytest.mark.parametrize(("op", "count"), [("PRelu", 1), ("MatMul", 1), ("OneHot", 2), ("ScatterND", 2)])
def test_a_missing_operand_is_named(op: str, count: int) -> None:
    given = [tensor(f"x{i}", (2, 3)) for i in range(count)]
    with pytest.raises(ModelInvalid, match=f"the_{op.lower()}.*operand {count} is missing"):
        one_node(op, given, [tensor("y", (2, 3))])
