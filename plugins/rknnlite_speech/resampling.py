"""Another sample rate for the same sound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .sound import Sound

__all__ = ["resampled"]

Array = NDArray[Any]
_CROSSINGS = 24
"""Zero crossings of the sinc on each side."""
_BETA = 8.0
"""Of the Kaiser window: what aliases is 80 dB below."""
_PASSED = 0.94
"""Share of the lower rate's band that passes."""


def resampled(sound: Sound, rate: int) -> Sound:
    """The sound at ``rate`` Hz, by a windowed sinc in its phases; ceil(n * rate / old rate) samples."""
    if sound.rate == rate:
        return sound
    common = math.gcd(rate, sound.rate)
    up, down = rate // common, sound.rate // common
    count = -(-len(sound.samples) * up // down)
    cutoff = _PASSED * min(1.0, up / down)  # of the old rate's band
    half = math.ceil(_CROSSINGS / cutoff)
    windows = sliding_window_view(np.pad(sound.samples, (half, half + down)), 2 * half + 1)
    made = np.empty(count, np.float32)
    for phase in range(min(up, count)):
        base, part = divmod(phase * down, up)
        made[phase::up] = windows[base::down][: len(made[phase::up])] @ _taps(part / up, half, cutoff)
    return Sound(made, rate)


def _taps(shift: float, half: int, cutoff: float) -> Array:
    """Weights float32 (2 half + 1,) of the samples around a point that lies ``shift`` behind the middle one."""
    away = np.arange(-half, half + 1) - shift
    inside = np.clip(1 - (away / (half + 1)) ** 2, 0, 1)
    weights = np.sinc(cutoff * away) * np.i0(_BETA * np.sqrt(inside))
    found: Array = (weights / weights.sum()).astype(np.float32)
    return found
