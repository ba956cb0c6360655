"""Nodes of 8 bits with random numbers, on the numpy kernels and on the native engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import numpy as np
from rknnlite_cpu.engines.native.library import Library, NativeProgram
from rknnlite_cpu.engines.native.lowering import NativeLowering
from rknnlite_cpu.engines.partition import segment_of
from rknnlite_cpu.engines.proof import random_value
from rknnlite_cpu.ops import builder_of
from rknnlite_graph.graph import (
    Accumulator,
    Activation,
    ConvParams,
    FusedOp,
    Graph,
    Join,
    Node,
    RecurrentParams,
    Stage,
    Tensor,
    TensorRole,
)
from rknnlite_graph.lowering import Form
from rknnlite_graph.node_view import NodeView

from rknnlite.tensor import DType, QuantParams

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def tensor(index: int, shape: Shape, zero: int = 0, scale: float = 0.05, dtype: DType = DType.INT8) -> Tensor:
    """One of 8 bits."""
    return Tensor(index, f"t{index}", dtype, shape, TensorRole.ACTIVATION, QuantParams(scale, zero))


def graph_of(tensors: list[Tensor], nodes: list[Node]) -> Graph:
    """Whatever no node makes goes in, whatever no node reads comes out."""
    made = {index for node in nodes for index in node.outputs}
    read = {index for node in nodes for index in node.inputs}
    everything = [each.index for each in tensors]
    return Graph(tensors, nodes, [i for i in everything if i not in made], [i for i in made if i not in read])


def convolution(
    random: np.random.Generator,
    shape: Shape,
    channels: int,
    kernel: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    depthwise: bool = False,
    fused: FusedOp = FusedOp(Accumulator.CONV),
    operand: Optional[Shape] = None,
    dtype: DType = DType.INT8,
    extreme: bool = False,
) -> Graph:
    """A convolution with all that may be fused to it; ``pads`` are top, left, bottom, right."""
    sizes = [
        (shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(2)
    ]
    y = (shape[0], channels, *sizes)
    low, high = (-128, 127) if dtype is DType.INT8 else (0, 255)
    zeros = [int(zero) for zero in random.integers(low, high + 1, 3)]
    weights = (channels, 1 if depthwise else shape[1], *kernel)
    choices = np.array([-128, 127], np.int8)
    stored = (
        random.choice(choices, weights) if extreme else random.integers(-128, 128, weights).astype(np.int8)
    )
    depth = int(np.prod(weights[1:]))
    conv = ConvParams(
        weight=lambda: stored,
        weight_shape=weights,
        quantised=True,
        depthwise=depthwise,
        transposed=False,
        strides=strides,
        dilations=dilations,
        pads=pads[:2],
        bias=random.integers(-20000, 20000, channels).astype(np.int32),
        zero_point=random.integers(-128, 128, channels).astype(np.float32),
        multiplier=2.0 ** -random.uniform(4, 8, channels) / np.sqrt(depth),
        slope=random.uniform(-0.5, 1.5, channels).astype(np.float32)
        if fused.applies(Activation.PRELU)
        else None,
    )
    stage = Stage(scale=0.5, slope=0.25, limits=(-3.0, 900.0), zero_point=zeros[1])
    tensors = [tensor(0, shape, zeros[0], 0.03, dtype), tensor(1, y, zeros[1], 0.05, dtype)]
    inputs = [0]
    if operand is not None:
        tensors.append(tensor(2, operand, zeros[2], 0.04, dtype))
        inputs.append(2)
    node = Node(0, "Conv", "c", inputs, [1], fused=fused, conv=conv, stage=stage)
    return graph_of(tensors, [replace(node, op=_name(fused))])


def _name(fused: FusedOp) -> str:
    parts = [fused.before, fused.join, fused.after]
    return "Conv" + "".join(part.value for part in parts if part is not None)


def on_numpy(graph: Graph, values: dict[int, Array]) -> list[Array]:
    """The results of a graph by the definition."""
    known = dict(values)
    for node in graph.nodes:
        view = NodeView(graph, node)
        builder = builder_of(node.op)
        assert builder is not None
        found = builder(view)([known[index] for index in view.live])
        for made, index in zip(found, node.outputs):
            known[index] = np.asarray(made).reshape(graph.tensors[index].shape)
    return [known[index] for index in graph.outputs]


def program(library: Library, graph: Graph, threads: int) -> tuple[NativeProgram, list[int]]:
    """The whole graph as one program, and the tensors that enter."""
    segment = segment_of(graph, graph.nodes, [])
    content = NativeLowering(library.layout).segment(graph, segment, Form.EXACT_INT8)
    return NativeProgram(library, content, threads), list(segment.inputs)


def differing(library: Library, graph: Graph, seed: int = 0, threads: int = 1) -> int:
    """How many values of the results are not those of the numpy kernels."""
    random = np.random.default_rng(seed)
    values = {index: random_value(graph.tensors[index], random) for index in graph.inputs}
    compiled, entering = program(library, graph, threads)
    found = compiled.run([values[index] for index in entering])
    expected = on_numpy(graph, values)
    assert [each.shape for each in found] == [each.shape for each in expected]
    return sum(int(np.count_nonzero(a != b)) for a, b in zip(found, expected))


JOINED = {
    "plain": FusedOp(Accumulator.CONV),
    "relu": FusedOp(Accumulator.CONV, after=Activation.RELU),
    "clip": FusedOp(Accumulator.CONV, after=Activation.CLIP),
    "leaky": FusedOp(Accumulator.CONV, after=Activation.LEAKY_RELU),
    "prelu": FusedOp(Accumulator.CONV, after=Activation.PRELU),
    "add": FusedOp(Accumulator.CONV, join=Join.ADD),
    "add_relu": FusedOp(Accumulator.CONV, join=Join.ADD, after=Activation.RELU),
    "relu_add": FusedOp(Accumulator.CONV, before=Activation.RELU, join=Join.ADD),
    "clip_add": FusedOp(Accumulator.CONV, before=Activation.CLIP, join=Join.ADD),
    "leaky_add": FusedOp(Accumulator.CONV, before=Activation.LEAKY_RELU, join=Join.ADD),
    "prelu_add": FusedOp(Accumulator.CONV, before=Activation.PRELU, join=Join.ADD),
    "mul": FusedOp(Accumulator.CONV, join=Join.MUL),
    "leaky_mul": FusedOp(Accumulator.CONV, before=Activation.LEAKY_RELU, join=Join.MUL),
}


def recurrent(
    random: np.random.Generator,
    op: str,
    steps: int = 7,
    batch: int = 1,
    inputs: int = 5,
    hidden: int = 9,
    directions: int = 1,
    reverse: bool = False,
    late: bool = True,
    whole: bool = True,
    floating: bool = False,
    wide: bool = False,
) -> Graph:
    """An LSTM or GRU between tensors of 8 bits.

    Args:
        whole: weights are whole numbers of steps. floating: tensors beside it are float16, made of bytes and made into such.
        wide: the result has three axes.
    """
    gates = 4 if op == "exLSTM" else 3
    shapes = [(directions, gates, hidden, count) for count in (inputs, hidden)]
    stored = [random.integers(-128, 128, shape) for shape in shapes]
    scales = [random.uniform(0.001, 0.01, shape[:3]) for shape in shapes]
    scales[0][0, 0, 0] = 0  # a multiplier of 0
    parts = [(each * scale[..., None]).astype(np.float32) for each, scale in zip(stored, scales)]
    if not whole:
        parts = [each.astype(np.float16).astype(np.float32) if floating else each for each in parts]
    params = RecurrentParams(
        gates, hidden, directions, parts[0], parts[1],
        *(random.uniform(-1, 1, shapes[0][:3]).astype(np.float32) for _ in range(2)),
        reverse=reverse, linear_before_reset=late, steps=(scales[0], scales[1]) if whole else None,
    )  # fmt: skip
    x = (steps, batch, inputs)
    y = (steps, batch, directions * hidden) if wide else (steps, directions, batch, hidden)
    state = random.uniform(-1.5, 1.5, (directions, batch + 1, hidden)).astype(np.float32)
    kept = replace(
        tensor(4, state.shape), dtype=DType.FLOAT32, quant=None, role=TensorRole.CONST, load=lambda: state
    )
    tensors = [tensor(0, x, 17), tensor(1, x), tensor(2, y), tensor(3, y, -9, 1 / 127), kept]
    node = Node(1, op, "r", [0, -1, 4], [3], recurrent=params)
    if not floating:
        del tensors[1:3]
        return replace(graph_of(tensors, [node]), tensors=[*by_index(tensors)], inputs=[0], outputs=[3])
    for i in (1, 2):
        tensors[i] = replace(tensors[i], dtype=DType.FLOAT16, quant=None)
    convert = [Node(0, "exDataConvert", "a", [0], [1]), Node(2, "exDataConvert", "b", [2], [3])]
    nodes = [convert[0], replace(node, inputs=[1, -1, 4], outputs=[2]), convert[1]]
    return replace(graph_of(tensors, nodes), inputs=[0], outputs=[3])


def by_index(tensors: list[Tensor]) -> list[Tensor]:
    """So that the place of each is its index."""
    found = {each.index: each for each in tensors}
    return [found.get(index, tensor(index, (1, 1))) for index in range(max(found) + 1)]
