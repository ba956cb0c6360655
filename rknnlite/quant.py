"""Affine quantisation: ``q = clip(round(x / scale) + zero_point)``, ``x = (q - zero_point) * scale``.

Ties round to the even neighbour, as the vendor's simulator does (RKNN user guide, section 6.1.2, names no
tie rule; measured).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ParamInvalid
from .tensor import DType, QuantParams

__all__ = ["RANGES", "dequantise", "quantise", "to_integer"]

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
        values = np.clip(np.nan_to_num(values.astype(np.float64)), float(info.min), float(info.max))
    return values.astype(dtype)
