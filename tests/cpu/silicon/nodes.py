"""Nodes of one layer with integers of their own, computed in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from rknnlite_cpu.plan import ExecutionPlan
from rknnlite_graph.graph import ConvParams, Stage, Tensor
from rknnlite_graph.output_registers import OutputRegisters

from rknnlite.tensor import DType, QuantParams
from tests.support.graphs import one_node, tensor

Array = Any


def int8(name: str, shape: Sequence[int], zero: int, scale: float = 1.0) -> Tensor:
    return tensor(name, shape, DType.INT8, QuantParams(scale, zero))


def in_registers(registers: OutputRegisters, **further: Any) -> Stage:
    return Stage(registers=registers, in_registers=True, **further)


def convolution(
    op: str,
    weight: Array,
    bias: Array,
    multiplier: Array,
    stage: Stage,
    zeros: tuple[int, int],
    size: int,
    slope: Optional[Array] = None,
    beside: Optional[int] = None,
) -> ExecutionPlan:
    """A layer of stride 1 with ``weight`` [OC, IC or 1, k, k] on pictures of ``size``; ``bias`` is that of the network, and
    ``beside`` the zero point of what is added."""
    depthwise = weight.shape[1] == 1
    channels = weight.shape[0] if depthwise else weight.shape[1]
    out = size - weight.shape[2] + 1
    folded = bias - zeros[0] * weight.reshape(len(weight), -1).sum(axis=1)
    conv = ConvParams(
        weight=lambda: weight.astype(np.float32), weight_shape=weight.shape, quantised=True, depthwise=depthwise,
        transposed=False, strides=(1, 1), dilations=(1, 1), pads=(0, 0), bias=folded.astype(np.float64),
        zero_point=np.zeros(len(weight), np.float32), multiplier=multiplier * 2.0**-14,
        stored_multiplier=multiplier.astype(np.float64), slope=slope,
    )  # fmt: skip
    operands = [int8("x", (1, channels, size, size), zeros[0])]
    result = int8("y", (1, len(weight), out, out), zeros[1])
    if beside is not None:
        operands.append(int8("z", result.shape, beside))
    return one_node(op, operands, [result], conv=conv, stage=stage)


def run_stored(plan: ExecutionPlan, *arrays: Array) -> Array:
    """Stored elements in, stored elements out."""
    tensors = plan.graph.tensors
    feeds = {
        index: (array - tensors[index].quant.zero_point).astype(np.float32)  # type: ignore[union-attr]
        for index, array in zip(plan.graph.inputs, arrays)
    }
    (index,) = plan.graph.outputs
    quant = tensors[index].quant
    assert quant is not None
    return (plan.run(feeds)[index] + quant.zero_point).astype(np.int64)


def sums(x: Array, weight: Array, bias: Array, zero: int) -> Array:
    """[OC, OH, OW] sums with bias, of stored values ``x`` [IC, H, W], one by one in int64."""
    centred = x.astype(np.int64) - zero
    count, _, k, _ = weight.shape
    out = x.shape[1] - k + 1
    found = np.zeros((count, out, out), np.int64)
    for channel in range(count):
        picked = centred[channel : channel + 1] if weight.shape[1] == 1 else centred
        for row in range(out):
            for column in range(out):
                window = picked[:, row : row + k, column : column + k]
                found[channel, row, column] = int((window * weight[channel].astype(np.int64)).sum()) + int(
                    bias[channel]
                )
    return found


__all__ = ["convolution", "in_registers", "int8", "run_stored", "sums"]
