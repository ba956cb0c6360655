"""From pixels to the values that a network was trained on, as nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rknnlite.formats import IoTensor

from .emitter import Emitter

__all__ = ["normalised"]

Array = NDArray[np.float32]


def normalised(e: Emitter, name: str, io: IoTensor) -> str:
    """(pixel - mean) / deviation per channel, in float32 as the CPU reference computes it; the name itself without these."""
    channels = io.shape[1] if len(io.shape) == 4 else 0
    mean, std = _per_channel(io.mean, channels, 0.0), _per_channel(io.std, channels, 1.0)
    if not mean.any() and (std == 1).all():
        return name
    return e.node("Div", e.node("Sub", name, e.constant(mean)), e.constant(std))


def _per_channel(numbers: tuple[float, ...], channels: int, default: float) -> Array:
    """[1, C, 1, 1], or one number where there are no channels."""
    if len(numbers) == 1 or not channels:
        numbers = (numbers if len(numbers) == 1 else (default,)) * max(1, channels)
    elif len(numbers) != channels:
        numbers = (default,) * channels
    found = np.asarray(numbers, np.float32)
    return found.reshape(1, -1, 1, 1) if channels else found.reshape(())
