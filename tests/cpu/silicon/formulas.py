"""The integer formulas that people proved on chips byte for byte, in Python's own integers, one element at a time.

Written down from what is published of them (docs/fidelity.md names the measurements), not from the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

__all__ = [
    "average",
    "average_2x2",
    "half_sum",
    "leaky",
    "mean_of_window",
    "product",
    "rne",
    "sat",
    "scaled",
    "stored",
]


def rne(number: int, shift: int) -> int:
    """``number / 2^shift`` to nearest, halves to even."""
    if shift == 0:
        return number
    whole, rest = number >> shift, number & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return whole + (rest > half or (rest == half and whole & 1 == 1))


def sat(number: int, bits: int) -> int:
    """Saturation to a signed number."""
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, number))


def scaled(total: int, multiplier: int, positive: int, negative: int) -> int:
    """A sum with its bias, times the multiplier of its channel; the product is wide under a shift and ends in 32 bits."""
    wide = total * multiplier
    return sat(rne(wide, positive if wide >= 0 else negative), 32)


def stored(value: int, multiplier: int, shift: int, offset: int, first: bool) -> int:
    """The output converter: offset behind the rounding (RK3588, RK3576) or ``first`` (RV1103)."""
    if first:
        return sat(rne(value * multiplier + (offset << shift), shift), 8)
    return sat(rne(value * multiplier, shift) + offset, 8)


def leaky(total: int, multiplier: int, slope: int) -> int:
    """LeakyReLU and PReLU as proven on RV1103: values from 0 up stay unshifted, others lose 14 bits before a slope of 14 bits."""
    wide = total * multiplier
    return sat(wide, 32) if wide >= 0 else sat(rne(wide, 14), 32) * slope


def half_sum(a: int, b: int) -> int:
    """Add of equal steps on RV1103: half of the sum, halves to even."""
    return rne(a + b, 1)


def product(a: int, b: int, zeros: tuple[int, int], multiplier: int, shift: int, offset: int) -> int:
    """Mul on RV1103."""
    return sat(rne((a - zeros[0]) * (b - zeros[1]) * multiplier + (offset << shift), shift), 8)


def average_2x2(window: Sequence[int]) -> int:
    """RV1103: a quarter of the sum, halves to even."""
    return rne(sum(window), 2)


def average(window: Sequence[int], height: int, width: int) -> int:
    """RK3588 and RK3576: a window's sum by two truncated reciprocals, as measured."""
    return mean_of_window(sum(window), height, width)


def mean_of_window(total: int, height: int, width: int, exact: Optional[bool] = None) -> int:
    """``(|sum| + n/2) div n`` with the sign put back; a remainder of exactly half takes a step towards zero: always where a
    reciprocal is inexact, else where the quotient is odd."""
    n = height * width
    quotient, rest = (abs(total) + n // 2) // n, abs(total) % n
    exact = all(0x10000 % side == 0 for side in (height, width)) if exact is None else exact
    if n % 2 == 0 and 2 * rest == n and (not exact or quotient % 2 == 1):
        quotient -= 1
    return -quotient if total < 0 else quotient
