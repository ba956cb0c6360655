"""The native engine's kernels of float16 beside the numpy kernels: random nodes, threads, processors, whole networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rknnlite_cpu.engines.native import description
from rknnlite_cpu.engines.native.library import Library
from rknnlite_cpu.engines.native.lowering import NativeLowering
from rknnlite_cpu.engines.partition import segment_of
from rknnlite_cpu.engines.proof import random_value
from rknnlite_graph.graph import Accumulator, Activation, FusedOp, Graph, Node, TensorRole
from rknnlite_graph.lowering import Form, NotLowered

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType
from tests.cpu.engines import native, native_floats
from tests.cpu.engines.strategies import CHANNELS, SIDE, SMALL, convolutions
from tests.support.corpus import genuine, golden_of, open_cpu

STEP = 1.1 / 1024
"""One of float16, beside the largest value."""


@pytest.mark.slow
@given(convolutions(), st.integers(0, 1 << 20), st.sampled_from([1, 2, 5]))
def test_any_convolution(built: Library, arguments: dict[str, Any], seed: int, threads: int) -> None:
    graph = native_floats.convolution(np.random.default_rng(seed), **arguments)
    assert native_floats.distance(built, graph, seed, threads) <= STEP


FUNCTIONS = {
    name: FusedOp(Accumulator.CONV, after=Activation.TABLE, function=name)
    for name in ("ExGelu", "ExMish", "ExSwish", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh")
}


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("kind", [*native.JOINED, *FUNCTIONS])
def test_whatever_is_fused(built: Library, kind: str, depthwise: bool) -> None:
    fused = {**native.JOINED, **FUNCTIONS}[kind]
    for channels, one_each in ((40, False), (16, False), (70, True)):
        operand = (1, channels, 1, 1) if one_each else (1, channels, 9, 11)
        graph = native_floats.convolution(
            np.random.default_rng(channels), (1, channels, 9, 11), channels, pads=(1, 1, 1, 1),
            depthwise=depthwise, fused=fused, operand=operand if fused.join else None,
        )  # fmt: skip
        assert native_floats.distance(built, graph, 1, 2) <= STEP


@pytest.mark.parametrize("kernel", [1, 3, 5], ids=str)
def test_results_do_not_hang_on_threads(built: Library, kernel: int) -> None:
    """Bands of rows, and where there are few rows parts of the channels: the same bits."""
    random = np.random.default_rng(kernel)
    for shape, channels in (((1, 64, 56, 56), 64), ((1, 256, 7, 7), 512), ((2, 64, 14, 14), 256)):
        for depthwise in (False, True):
            graph = native_floats.convolution(
                random, shape, shape[1] if depthwise else channels, (kernel, kernel),
                pads=(kernel // 2,) * 4, depthwise=depthwise,
            )  # fmt: skip
            assert native_floats.distance(built, graph, 1) <= STEP
            value = random_value(graph.tensors[0], random)
            results = [native.program(built, graph, threads)[0].run([value])[0] for threads in (1, 2, 3, 4)]
            assert all(np.array_equal(results[0], other) for other in results[1:])


@given(
    st.sampled_from([16, 17, 40, 64]), st.sampled_from([32, 40, 70]), st.integers(13, 33), st.integers(13, 33),
    st.integers(0, 3), st.sampled_from([*native.JOINED, "ExSwish", "Tanh"]), st.integers(1, 2), st.sampled_from([1, 2, 5]),
)  # fmt: skip
def test_large_planes_are_transformed(
    built: Library,
    inputs: int,
    channels: int,
    height: int,
    width: int,
    pad: int,
    kind: str,
    items: int,
    threads: int,
) -> None:
    """3x3 kernels after Winograd."""
    fused = {**native.JOINED, **FUNCTIONS}[kind]
    shape = (items, channels, height + 2 * pad - 2, width + 2 * pad - 2)
    graph = native_floats.convolution(
        np.random.default_rng(height), (items, inputs, height, width), channels, pads=(pad,) * 4, fused=fused,
        operand=shape if fused.join else None,
    )  # fmt: skip
    assert native_floats.distance(built, graph, width, threads) <= STEP


def test_infinite_values_stay_where_they_are(built: Library) -> None:
    """Differences of a transformed tile would make others of it NaN."""
    graph = native_floats.convolution(np.random.default_rng(7), (1, 32, 20, 20), 64, pads=(1, 1, 1, 1))
    value = random_value(graph.tensors[0], np.random.default_rng(8))
    value[0, 3, 9, 9], value[0, 5, 0, 19] = np.inf, -np.inf
    expected = native.on_numpy(graph, {0: value})[0]
    for threads in (1, 2):
        found = native.program(built, graph, threads)[0].run([value])[0]
        finite = np.isfinite(expected)
        assert np.array_equal(found[~finite], expected[~finite], equal_nan=True)
        assert np.abs(found[finite] - expected[finite]).max() <= STEP * np.abs(expected[finite]).max()


def _moving_channels(shape: tuple[int, ...], places: list[int], fused: FusedOp, operand: Any = None) -> Graph:
    """A convolution of 1x1 that takes a channel for each result, none for -1."""
    random = np.random.default_rng(len(places))
    graph = native_floats.convolution(random, shape, len(places), (1, 1), fused=fused, operand=operand)
    (node,) = graph.nodes
    weights = np.zeros((len(places), shape[1], 1, 1), np.float16)
    for to, place in enumerate(places):
        if place >= 0:
            weights[to, place] = random.choice([1, 0.5, -3])
    assert node.conv is not None
    conv = replace(node.conv, weight=lambda: weights)
    return native.graph_of(list(graph.tensors), [replace(node, conv=conv)])


PLACES = {
    "shuffled": lambda n: [i // 2 if i % 2 else -1 for i in range(2 * n)],
    "backwards": lambda n: list(range(n))[::-1],
    "far": lambda n: [i * 17 % n for i in range(n + 5)],
    "none": lambda n: [-1] * n,
}


@pytest.mark.parametrize("kind", native.JOINED)
@pytest.mark.parametrize("order", PLACES)
def test_channels_that_a_convolution_moves(built: Library, order: str, kind: str) -> None:
    for shape in ((1, 58, 9, 7), (2, 33, 3, 5), (1, 1, 4, 4)):
        places = PLACES[order](shape[1])
        fused = native.JOINED[kind]
        operand = (shape[0], len(places), *shape[2:]) if fused.join else None
        graph = _moving_channels(shape, places, fused, operand)
        assert native_floats.kinds(built, graph) == ["FLOAT_SELECT"]
        assert native_floats.distance(built, graph, 1, 2) <= STEP


def test_infinite_values_of_moved_channels_are_multiplied(built: Library) -> None:
    """By 0, too, which is NaN."""
    shape = (1, 40, 3, 3)
    graph = _moving_channels(shape, PLACES["far"](40), FusedOp(Accumulator.CONV))
    value = random_value(graph.tensors[0], np.random.default_rng(8))
    value[0, 3, 1, 1], value[0, 39, 0, 2], value[0, 5, 0, 2] = np.inf, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        expected = native.on_numpy(graph, {0: value})[0]
    found = native.program(built, graph, 1)[0].run([value])[0]
    assert np.isnan(expected).any() and np.isinf(expected).any()
    assert np.array_equal(found, expected, equal_nan=True)


@given(
    st.sampled_from(["Add", "AddRelu", "Sub", "SubRelu", "Mul", "MulRelu"]),
    CHANNELS,
    SIDE,
    st.booleans(),
    st.booleans(),
)
def test_joins(built: Library, op: str, channels: int, side: int, one_each: bool, turned: bool) -> None:
    shape = (1, channels, side, 3)
    tensors = [
        native_floats.tensor(0, shape),
        native_floats.tensor(1, (1, channels, 1, 1) if one_each else shape),
        native_floats.tensor(2, shape),
    ]
    order = [1, 0] if turned and not op.startswith("Sub") else [0, 1]
    graph = native.graph_of(tensors, [Node(0, op, "j", order, [2])])
    assert native_floats.distance(built, graph, side, 2) == 0


@pytest.mark.parametrize("op", ["Sigmoid", "exSwish", "HardSwish", "Relu", "Neg", "Abs", "Exp", "Tanh"])
def test_functions_are_tables(built: Library, op: str) -> None:
    shape = (1, 5, 16, 16)
    tensors = [native_floats.tensor(0, shape), native_floats.tensor(1, shape)]
    assert native_floats.distance(built, native.graph_of(tensors, [Node(0, op, "f", [0], [1])])) == 0


def test_numbers_per_channel(built: Library) -> None:
    random = np.random.default_rng(2)
    shape = (1, 21, 6, 5)
    gamma, beta = (native_floats.constant(i, random.normal(size=21)) for i in (1, 2))
    slope = native_floats.constant(3, random.uniform(-1, 1, (21, 1, 1)))
    tensors = [
        native_floats.tensor(0, shape),
        gamma,
        beta,
        slope,
        *(native_floats.tensor(i, shape) for i in (4, 5)),
    ]
    nodes = [Node(0, "BatchNormalization", "b", [0, 1, 2], [4]), Node(1, "PRelu", "p", [4, 3], [5])]
    graph = replace(native.graph_of(tensors, nodes), inputs=[0])
    assert native_floats.distance(built, graph) <= STEP


def test_what_moves(built: Library) -> None:
    """Concat, Split, Reshape, Resize, MaxPool: one program."""
    shapes = [
        (2, 3, 8, 6), (2, 20, 8, 6), (2, 23, 8, 6), (2, 5, 8, 6), (2, 18, 8, 6), (2, 18, 16, 18), (2, 5, 4, 6),
        (2, 5, 1, 1), (2, 5),
    ]  # fmt: skip
    tensors = [native_floats.tensor(index, shape) for index, shape in enumerate(shapes)]
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]}
    nodes = [
        Node(0, "Concat", "a", [0, 1], [2], {"axis": 1}),
        Node(1, "Split", "b", [2], [3, 4], {"axis": -3}),
        Node(2, "Resize", "c", [4, -1, 9], [5], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                                "nearest_mode": "floor"}),
        Node(3, "MaxPool", "d", [3], [6], pool),
        Node(4, "MaxPool", "e", [3], [7], {"kernel_shape": [8, 6], "strides": [1, 1]}),
        Node(5, "Reshape", "f", [7], [8]),
    ]  # fmt: skip
    scales = native_floats.constant(9, np.array([1, 1, 2, 3]))
    graph = replace(native.graph_of([*tensors, scales], nodes), inputs=[0, 1], outputs=[2, 5, 6, 8])
    assert native_floats.distance(built, graph, 3, 2) == 0


def test_parts_of_a_tensor_are_written_in_their_place(built: Library) -> None:
    """Results of convolutions that are joined, of numbers of channels that fill no vector."""
    random = np.random.default_rng(9)
    first, second = (native_floats.convolution(random, (1, 12, 7, 5), count, (1, 1)) for count in (20, 9))
    tensors = [native_floats.tensor(0, (1, 12, 7, 5)), *(
        native_floats.tensor(i, (1, count, 7, 5)) for i, count in ((1, 20), (2, 9), (3, 29))
    )]  # fmt: skip
    nodes = [
        replace(first.nodes[0], inputs=[0], outputs=[1]),
        replace(second.nodes[0], index=1, inputs=[0], outputs=[2]),
        Node(2, "Concat", "a", [1, 2], [3], {"axis": 1}),
    ]
    assert native_floats.distance(built, native.graph_of(tensors, nodes), 3, 2) <= STEP


@given(
    st.sampled_from([1, 3, 16, 40]),
    CHANNELS,
    SMALL,
    SMALL,
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)
def test_transposed_convolutions(
    built: Library, inputs: int, channels: int, down: int, across: int, stride: int, pad: int, depthwise: bool
) -> None:
    source = (1, channels if depthwise else inputs, 5, 4)
    sides = [(side - 1) * stride + kernel - 2 * pad for side, kernel in zip(source[2:], (down, across))]
    assume(min(sides) > 0)
    graph = native_floats.convolution(
        np.random.default_rng(inputs),
        source,
        channels,
        (down, across),
        depthwise=depthwise,
        pads=(3, 3, 3, 3),
    )
    graph = native_floats.transposed(graph, stride, pad, sides)
    assert native_floats.distance(built, graph, stride, 2) <= STEP


SHAPES = [
    ((1, 24, 5, 6), (1, 24, 1, 30)),
    ((1, 128, 1, 9), (4, 32, 1, 9)),
    ((4, 32, 1, 9), (1, 128, 1, 9)),
    ((1, 32, 7, 7), (1, 1568, 1, 1)),
    ((1, 21, 4, 2), (1, 8, 21)),
    ((1, 50, 64), (50, 1, 64)),
    ((1, 6, 4, 5), (1, 8, 3, 5)),
    ((6, 5, 3, 2), (4, 15, 3, 1)),
]


@pytest.mark.parametrize(("before", "after"), SHAPES, ids=str)
def test_other_sides(built: Library, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    tensors = [
        native_floats.tensor(0, before),
        native_floats.tensor(1, after),
        native_floats.tensor(2, after),
    ]
    nodes = [Node(0, "Reshape", "r", [0], [1]), Node(1, "Neg", "n", [1], [2])]
    graph = replace(native.graph_of(tensors, nodes), outputs=[1, 2])
    assert native_floats.distance(built, graph, 1, 3) == 0


@pytest.mark.parametrize("mode", ["layer", "rms", "l2"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_normalisation_over_channels(built: Library, mode: str, scaled: bool) -> None:
    random = np.random.default_rng(5)
    for channels in (1, 7, 16, 40, 192):
        shape = (2, channels, 3, 5)
        numbers = [native_floats.constant(i, random.normal(size=(1, channels, 1, 1))) for i in (2, 3)]
        tensors = [native_floats.tensor(0, shape), native_floats.tensor(1, shape), *numbers]
        inputs = [0, 2, 3] if scaled else [0]
        node = Node(0, "exNorm", "n", inputs, [1], {"axes": [1], "mode": mode, "epsilon": 1e-5})
        graph = replace(native.graph_of(tensors, [node]), inputs=[0])
        assert native_floats.distance(built, graph, channels, 2) <= STEP


@given(
    st.integers(1, 4),
    st.sampled_from([8, 40, 64]),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from([1, 2, 5]),
)
def test_attention(built: Library, heads: int, depth: int, queries: int, keys: int, threads: int) -> None:
    sides = [
        (heads, depth, 1, queries),
        (heads, depth, 1, keys),
        (heads, depth + 8, 1, keys),
        (heads, depth + 8, 1, queries),
    ]
    tensors = [native_floats.tensor(i, shape) for i, shape in enumerate(sides)]
    node = Node(0, "exSDPAttention", "a", [0, 1, 2], [3], {"scale": 3 / depth**0.5})
    assert native_floats.distance(built, native.graph_of(tensors, [node]), keys, threads) <= STEP


def test_a_transposition_of_channels_and_columns(built: Library) -> None:
    tensors = [native_floats.tensor(0, (2, 20, 3, 9)), native_floats.tensor(1, (2, 9, 3, 20))]
    graph = native.graph_of(tensors, [Node(0, "Transpose", "t", [0], [1], {"perm": [0, 3, 2, 1]})])
    assert native_floats.distance(built, graph, 1, 2) == 0


def _integers(index: int, values: list[int]) -> Any:
    found = np.array(values, np.int64)
    return replace(native_floats.constant(index, found), dtype=DType.INT64, load=lambda: found)


PICKED = {
    "Pad": ((1, 20, 8, 8), {}, [[0, 0, 1, 2, 0, 0, 1, 0]]),
    "Gather": ((1, 20, 9, 6), {"axis": 2}, [[3, 0, 5, 5, 1, 2, 0, 4, 3]]),
    "Slice": ((1, 20, 2, 6), {}, [[1], [5], [2], [2]]),
}


@pytest.mark.parametrize("op", PICKED)
def test_rows_and_columns_from_elsewhere(built: Library, op: str) -> None:
    shape, attrs, operands = PICKED[op]
    given_numbers = [_integers(2 + i, values) for i, values in enumerate(operands)]
    tensors = [native_floats.tensor(0, (1, 20, 6, 6)), native_floats.tensor(1, shape), *given_numbers]
    node = Node(0, op, "p", [0, *range(2, 2 + len(operands))], [1], attrs)
    if op == "Slice":
        node.inputs[3:] = [4, 5]
    assert native_floats.distance(built, replace(native.graph_of(tensors, [node]), inputs=[0]), 1, 2) == 0


@pytest.mark.parametrize("place", ["asymmetric", "half_pixel", "align_corners"])
def test_linear_sizes(built: Library, place: str) -> None:
    tensors = [
        native_floats.tensor(0, (1, 21, 5, 7)),
        native_floats.tensor(1, (1, 21, 15, 14)),
        native_floats.constant(2, np.array([1, 1, 3, 2])),
    ]
    attrs = {"mode": "linear", "coordinate_transformation_mode": place}
    graph = native.graph_of(tensors, [Node(0, "Resize", "r", [0, -1, 2], [1], attrs)])
    assert native_floats.distance(built, replace(graph, inputs=[0]), 1, 2) <= STEP


def test_positions_that_nobody_reads_are_not_computed(built: Library) -> None:
    """A large stride, as the converter writes it."""
    random = np.random.default_rng(11)
    first = native_floats.convolution(random, (1, 3, 33, 33), 24, (5, 5), strides=(2, 2))
    second = native_floats.convolution(random, (1, 24, 15, 15), 24, (1, 1), strides=(3, 3), depthwise=True)
    tensors = [*first.tensors, native_floats.tensor(2, (1, 24, 5, 5))]
    nodes = [first.nodes[0], replace(second.nodes[0], index=1, inputs=[1], outputs=[2])]
    graph = native.graph_of(tensors, nodes)
    assert native_floats.distance(built, graph, 1, 2) <= STEP
    compiled, _ = native.program(built, graph, 1)
    assert [op.strides for op in compiled._text.ops[1:3]] == [(6, 6), (1, 1)]
    graph = replace(graph, outputs=[1, 2])
    assert native_floats.distance(built, graph, 1, 2) <= STEP


def test_too_large_values_are_infinite(built: Library) -> None:
    graph = native_floats.convolution(np.random.default_rng(1), (1, 8, 5, 5), 8, (1, 1))
    node = graph.nodes[0]
    assert node.conv is not None
    bias = np.array([65519, 65520, -65520, 70000, 1e-8, 3e-8, 0, -0.0], np.float32)
    nothing = np.zeros(node.conv.weight_shape, np.float16)
    conv = replace(node.conv, bias=bias, weight=lambda: nothing)
    graph = native.graph_of(graph.tensors, [replace(node, conv=conv)])
    assert native_floats.distance(built, graph) == 0


def test_values_that_are_not_rounded_are_not_looked_up(built: Library) -> None:
    """A caller's values, before the first node."""
    shape = (1, 5, 16, 16)
    tensors = [replace(native_floats.tensor(0, shape), role=TensorRole.INPUT), native_floats.tensor(1, shape)]
    with pytest.raises(NotLowered, match="not rounded"):
        native.program(built, native.graph_of(tensors, [Node(0, "Sigmoid", "f", [0], [1])]), 1)


