"""A quantised graph as one of real numbers, for whoever computes or writes it in float.

Weights and biases are dequantised, tensors carry float32, activation tables give way to their functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.quant import RANGES
from rknnlite.tensor import DType

from .graph import Accumulator, Activation, ConvParams, FusedOp, Graph, Join, Node, Stage, Tensor, TensorRole
from .operators import TABLE_FUNCTIONS, Operator, operator_of

__all__ = ["float_graph", "weight_steps"]

Array = NDArray[Any]
_STORED_BETWEEN = ("score_step", "score_zero_point", "weight_step")
"""The steps in which attention stores its scores and its softmax as int8."""


def float_graph(graph: Graph) -> Graph:
    """The same network on real numbers; ``graph`` itself stays as it is."""
    tensors = [_real_tensor(tensor) for tensor in graph.tensors]
    real = Graph(tensors, [], list(graph.inputs), list(graph.outputs))
    real.nodes = [replace(_real_node(node, graph, tensors), overflow="") for node in graph.nodes]
    return real


def _real_tensor(tensor: Tensor) -> Tensor:
    """Constants keep their stored form: operators read the real values of those anyway."""
    if tensor.role is TensorRole.CONST or not (tensor.quant is not None or tensor.dtype.is_float):
        return tensor
    return replace(tensor, dtype=DType.FLOAT32, quant=None)


def _real_node(node: Node, graph: Graph, tensors: list[Tensor]) -> Node:
    fused = node.fused
    if fused is not None and node.conv is not None and node.conv.quantised and node.stage is not None:
        return _real_convolution(node, fused, node.conv, node.stage, graph)
    if fused is not None and fused.accumulator is Accumulator.BATCH_NORM:
        return _real_norm(node, graph, tensors)
    row = operator_of(node.op)
    if row is not None and row.line:
        return _real_line(node, row, graph)
    if node.op == "exSDPAttention":
        return replace(node, attrs={name: v for name, v in node.attrs.items() if name not in _STORED_BETWEEN})
    return node


# -- convolutions --------------------------------------------------------------------------------------------


def _real_convolution(node: Node, fused: FusedOp, conv: ConvParams, stage: Stage, graph: Graph) -> Node:
    """Weights and bias in the units of what the output stage works on; see ``ops.requantise`` for the integer form."""
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    steps = weight_steps(node, graph)
    if x.quant is None or conv.zero_point is None or steps is None:
        return node  # damaged: preparing the node says so
    unit = steps * x.quant.scale
    load = partial(_real_weight, conv.weight, conv.zero_point, steps)
    bias = np.zeros(len(unit)) if conv.bias is None else np.asarray(conv.bias, np.float64)
    if x.quant.zero_point:
        centred = conv.weight().astype(np.float32) - conv.zero_point.reshape(-1, 1, 1, 1)
        bias = bias + x.quant.zero_point * centred.sum(axis=(1, 2, 3), dtype=np.float64)
    real = replace(conv, weight=load, quantised=False, bias=bias * unit, zero_point=None, multiplier=None)
    return replace(node, conv=real, stage=_real_stage(fused, stage, y))


def weight_steps(node: Node, graph: Graph) -> Optional[Array]:
    """Real value of one step of the stored weights per output channel; None where a node has no such weights."""
    conv, stage, fused = node.conv, node.stage, node.fused
    if conv is None or stage is None or fused is None or not conv.quantised or conv.multiplier is None:
        return None
    x, y = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if x.quant is None:
        return None
    found: Array = conv.multiplier * _unit(node, fused, stage, graph, y) / x.quant.scale
    return found


def _real_weight(load: Callable[[], Array], zero_point: Array, unit: Array) -> Array:
    centred = load().astype(np.float32) - zero_point.reshape(-1, 1, 1, 1)
    return centred * unit.astype(np.float32).reshape(-1, 1, 1, 1)


def _unit(node: Node, fused: FusedOp, stage: Stage, graph: Graph, y: Tensor) -> float:
    """Real value of one accumulator step after the channel's multiplier."""
    if y.quant is None:
        return stage.scale
    looked_up = TABLE_FUNCTIONS.get(fused.function)
    if looked_up is not None:
        index = stage.lut.multiplier if stage.lut is not None else stage.index_scale
        return index / looked_up.index_units
    unit = stage.scale * stage.second_scale * y.quant.scale
    if fused.join is Join.MUL and len(node.inputs) > 1:  # the registers' scale holds the operand's
        operand = graph.tensors[node.inputs[1]].quant
        return unit / operand.scale if operand is not None else unit
    return unit


def _real_stage(fused: FusedOp, stage: Stage, y: Tensor) -> Stage:
    """What the registers keep as integers, in real numbers: the line of HardSigmoid, the limits of Clip."""
    if y.quant is None:
        return stage
    looked_up = TABLE_FUNCTIONS.get(fused.function)
    if looked_up is not None and looked_up.line:
        offset = stage.lut.offset if stage.lut is not None else stage.index_offset
        return replace(stage, float_line=(32768.0, offset))
    if not fused.applies(Activation.CLIP) or stage.clip is not None:
        return stage
    unit = stage.scale * stage.second_scale * y.quant.scale
    told = [None if limit is None else limit * unit for limit in stage.limits]
    if fused.before is Activation.CLIP:
        low, high = 0.0, float("inf")
    elif y.dtype in RANGES:  # what the output can store is a limit, too, and often the only one
        low, high = ((limit - y.quant.zero_point) * y.quant.scale for limit in RANGES[y.dtype])
    else:
        return stage
    first, last = told
    if first is not None:
        low = first if fused.before is Activation.CLIP else max(low, first)
    return replace(stage, clip=(low, high if last is None else min(high, last)))


# -- other nodes that keep integers of their own --------------------------------------------------------------


def _real_norm(node: Node, graph: Graph, tensors: list[Tensor]) -> Node:
    """Batch normalisation with gamma and beta as real constants (int8: beta holds the zero point)."""
    indices = [i for i in node.inputs[:3] if i >= 0]
    if len(indices) < 3:
        return node
    x, gamma, beta = (graph.tensors[i] for i in indices)
    if x.quant is None or gamma.quant is None or gamma.load is None or beta.load is None:
        return node
    step, scale, zero = gamma.quant.scale, x.quant.scale, x.quant.zero_point

    def factor() -> Array:
        return gamma.value().astype(np.float64) * step

    real_gamma = _constant(tensors, gamma, factor)
    real_beta = _constant(tensors, beta, lambda: (beta.value() * step + zero * factor()) * scale)
    return replace(node, inputs=[node.inputs[0], real_gamma, real_beta, *node.inputs[3:]])


def _constant(tensors: list[Tensor], like: Tensor, load: Callable[[], Array]) -> int:
    """Add a float constant; its index."""
    tensors.append(
        replace(
            like, index=len(tensors), dtype=DType.FLOAT32, quant=None, load=lambda: load().astype(np.float32)
        )
    )
    return len(tensors) - 1


def _real_line(node: Node, row: Operator, graph: Graph) -> Node:
    """HardSigmoid of its own, of whose line the input's steps are a part."""
    x = graph.tensors[node.inputs[0]].quant if node.inputs and node.inputs[0] >= 0 else None
    return replace(node, attrs={**node.attrs, **row.values(node.attrs, node.stage, x)})
