"""Nodes of float16 with random numbers, on the numpy kernels and on the native engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import numpy as np
from rknnlite_cpu.engines.native.description import ProgramText
from rknnlite_cpu.engines.native.library import Library
from rknnlite_cpu.engines.native.lowering import NativeLowering
from rknnlite_cpu.engines.partition import segment_of
from rknnlite_cpu.engines.proof import random_value
from rknnlite_graph.graph import (
    Accumulator,
    Activation,
    ConvParams,
    FusedOp,
    Graph,
    Node,
    Stage,
    Tensor,
    TensorRole,
)
from rknnlite_graph.lowering import Form

from rknnlite.tensor import DType
from tests.cpu.engines import native

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def tensor(index: int, shape: Shape) -> Tensor:
    """One of float16."""
    return Tensor(index, f"t{index}", DType.FLOAT16, shape, TensorRole.ACTIVATION, None)


def constant(index: int, value: Array) -> Tensor:
    """A stored one of float32."""
    return Tensor(
        index,
        f"t{index}",
        DType.FLOAT32,
        value.shape,
        TensorRole.CONST,
        None,
        load=lambda: value.astype(np.float32),
    )


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
) -> Graph:
    """A convolution with all that may be fused to it; ``pads`` are top, left, bottom, right."""
    sizes = [
        (shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(2)
    ]
    weights = (channels, 1 if depthwise else shape[1], *kernel)
    stored = (random.normal(size=weights) / np.sqrt(np.prod(weights[1:]))).astype(np.float16)
    conv = ConvParams(
        weight=lambda: stored,
        weight_shape=weights,
        quantised=False,
        depthwise=depthwise,
        transposed=False,
        strides=strides,
        dilations=dilations,
        pads=pads[:2],
        bias=random.normal(size=channels).astype(np.float32),
        slope=random.uniform(-0.5, 1.5, channels).astype(np.float32)
        if fused.applies(Activation.PRELU)
        else None,
    )
    stage = Stage(slope=0.25, clip=(-0.25, 0.75), float_line=(6500.0, 300.0))
    tensors, inputs = [tensor(0, shape), tensor(1, (shape[0], channels, *sizes))], [0]
    if operand is not None:
        tensors.append(tensor(2, operand))
        inputs.append(2)
    name = f"Conv{fused.function}" if fused.function else native._name(fused)
    node = Node(0, name, "c", inputs, [1], fused=fused, conv=conv, stage=stage)
    return native.graph_of(tensors, [node])


def transposed(graph: Graph, stride: int, pad: int, sides: list[int]) -> Graph:
    """The same with a transposed convolution."""
    node = graph.nodes[0]
    assert node.conv is not None
    conv = replace(node.conv, transposed=True, strides=(stride, stride), pads=(pad, pad))
    y = replace(graph.tensors[1], shape=(*graph.tensors[1].shape[:2], *sides))
    return native.graph_of([graph.tensors[0], y], [replace(node, op="ConvTranspose", conv=conv)])


def distance(library: Library, graph: Graph, seed: int = 0, threads: int = 1) -> float:
    """How far results are from those of the numpy kernels, in shares of the largest; infinite values must be the same."""
    random = np.random.default_rng(seed)
    values = {index: random_value(graph.tensors[index], random) for index in graph.inputs}
    compiled, entering = native.program(library, graph, threads)
    found = compiled.run([values[index] for index in entering])
    expected = native.on_numpy(graph, values)
    assert [each.shape for each in found] == [each.shape for each in expected]
    far = 0.0
    for a, b in zip(found, expected):
        assert np.array_equal(a, a.astype(np.float16).astype(np.float32), equal_nan=True)
        finite = np.isfinite(b)
        assert np.array_equal(a[~finite], b[~finite])
        far = max(
            far,
            float(np.abs(a[finite] - b[finite]).max(initial=0) / max(1e-6, np.abs(b[finite]).max(initial=0))),
        )
    return far


def kinds(library: Library, graph: Graph) -> list[str]:
    """What the ops of a graph are, without those of its edges."""
    segment = segment_of(graph, graph.nodes, [])
    text = ProgramText.unpack(NativeLowering(library.layout).segment(graph, segment, Form.EXACT_INT8))
    return [op.kind for op in text.ops if not op.kind.endswith(("TAKE", "GIVE"))]