def test_weights_that_are_wider_are_left_to_others(built: Library) -> None:
    graph = native_floats.convolution(np.random.default_rng(1), (1, 8, 5, 5), 8, (1, 1))
    node = graph.nodes[0]
    assert node.conv is not None
    third = np.full(node.conv.weight_shape, 1 / 3, np.float32)
    conv = replace(node.conv, weight=lambda: third)
    with pytest.raises(NotLowered, match="float16 does not hold"):
        native.program(built, native.graph_of(graph.tensors, [replace(node, conv=conv)]), 1)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["x86-64", "haswell"])
def test_other_processors(built: Library, processor: str) -> None:
    """Without conversions of float16 in hardware, and with half of the lanes."""
    if {"haswell": "avx2"}.get(processor, "sse2") not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip(f"this processor is no {processor}")
    other = Library(f"-march={processor}")
    random = np.random.default_rng(3)
    kinds = [*native.JOINED.values(), *FUNCTIONS.values()]
    for number in range(38):
        depthwise, channels, fused = bool(number % 2), int(random.integers(1, 80)), kinds[number // 2]
        graph = native_floats.convolution(
            random, (1, channels, 11, 9), channels, (3, 2), pads=(1, 1, 1, 0), depthwise=depthwise, fused=fused,
            operand=(1, channels, 11, 9) if fused.join else None,
        )  # fmt: skip
        assert native_floats.distance(other, graph, number, 2) <= STEP
    test_too_large_values_are_infinite(other)


FILES = ("mobilenetv2_like.rk3588.fp16",)


@pytest.mark.parametrize("name", FILES)
def test_a_genuine_network_is_one_island(built: Library, name: str) -> None:
    with (
        open_cpu(genuine(name), extra={"engine": "native"}) as fast,
        open_cpu(genuine(name), extra={"engine": "numpy"}) as slow,
    ):
        answers = [context.infer(golden_of(name).inputs, raw=True) for context in (fast, slow)]
        plan = fast._shapes.current.plan  # type: ignore[attr-defined]
        islands = plan._accelerator._islands
    for a, b in zip(*answers):
        assert (
            np.abs(a.data.astype(np.float32) - b.data.astype(np.float32)).max() <= 2e-3 * np.abs(b.data).max()
        )
    assert [(island.engine.name, len(island.segment.nodes)) for island in islands] == [
        ("native", len(plan.graph.nodes) - 2)
    ]


DAMAGES = {
    "another kernel": lambda op: setattr(op, "kernel", (3, 300)),
    "another result": lambda op: setattr(op.y, "height", 700),
    "a place between floats": lambda op: setattr(op.x, "offset", 2),
    "fewer weights": lambda op: op.arrays.update(weights=op.arrays["weights"][:-1]),
    "fewer numbers": lambda op: op.arrays.update(factor=op.arrays["factor"][:3]),
    "no table": lambda op: setattr(op, "flags", description.Flag.FUNCTION),
    "an operand that is not there": lambda op: setattr(op, "flags", description.Flag.JOIN_ADD),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_program_that_would_leave_its_workspace_is_refused(built: Library, damage: str) -> None:
    graph = native_floats.convolution(np.random.default_rng(0), (1, 8, 6, 6), 24, pads=(1, 1, 1, 1))
    content = NativeLowering(built.layout).segment(graph, segment_of(graph, graph.nodes, []), Form.EXACT_INT8)
    text = description.ProgramText.unpack(content)
    DAMAGES[damage](next(op for op in text.ops if op.kind == "FLOAT_CONVOLVE"))
    with pytest.raises(ModelInvalid, match="op 1"):
        description.ProgramText.unpack(text.pack())


@pytest.mark.parametrize(("name", "value"), [("zeros", 40), ("zeros", -1), ("sizes", 39), ("sizes", 30)])
def test_channels_that_are_not_there_are_refused(built: Library, name: str, value: int) -> None:
    graph = _moving_channels((1, 40, 3, 3), PLACES["backwards"](40), FusedOp(Accumulator.CONV))
    content = NativeLowering(built.layout).segment(graph, segment_of(graph, graph.nodes, []), Form.EXACT_INT8)
    text = description.ProgramText.unpack(content)
    op = next(op for op in text.ops if op.kind == "FLOAT_SELECT")
    op.arrays[name] = op.arrays[name].copy()
    op.arrays[name][0] = value
    with pytest.raises(ModelInvalid, match="channels"):
        description.ProgramText.unpack(text.pack())
