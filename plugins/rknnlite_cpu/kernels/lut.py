"""The NPU's activation tables as a dense look-up over the integer index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.graph import Lut

__all__ = ["DenseLut", "interpolate"]

Array = NDArray[Any]
_MAX_REACH = 1 << 19
_MAX_POINTS = (
    1 << 21
)  # a genuine table covers 32768 indices, and reaches less than _MAX_REACH beyond its ends


def interpolate(lut: Lut, index: Array) -> Array:
    """Table value at real indices: linear between points, the end slopes outside. The readable form."""
    low_x = lut.low_start + lut.low_step * np.arange(513.0)
    high_x = lut.high_start + lut.high_step * np.arange(513.0)
    value = np.where(
        index < lut.high_start, np.interp(index, low_x, lut.low), np.interp(index, high_x, lut.high)
    )
    value = np.where(index < low_x[0], lut.low[0] + (index - low_x[0]) * lut.low_slope, value)
    return np.where(index > high_x[-1], lut.high[-1] + (index - high_x[-1]) * lut.high_slope, value)


class DenseLut:
    """Output values for every integer index up to where the result saturates.

    Args:
        lut: the table. scale, offset: ``out = clip(rint(table * scale + offset), low, high)``.
    """

    def __init__(self, lut: Lut, scale: float, offset: float, low: float, high: float) -> None:
        first = lut.low_start - self._reach(lut.low_slope, scale, low, high)
        last = lut.high_start + 512 * lut.high_step + self._reach(lut.high_slope, scale, low, high)
        if not 0 < last - first < _MAX_POINTS:
            raise ValueError(f"its activation table covers the indices {first} to {last}")
        values = interpolate(lut, np.arange(first, last + 1, dtype=np.float64)) * scale + offset
        self._table = np.clip(np.rint(values), low, high).astype(np.int32 if high - low > 65535 else np.int16)
        self._first, self._last = np.asarray(first, np.float32), np.asarray(last, np.float32)

    @staticmethod
    def _reach(slope: float, scale: float, low: float, high: float) -> int:
        """How many indices past the end of a table can still change the output."""
        step = abs(slope * scale)
        return 0 if step == 0 else int(min(_MAX_REACH, (high - low) / step + 1))

    def __call__(self, values: Array) -> None:
        """float32 indices become float32 outputs, in place."""
        values.clip(self._first, self._last, out=values)
        np.subtract(values, self._first, out=values)
        np.rint(values, out=values)
        values[...] = self._table.take(
            values.astype(np.intp), mode="clip"
        )  # all are inside: no second look is needed
