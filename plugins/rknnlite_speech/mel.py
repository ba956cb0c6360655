"""What Whisper's encoder hears: logarithms of the power in bands of the mel scale, as its authors compute them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["HOP", "RATE", "log_mel"]

Array = NDArray[Any]
RATE = 16_000
"""Hz."""
HOP = 160
"""Samples from frame to frame."""
_FFT = 400
_FLOOR = 1e-10
_RANGE = 8.0
"""Powers of ten below the loudest value that are told apart."""
_LINEAR_HZ = 200.0 / 3
"""Slaney's scale: so many Hz are one mel up to 1000 Hz, above it is logarithmic."""
_BREAK_HZ, _BREAK_MEL, _STEP = 1000.0, 15.0, np.log(6.4) / 27


def log_mel(samples: Array, bands: int, frames: int) -> Array:
    """float32 (bands, frames) of mono samples at ``RATE``; silence follows shorter sound, the rest of longer is left out."""
    size = frames * HOP
    padded = np.zeros(size, np.float64)
    padded[: min(size, len(samples))] = samples[:size]
    padded = np.pad(padded, _FFT // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)
    spectrum = np.fft.rfft(sliding_window_view(padded, _FFT)[::HOP][:frames] * window)
    power = spectrum.real**2 + spectrum.imag**2
    log = np.log10(np.maximum(_filters(bands) @ power.T, _FLOOR))
    found: Array = (np.maximum(log, log.max() - _RANGE) + 4.0) / 4.0
    return found.astype(np.float32)


@functools.lru_cache(maxsize=4)
def _filters(bands: int) -> Array:
    """float64 (bands, bins): triangles between neighbours of their own, each of area one."""
    corners = _hz(np.linspace(0.0, _mel(RATE / 2), bands + 2))
    bins = np.linspace(0, RATE / 2, _FFT // 2 + 1)
    away = corners[:, None] - bins
    widths = np.diff(corners)[:, None]
    triangles = np.maximum(0, np.minimum(-away[:-2] / widths[:-1], away[2:] / widths[1:]))
    found: Array = triangles * (2.0 / (corners[2:] - corners[:-2]))[:, None]
    return found


def _mel(hz: float) -> float:
    return float(_BREAK_MEL + np.log(hz / _BREAK_HZ) / _STEP)


def _hz(mel: Array) -> Array:
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, _BREAK_HZ * np.exp((mel - _BREAK_MEL) * _STEP))
