"""Matrix products written down plainly, for comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rknnlite.spi.matmul import MatmulType
from rknnlite.tensor import DType

RANGES = {
    DType.INT4: (-8, 7),
    DType.INT8: (-128, 127),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
}


@dataclass
class Quant:
    """Scales and zero points; those of B spread to [K, N] before they are given."""

    scale: Any = 1.0
    zero: Any = 0


@dataclass
class Quants:
    a: Quant = field(default_factory=Quant)
    b: Quant = field(default_factory=Quant)
    c: Quant = field(default_factory=Quant)


def random_matrix(rng: np.random.Generator, dtype: DType, shape: tuple[int, int]) -> np.ndarray:
    """Values of the full range; floats that float32 sums hold exactly enough."""
    if dtype is DType.FLOAT16:
        return rng.normal(0, 1, shape).astype(np.float16)
    low, high = RANGES[dtype]
    return rng.integers(low, high + 1, shape).astype(np.int8)


def product(kind: MatmulType, a: np.ndarray, b: np.ndarray, quants: Quants | None = None) -> np.ndarray:
    """C in float64 or exact integers, in the elements of its type (bfloat16: the float64 value)."""
    quants = quants or Quants()
    dtypes = kind.dtypes
    left, right = a.astype(np.float64) - quants.a.zero, b.astype(np.float64) - quants.b.zero
    c = dtypes[2]
    if c in (DType.INT32, DType.INT16):
        unit = np.broadcast_to(np.asarray(quants.b.scale, np.float64), right.shape)
        sums = left @ (right * (unit / unit.max()))
        low, high = RANGES[c]
        return np.clip(np.rint(sums), low, high).astype(c.numpy)
    real = (left * quants.a.scale) @ (right * quants.b.scale)
    if c is DType.INT8:
        return np.clip(np.rint(real / quants.c.scale) + quants.c.zero, -128, 127).astype(np.int8)
    return real
