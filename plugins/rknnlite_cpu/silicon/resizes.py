"""Bilinear resizes of 8 bits: a depthwise convolution for every phase of the result, with whole weights."""

from __future__ import annotations

from functools import partial
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.output_registers import OutputRegisters
from rknnlite_graph.resize_coordinates import Linear, resize_steps

from ..values import Kernel
from .arithmetic import Array, output_converter

__all__ = ["linear_kernel"]


def linear_kernel(view: NodeView, registers: OutputRegisters) -> Optional[Kernel]:
    """The kernel of a linear resize of maps whose result has the steps of its operand; else None.

    The output converter divides by about the sum of the weights of a phase, so that halves fall below or above it: twice as
    large has weights of 27, 81, 81 and 243, and a factor of 19418 / 2^23, which is 0.999996 / 432.
    """
    x, y, steps = view.tensor(0), view.outputs[0], resize_steps(view)
    if not isinstance(steps, Linear) or not steps.corners or x.quant is None or x.quant != y.quant:
        return None
    total = np.rint(2.0**registers.out_shift / max(1, registers.out_multiplier))
    rows, columns = steps.ends[2], steps.ends[3]
    corners: list[tuple[Array, Array, Array]] = []
    for row, down in ((rows.low, rows.before), (rows.high, rows.after)):
        for column, across in ((columns.low, columns.before), (columns.high, columns.after)):
            weights = total * np.outer(down, across).astype(np.float64)
            if total == 1 or (weights != np.rint(weights)).any():
                return None
            corners.append((row, column, weights))
    return partial(_resized, corners=corners, registers=registers, y=y)


def _resized(
    values: list[Array], corners: list[tuple[Array, Array, Array]], registers: OutputRegisters, y: Tensor
) -> list[Array]:
    x = values[0].astype(np.float64)
    sums = np.zeros((*x.shape[:2], *corners[0][2].shape))
    for row, column, weights in corners:
        sums += x[:, :, row[:, None], column] * weights
    out = np.empty(sums.shape, np.float32)
    output_converter(registers, y)(sums, out)
    return [out]
