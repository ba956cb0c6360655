"""What is left of real values once a tensor has stored them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .dumps import DumpedTensor

__all__ = ["LARGEST_HALF", "limits_of", "stored_values"]

Array = NDArray[Any]
_INTEGERS = ("int8", "uint8", "int16", "uint16")
_HALVES = ("fp16", "float16")
LARGEST_HALF = 65504.0
"""The largest number of float16."""


def limits_of(entry: DumpedTensor) -> Optional[tuple[float, float]]:
    """The least and the largest real value that a tensor can hold; None where it is neither quantised nor float16."""
    kind = entry.dtype.lower()
    if kind in _HALVES:
        return -LARGEST_HALF, LARGEST_HALF
    if not entry.scale or entry.zero_point is None or kind not in _INTEGERS:
        return None
    about = np.iinfo(kind)
    return (about.min - entry.zero_point) * entry.scale, (about.max - entry.zero_point) * entry.scale


def stored_values(values: Array, entry: DumpedTensor) -> Optional[Array]:
    """Values rounded to a tensor's own integers, with their range, or to float16; None where it is neither."""
    kind = entry.dtype.lower()
    with np.errstate(invalid="ignore", over="ignore"):
        if kind in _HALVES:
            return values.astype(np.float16).astype(np.float32)
        if not entry.scale or entry.zero_point is None or kind not in _INTEGERS:
            return None
        about = np.iinfo(kind)
        integers = np.rint(values.astype(np.float32) / np.float32(entry.scale)) + entry.zero_point
        found: Array = (integers.clip(about.min, about.max) - entry.zero_point) * np.float32(entry.scale)
        return found
