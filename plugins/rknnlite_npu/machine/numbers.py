"""Element types and roundings of the NPU.

Integers are computed in float64, where every sum, product with a 16-bit number and shift of an int32 is exact; floats in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NAMES",
    "SIZES",
    "Values",
    "as_float32",
    "as_fp17",
    "as_half",
    "decoded",
    "encoded",
    "is_float",
    "limits",
    "saturated",
    "shifted",
]

Values = NDArray[Any]
"""float64 that hold integers, or float32."""

INT8, INT16, FP16, BF16, INT32, FP32 = 0, 1, 2, 3, 4, 5  # what fields of precision hold
NAMES = {INT8: "int8", INT16: "int16", FP16: "fp16", BF16: "bf16", INT32: "int32", FP32: "fp32"}
SIZES = {INT8: 1, INT16: 2, FP16: 2, BF16: 2, INT32: 4, FP32: 4}
"""Bytes of an element by its code in precision fields."""
_STORED = {INT8: "<i1", INT16: "<i2", FP16: "<f2", BF16: "<u2", INT32: "<i4", FP32: "<f4"}


def is_float(precision: int) -> bool:
    """Whether elements of this type are floats."""
    return precision in (FP16, BF16, FP32)


def limits(precision: int) -> tuple[int, int]:
    """The least and largest integer of a type."""
    bits = 8 * SIZES[precision]
    return -(1 << bits - 1), (1 << bits - 1) - 1


def decoded(stored: NDArray[np.uint8], precision: int) -> Values:
    """Numbers of bytes; the last axis is that of bytes and shrinks to elements. Integers keep their type."""
    values = stored.view(_STORED[precision])
    if precision == BF16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32) if precision == FP16 else values


def encoded(values: Values, precision: int) -> Values:
    """Numbers as they are stored, rounded half to even; integers saturate, floats beyond fp16 become infinite."""
    if precision == BF16:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(values), 0x7FC0, rounded).astype("<u2")
    if is_float(precision):
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(_STORED[precision])
    low, high = limits(precision)
    if values.dtype == np.float32:
        values = np.rint(np.nan_to_num(values, nan=0.0, posinf=high, neginf=low).astype(np.float64))
    return np.clip(values, low, high).astype(_STORED[precision])


def saturated(values: Values, precision: int) -> Values:
    """Integers limited to a type."""
    low, high = limits(precision)
    return np.clip(values, low, high)


def shifted(values: Values, shift: int, away: bool = False) -> Values:
    """``values / 2^shift`` to the nearest integer, ties to even, or with ``away`` away from zero."""
    if shift <= 0:
        return values
    scaled = values * 2.0**-shift
    if away:
        return np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return np.rint(scaled, out=scaled)


def as_half(bits: int) -> float:
    """The number of 16 bits of fp16."""
    return float(np.array([bits & 0xFFFF], "<u2").view("<f2")[0])


def as_fp17(bits: int) -> float:
    """The number of 17 bits, 6 of them an exponent, in which the PPU has the reciprocals of floats."""
    exponent, fraction = bits >> 10 & 0x3F, bits & 0x3FF
    return (1 + fraction / 1024) * 2.0 ** (exponent - 31) if exponent else 0.0


def as_float32(bits: int) -> float:
    """The number of 32 bits of fp32."""
    return float(np.array([bits & 0xFFFFFFFF], "<u4").view("<f4")[0])
