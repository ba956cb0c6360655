"""Number formats of a quantised KV cache: integers and small floating-point numbers (FP8, FP4), and rounding to FP8 for computing.

FP8 is E4M3 without infinities (largest number 448), FP4 is E2M1 (largest 6); both round to nearest, ties to even, and saturate.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Code", "FloatCode", "IntCode", "code_of", "to_fp8"]

Array = NDArray[Any]
_LARGEST = np.float32(448)
_SMALLEST_NORMAL = np.float32(2.0**-6)
_SUBNORMALS = np.float32(2.0**9)
_DROPPED = 20  # bits of a float32 mantissa beyond three


class Code(Protocol):
    """Numbers of a few bits; ``top`` is the largest."""

    bits: int
    top: np.float32

    def encode(self, values: Array) -> Array:
        """float32 in -top..top -> int8 codes, of four bits the lower ones count."""

    def decode(self, codes: Array) -> Array:
        """int8 codes (four bits sign-extended) -> float32."""


class IntCode:
    """Integers that are symmetric about 0."""

    def __init__(self, bits: int) -> None:
        self.bits, self.top = bits, np.float32((1 << (bits - 1)) - 1)

    def encode(self, values: Array) -> Array:
        """See ``Code``."""
        return np.clip(np.rint(values), -self.top, self.top).astype(np.int8)

    def decode(self, codes: Array) -> Array:
        """See ``Code``."""
        return codes.astype(np.float32)


class FloatCode:
    """Sign, exponent and mantissa: ``positive`` are the numbers of codes 0, 1, ...

    ``table``: the number of every code, float32; ``between``: what lies in the middle of two positive ones.
    """

    def __init__(self, bits: int, positive: Array) -> None:
        self.bits, self.top = bits, positive[-1]
        self.between = (positive[1:] + positive[:-1]) / 2
        self._sign, self._mask = 1 << (bits - 1), (1 << bits) - 1
        self.table = np.zeros(1 << bits, np.float32)
        self.table[: len(positive)] = positive
        self.table[self._sign : self._sign + len(positive)] = -positive

    def encode(self, values: Array) -> Array:
        """See ``Code``."""
        size = np.abs(values)
        codes = np.searchsorted(self.between, size)  # a tie: the lower one
        tied = size == self.between[np.minimum(codes, len(self.between) - 1)]
        codes += tied & (codes % 2 == 1)
        return (codes | np.where(np.signbit(values), self._sign, 0)).astype(np.uint8).view(np.int8)

    def decode(self, codes: Array) -> Array:
        """See ``Code``."""
        return self.table[codes.view(np.uint8) & np.uint8(self._mask)]


def _small_floats(exponent: int, mantissa: int, bias: int, count: int) -> Array:
    codes = np.arange(count)
    exponents, rest = codes >> mantissa, (codes & ((1 << mantissa) - 1)) / (1 << mantissa)
    normal = (1 + rest) * 2.0 ** (exponents - bias)
    assert exponents.max() < 1 << exponent
    return np.where(exponents == 0, rest * 2.0 ** (1 - bias), normal).astype(np.float32)


_CODES: dict[str, Code] = {
    "int8": IntCode(8),
    "int4": IntCode(4),
    "float8": FloatCode(8, _small_floats(4, 3, 7, 127)),
    "float4": FloatCode(4, _small_floats(2, 1, 1, 8)),
}


def code_of(name: str) -> Code:
    """``int8``, ``int4``, ``float8`` or ``float4``."""
    return _CODES[name]


def to_fp8(values: Array) -> Array:
    """float32 values rounded to FP8, as float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(_DROPPED)) & np.uint32(1)
    half = np.uint32((1 << (_DROPPED - 1)) - 1)
    rounded = ((bits + half + odd) & np.uint32(0xFFFFFFFF ^ ((1 << _DROPPED) - 1))).view(np.float32)
    small = np.abs(values) < _SMALLEST_NORMAL
    rounded = np.where(small, np.rint(values * _SUBNORMALS) / _SUBNORMALS, rounded)
    return np.clip(rounded, -_LARGEST, _LARGEST)
