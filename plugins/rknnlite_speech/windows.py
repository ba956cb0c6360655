"""Long sound in windows that end where it is quiet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["window_end"]

Array = NDArray[Any]
_SEARCHED = 0.25
"""The last part of a window, in which it may end."""
_FRAME = 1600
"""Samples whose power is looked at together: 0.1 s."""
_MOVE = 400


def window_end(samples: Array, start: int, size: int) -> int:
    """Where the window that begins at ``start`` ends: at the end, else in the quietest tenth of a second of its last quarter."""
    if len(samples) - start <= size:
        return len(samples)
    begin = start + size - int(size * _SEARCHED)
    powers = np.cumsum(np.concatenate([[0.0], np.square(samples[begin : start + size], dtype=np.float64)]))
    if len(powers) <= _FRAME:
        return start + size
    sums = powers[_FRAME:] - powers[:-_FRAME]
    # of several as quiet the latest: the window holds most
    latest = len(sums[::_MOVE]) - 1 - int(np.argmin(sums[::_MOVE][::-1]))
    return begin + latest * _MOVE + _FRAME // 2
