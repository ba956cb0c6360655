"""Activation tables of the NPU: their values, and parameters of the functions behind them that no attribute holds."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .graph import Lut

__all__ = ["dense_table", "elu_alpha", "hard_sigmoid_line", "interpolate", "silu_beta"]

Array = NDArray[Any]
_MAX_REACH = 1 << 19
_MAX_POINTS = 1 << 21
"""A genuine table covers 32768 indices, and reaches less than ``_MAX_REACH`` beyond its ends."""


def interpolate(lut: Lut, index: Array) -> Array:
    """Table value at real indices: linear between points, the end slopes outside. The readable form."""
    low_x = lut.low_start + lut.low_step * np.arange(513.0)
    high_x = lut.high_start + lut.high_step * np.arange(513.0)
    value = np.where(
        index < lut.high_start, np.interp(index, low_x, lut.low), np.interp(index, high_x, lut.high)
    )
    value = np.where(index < low_x[0], lut.low[0] + (index - low_x[0]) * lut.low_slope, value)
    found: Array = np.where(index > high_x[-1], lut.high[-1] + (index - high_x[-1]) * lut.high_slope, value)
    return found


def dense_table(lut: Lut, scale: float, offset: float, low: float, high: float) -> tuple[int, Array]:
    """The first index, and outputs ``clip(rint(table * scale + offset), low, high)`` for it and those behind it.

    Every integer index up to where the result saturates. Raises ValueError for a table without end.
    """
    first = lut.low_start - _reach(lut.low_slope, scale, low, high)
    last = lut.high_start + 512 * lut.high_step + _reach(lut.high_slope, scale, low, high)
    if not 0 < last - first < _MAX_POINTS:
        raise ValueError(f"its activation table covers the indices {first} to {last}")
    values = interpolate(lut, np.arange(first, last + 1, dtype=np.float64)) * scale + offset
    return first, np.clip(np.rint(values), low, high).astype(np.int32 if high - low > 65535 else np.int16)


def _reach(slope: float, scale: float, low: float, high: float) -> int:
    """How many indices past the end of a table can still change the output."""
    step = abs(slope * scale)
    return 0 if step == 0 else int(min(_MAX_REACH, (high - low) / step + 1))


def elu_alpha(high: Array, index_units: float) -> float:
    """Alpha of a fused Elu from its table: code(x) = 32768 * alpha * exp(x) - 32768 below zero, x = index / index_units."""
    below = np.flatnonzero(high < 0)
    if not len(below):
        return 1.0
    k = int(below[-1])
    x = (32 * k - 16384) / index_units
    return round(float((high[k] + 32768) / 32768 * np.exp(-x)), 4)


def silu_beta(high: Array, index_units: float) -> float:
    """Beta of x * sigmoid(beta * x) from its table (1.702 is the "quick GELU"), x = index / index_units."""
    return 1.0 if high[512] <= 0 else _silu_beta(high.astype(np.float64).tobytes(), index_units)


@lru_cache(maxsize=16)
def _silu_beta(table: bytes, index_units: float) -> float:
    """A search, and all layers of a network have the same table."""
    high, x = np.frombuffer(table), np.arange(513) * 32 / index_units

    def distance(beta: float) -> float:
        f = x / (1 + np.exp(-beta * x))
        return float(np.square(high / high[512] - f / f[512]).sum())

    low, top = 0.1, 8.0
    for _ in range(60):  # ternary search: the distance has one minimum
        a, b = low + (top - low) / 3, top - (top - low) / 3
        low, top = (low, b) if distance(a) < distance(b) else (a, top)
    beta = round((low + top) / 2, 4)
    return 1.0 if abs(beta - 1) < 0.002 else beta


def hard_sigmoid_line(slope: float, offset: float) -> tuple[float, float]:
    """(alpha, beta) of a HardSigmoid whose table is the line 0.5 + index / 32768, with index = slope * x + offset.

    The slope is a 16-bit number. Where beta is 0.5, a short decimal or one over a whole number that it may stand for is
    taken: scales that fit the range (alpha 0.2 on [-2.5, 2.5]) make every second result a tie, and the last bit decides them.
    """
    alpha, beta = slope / 32768, 0.5 + offset / 32768
    if offset or not alpha:
        return alpha, beta
    exact = (*(round(alpha, digits) for digits in (1, 2, 3)), 1 / max(1, round(1 / alpha)))
    return next((number for number in exact if abs(number - alpha) <= alpha * 2.0**-14), alpha), beta
