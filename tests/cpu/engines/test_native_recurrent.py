"""LSTM and GRU of the native engine give the bytes of the numpy kernels, which add products in the order of the inputs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.engines.native import description
from rknnlite_cpu.engines.native.library import Library
from rknnlite_cpu.engines.native.lowering import NativeLowering
from rknnlite_cpu.engines.partition import segment_of
from rknnlite_cpu.engines.proof import random_value
from rknnlite_cpu.ops.ordered_recurrence import _ordered, rows_of
from rknnlite_graph.graph import Graph, Node, TensorRole
from rknnlite_graph.lowering import Form, NotLowered

from rknnlite.errors import ModelInvalid
from tests.cpu.engines import native, native_floats

KINDS = {
    "lstm": {"op": "exLSTM"},
    "gru": {"op": "exGRU"},
    "gru that is reset first": {"op": "exGRU", "late": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [1, 3, 16, 33, 128])
def test_same_bytes(built: Library, kind: str, hidden: int) -> None:
    random = np.random.default_rng(hidden)
    for number in range(8):
        graph = native.recurrent(
            random, **KINDS[kind], steps=int(random.integers(1, 12)), batch=int(random.integers(1, 7)),
            inputs=int(random.integers(1, 70)), hidden=hidden, directions=1 + number % 2, reverse=number % 4 == 2,
            whole=number % 3 != 1, floating=number >= 4, wide=number % 5 == 0,
        )  # fmt: skip
        assert native.differing(built, graph, number, 1 + number % 3) == 0


def test_floats_may_enter_and_leave(built: Library) -> None:
    """As in a proof, where every node is looked at."""
    graph = native.recurrent(
        np.random.default_rng(1), "exGRU", hidden=20, batch=2, floating=True, whole=False
    )
    every = replace(graph, outputs=[1, 2, 3])
    assert native.differing(built, every, 1, 2) == 0
    assert _kinds(built, every, 0) == [
        "TAKE", "TO_FLOATS", "RECURRENT", "TO_BYTES", "FLOAT_GIVE", "FLOAT_GIVE", "GIVE",
    ]  # fmt: skip


def test_bytes_that_nobody_looks_at_as_floats_are_read_and_written_as_bytes(built: Library) -> None:
    graph = native.recurrent(np.random.default_rng(1), "exGRU", floating=True)
    assert _kinds(built, graph, 0) == ["TAKE", "RECURRENT", "GIVE"]
    assert _kinds(built, graph, 1) == ["FLOAT_TAKE", "RECURRENT", "GIVE"]


def _kinds(built: Library, graph: Graph, first: int) -> list[str]:
    """Of the ops of all nodes from the first one on."""
    segment = segment_of(graph, graph.nodes[first:], graph.nodes[:first])
    content = NativeLowering(built.layout).segment(graph, segment, Form.EXACT_INT8)
    return [op.kind for op in description.ProgramText.unpack(content).ops]


def _of_floats(random: np.random.Generator, **arguments: Any) -> Graph:
    graph = native.recurrent(random, floating=True, whole=False, **arguments)
    return replace(graph, nodes=graph.nodes[1:2], inputs=[1], outputs=[2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [1, 33, 128])
def test_floats_alone(built: Library, kind: str, hidden: int) -> None:
    random = np.random.default_rng(hidden)
    for number in range(5):
        graph = _of_floats(
            random, **KINDS[kind], steps=int(random.integers(1, 12)), batch=int(random.integers(1, 7)),
            inputs=int(random.integers(1, 70)), hidden=hidden, directions=1 + number % 2, wide=number % 2 == 1,
        )  # fmt: skip
        assert native_floats.distance(built, graph, number, 1 + number % 3) <= 1.1 / 1024


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_stays_none(built: Library, kind: str) -> None:
    graph = _of_floats(np.random.default_rng(3), **KINDS[kind], hidden=20, batch=2)
    value = random_value(graph.tensors[1], np.random.default_rng(8))
    value[2, 0, 1] = np.nan
    expected = native.on_numpy(graph, {1: value})[0]
    found = native.program(built, graph, 1)[0].run([value])[0]
    assert np.isnan(expected).any() and np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.nanmax(np.abs(found - expected)) <= 1.1 / 1024


def test_sums_are_added_in_the_order_of_the_inputs() -> None:
    random = np.random.default_rng(2)
    for rows, inputs, count in ((1, 40, 12), (1, 300, 5), (6, 40, 12), (1, 1, 3), (1, 70, 1)):
        x = random.normal(size=(rows, inputs)).astype(np.float32)
        matrix = random.normal(size=(inputs, count)).astype(np.float32)
        expected = x[:, :1] * matrix[0]
        for k in range(1, inputs):
            expected = expected + x[:, k : k + 1] * matrix[k]
        assert np.array_equal(_ordered(x, matrix), expected)


def test_whole_numbers_are_those_of_the_file() -> None:
    graph = native.recurrent(np.random.default_rng(3), "exLSTM")
    params = graph.nodes[0].recurrent
    assert params is not None
    for rows in rows_of(params):
        assert np.array_equal(rows.weights, np.rint(rows.weights)) and np.abs(rows.weights).max() <= 128
    assert not rows_of(params)[0].weights[0, 0, 0].any()  # its multiplier is 0


@pytest.mark.parametrize("change", ["lengths", "last state", "infinite weights", "another gate"])
def test_what_is_left_to_numpy(built: Library, change: str) -> None:
    graph = native.recurrent(np.random.default_rng(4), "exLSTM")
    node, tensors = graph.nodes[0], [*graph.tensors]
    if change == "lengths":
        tensors.append(replace(tensors[4], index=5, shape=(1,), load=lambda: np.array([2], np.int32)))
        node = replace(node, inputs=[0, 5, 4])
    elif change == "last state":
        tensors.append(native.tensor(5, (1, 1, 9)))
        node = replace(node, outputs=[3, 5])
    elif change == "infinite weights":
        assert node.recurrent is not None
        node = replace(
            node, recurrent=replace(node.recurrent, w_bias=node.recurrent.w_bias + np.float32("inf"))
        )
    else:
        node = replace(node, attrs={"activations": ["Relu", "Tanh", "Tanh"]})
    with pytest.raises((NotLowered, ModelInvalid)):
        native.program(built, replace(graph, nodes=[node], tensors=tensors), 1)


DAMAGES: dict[str, Any] = {
    "fewer weights": lambda op: op.arrays.update(weights=op.arrays["weights"][:-1]),
    "fewer numbers": lambda op: op.arrays.update(numbers=op.arrays["numbers"][:-1]),
    "no sizes": lambda op: op.arrays.pop("sizes"),
    "more steps": lambda op: op.arrays.update(sizes=op.arrays["sizes"] + np.eye(15, dtype=np.int64)[0]),
    "other places": lambda op: op.arrays.update(
        sizes=op.arrays["sizes"] + 999 * np.eye(15, dtype=np.int64)[14]
    ),
    "places before it": lambda op: op.arrays.update(
        sizes=op.arrays["sizes"] - 999 * np.eye(15, dtype=np.int64)[8]
    ),
    "five gates": lambda op: op.arrays.update(sizes=op.arrays["sizes"] + np.eye(15, dtype=np.int64)[4]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_op_is_refused(built: Library, damage: str) -> None:
    graph = native.recurrent(np.random.default_rng(5), "exLSTM")
    content = NativeLowering(built.layout).segment(graph, segment_of(graph, graph.nodes, []), Form.EXACT_INT8)
    text = description.ProgramText.unpack(content)
    DAMAGES[damage](next(op for op in text.ops if op.kind == "RECURRENT"))
    with pytest.raises(ModelInvalid, match="RECURRENT"):
        description.ProgramText.unpack(text.pack())


# -- values in another order -------------------------------------------------------------------------------------

RESHAPED = [
    ((1, 50, 64), (50, 1, 64)), ((1, 192, 14, 14), (1, 192, 1, 196)), ((1, 192, 1, 197), (3, 64, 1, 197)),
    ((3, 64, 1, 197), (1, 192, 1, 197)), ((2, 24), (2, 3, 8)), ((4, 6, 5, 1), (24, 5)), ((1, 12, 4, 5), (1, 240)),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), RESHAPED, ids=str)
def test_reshapes(built: Library, source: tuple[int, ...], target: tuple[int, ...]) -> None:
    tensors = [native.tensor(0, source, 9), native.tensor(1, target, 9)]
    graph = native.graph_of(tensors, [Node(0, "Reshape", "r", [0], [1])])
    for threads in (1, 3):
        assert native.differing(built, graph, 1, threads) == 0


def test_a_reshape_that_cuts_across_axes_is_left_to_numpy(built: Library) -> None:
    tensors = [native.tensor(0, (1, 6, 4, 5), 9), native.tensor(1, (1, 8, 3, 5), 9)]
    with pytest.raises(NotLowered):
        native.program(built, native.graph_of(tensors, [Node(0, "Reshape", "r", [0], [1])]), 1)


ORDERS = [(0, 2, 3, 1), (3, 1, 0, 2), (1, 0, 2, 3), (0, 1, 3, 2), (1, 3, 2, 0)]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_transposes_of_floats(built: Library, order: tuple[int, ...]) -> None:
    """What a caller gives is rounded on the way."""
    shape = (2, 19, 5, 7)
    tensors = [
        native_floats.tensor(i, each) for i, each in enumerate((shape, tuple(shape[i] for i in order)))
    ]
    tensors[0] = replace(tensors[0], role=TensorRole.INPUT)
    graph = native.graph_of(tensors, [Node(0, "Transpose", "t", [0], [1], {"perm": list(order)})])
    value = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    found = native.program(built, graph, 3)[0].run([value])[0]
    assert np.array_equal(found, native.on_numpy(graph, {0: value})[0])


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_transposes(built: Library, order: tuple[int, ...]) -> None:
    shape = (2, 19, 5, 7)
    tensors = [native.tensor(0, shape, 9), native.tensor(1, tuple(shape[axis] for axis in order), 9)]
    graph = native.graph_of(tensors, [Node(0, "Transpose", "t", [0], [1], {"perm": list(order)})])
    assert native.differing(built, graph, 1, 3) == 0


def test_slices(built: Library) -> None:
    tensors = [native.tensor(0, (2, 19, 9, 7), 9), native.tensor(1, (2, 5, 3, 7), 9)]
    attrs = {"starts": [2, -7], "ends": [17, 9], "axes": [1, 2], "steps": [3, 3]}
    graph = native.graph_of(tensors, [Node(0, "Slice", "s", [0], [1], attrs)])
    assert native.differing(built, graph, 1, 3) == 0


def test_kernels_have_their_names() -> None:
    source = (Path(description.__file__).parent / "program.h").read_text(encoding="utf-8")
    listed = re.sub(r"/\*.*?\*/", "", source.split("enum kind {")[1].split("}")[0]).split(",")
    assert tuple(name.strip() for name in listed) == description.KINDS
