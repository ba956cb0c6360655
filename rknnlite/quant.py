"""Affine quantisation: ``q = clip(round(x / scale) + zero_point)``, ``x = (q - zero_point) * scale``.

Ties round to the even neighbour, as the vendor's simulator does (RKNN user guide, section 6.1.2, names no
tie rule; measured).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ParamInvalid
from .tensor import DType, QuantParams

__all__ = ["RANGES", "dequantise", "largest_sum", "quantise", "split_for_exactness", "to_integer"]

_EXACT = 1 << 24

RANGES = {
    DType.INT4: (-8, 7),
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.UINT16: (0, 65535),
}
"""Smallest and largest quantised value per element type."""


def quantise(
    values: NDArray[np.generic], params: QuantParams, dtype: DType = DType.INT8
) -> NDArray[np.generic]:
    """Real values -> integers of ``dtype``; raises ParamInvalid for a type that is not a quantised one."""
    if dtype not in RANGES:
        raise ParamInvalid(f"cannot quantise to {dtype.name}; use one of {', '.join(d.name for d in RANGES)}")
    low, high = RANGES[dtype]
    real = np.asarray(values, np.float32)
    scaled = np.rint(real / np.float32(params.scale)) + np.float32(params.zero_point)
    stored: NDArray[np.generic] = np.clip(scaled, low, high).astype(dtype.numpy)
    return stored


def dequantise(values: NDArray[np.generic], params: QuantParams) -> NDArray[np.float32]:
    """Integers -> float32 real values."""
    centred = np.asarray(values, np.float32) - np.float32(params.zero_point)
    real: NDArray[np.float32] = centred * np.float32(params.scale)
    return real


def to_integer(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements of an integer or bool type; real numbers are cut off and saturate, NaN is 0."""
    if values.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        high = float(info.max)
        if int(high) > info.max:  # of 64 bits: rounded up, beyond the range
            high = float(np.nextafter(high, 0))
        values = np.clip(np.nan_to_num(values.astype(np.float64)), float(info.min), high)
    return values.astype(dtype)


def split_for_exactness(weight: NDArray[Any], low: float, high: float) -> list[slice]:
    """Cut the input channels of integer weights [OC, IC, kh, kw] so that float32 sums stay exact.

    A float32 matrix product of integers is exact while every partial sum stays below 2**24; parts are to be added in
    float64.
    ``low`` and ``high`` bound the integers that the weights are multiplied with.
    """
    if largest_sum(weight, (1, 2, 3), low, high).max(initial=0) < _EXACT:
        return [slice(0, weight.shape[1])]
    worst = largest_sum(weight, (2, 3), low, high)  # what each pair of channels can add
    parts: list[slice] = []
    start = 0
    total = np.zeros(weight.shape[0])
    for channel in range(weight.shape[1]):
        total += worst[:, channel]
        if total.max() >= _EXACT and channel > start:
            parts.append(slice(start, channel))
            start = channel
            total = worst[:, channel].copy()
    parts.append(slice(start, weight.shape[1]))
    return parts


def largest_sum(weight: NDArray[Any], axes: tuple[int, ...], low: float, high: float) -> NDArray[np.float64]:
    """Largest |sum| over ``axes`` of integer ``weight`` * x for x in [low, high]."""
    size = np.abs(weight)
    count = math.prod(weight.shape[axis] for axis in axes)
    exact = weight.dtype == np.float32 and count * float(size.max(initial=0)) < _EXACT
    kind = np.float32 if exact else np.float64  # adding in double takes four times as long
    magnitude, total = (part.sum(axis=axes, dtype=kind).astype(np.float64) for part in (size, weight))
    positive, negative = (magnitude + total) / 2, (magnitude - total) / 2
    up, down = max(high, 0.0), max(-low, 0.0)
    found: NDArray[np.float64] = np.maximum(positive * up + negative * down, positive * down + negative * up)
    return found
