"""Largest numbers of windows as RV1103B finds them: where a convolution would have its sums."""

from __future__ import annotations

import numpy as np

from . import numbers as n
from .cna import (
    CHANNEL,
    KERNEL,
    KERNEL_BYTES,
    KERNELS,
    MODE,
    OUT_ATOMS,
    OUT_WIDTH,
    PAD,
    READ_CHANNEL,
    STRIDE,
    WEIGHT_BYTES,
    converted,
    pad_value,
    surfaces,
)
from .core import Sums
from .memory import Memory
from .registers import Field, UnitRegisters
from .surfaces import check_size

__all__ = ["POOLS", "maxima"]

POOLS = Field("POOLING", 0x1014, 30, 30)
_WITH_POOLING = Field("POOLING_TOO", 0x1048, 17, 17)
_BYTES = 16  # of a tap, though there are no weights


def maxima(r: UnitRegisters, memory: Memory) -> Sums:
    """(H, W, C). Raises MachineRefused."""
    r.need(_WITH_POOLING, 1)
    r.need(MODE, 1)
    features = converted(r, surfaces(r, memory, n.INT8, row_unit=1))
    pad = pad_value(r, n.INT8)
    rows, columns = r[KERNEL[0]], r[KERNEL[1]]
    r.need(KERNEL_BYTES, _BYTES * rows * columns)
    _ = r[CHANNEL], r[READ_CHANNEL], r[WEIGHT_BYTES], r[KERNELS], r[POOLS]
    width = r[OUT_WIDTH]
    height = r[OUT_ATOMS] // width
    (top, left), (down, across) = (r[PAD[0]], r[PAD[1]]), (r[STRIDE[0]], r[STRIDE[1]])
    shape = (
        max(features.shape[0] + top, (height - 1) * down + rows),
        max(features.shape[1] + left, (width - 1) * across + columns),
        features.shape[2],
    )
    check_size(r.unit, r.task, *shape)
    padded = np.full(shape, pad, np.float64)
    padded[top : top + features.shape[0], left : left + features.shape[1]] = features
    windows = [
        padded[
            y : y + (height - 1) * down + 1 : max(1, down), x : x + (width - 1) * across + 1 : max(1, across)
        ]
        for y in range(rows)
        for x in range(columns)
    ]
    r.finish({})
    return Sums(np.maximum.reduce(windows), None, 0, pooled=True)
