"""Roundings of the NPU's output stage in double, where every product of its integers is exact.

Measured on RK3588, RK3576 and RV1103 by people who compared chips byte for byte (docs/fidelity.md): shifts round to nearest,
halves to even; products stay wide under a shift and end in 32 bits. A sum has 32 bits and a multiplier 16, so that their
product, and its part below a shift, fit the 53 bits of a double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import Tensor
from rknnlite_graph.output_registers import OutputRegisters

from ..values import centred_range

__all__ = [
    "Array",
    "Converter",
    "output_converter",
    "saturate",
    "shift",
    "shift_by_sign",
    "shift_wide_by_sign",
]

Array = NDArray[Any]
Converter = Callable[[Array, Array], None]
"""(values behind all units, which are used up; place for centred results)."""

_LEAST, _MOST = -(2.0**31), 2.0**31 - 1
_SIGN = 1 << 15


def saturate(values: Array) -> Array:
    """32 bits, in place."""
    return np.clip(values, _LEAST, _MOST, out=values)


def shift(products: Array, bits: int) -> Array:
    """``products / 2^bits`` to nearest, halves to even, in 32 bits; in place."""
    if bits:
        products *= 2.0**-bits
        np.rint(products, out=products)
    return saturate(products)


def shift_by_sign(products: Array, bits: int, negative: int) -> Array:
    """As ``shift``, with bits of their own for products below zero."""
    if bits == negative:
        return shift(products, bits)
    products *= np.where(products < 0, 2.0**-negative, 2.0**-bits)
    np.rint(products, out=products)
    return saturate(products)


def shift_wide_by_sign(products: Array, bits: int, negative: int) -> Array:
    """As ``shift_by_sign``, of int64 products of 16-bit layers, which pass the 53 bits of a double; the results are double."""
    by = np.where(products < 0, negative, bits).astype(np.int64)
    whole = products >> by
    rest, half = products - (whole << by), np.left_shift(1, np.maximum(by - 1, 0))
    up = (rest > half) | ((rest == half) & (whole & 1 == 1))
    return saturate((whole + (up & (by > 0))).astype(np.float64))


def output_converter(registers: OutputRegisters, y: Tensor) -> Converter:
    """What stores values: multiplier (16 bits with a sign) and shift, rounding, offset, the range of ``y``."""
    assert y.quant is not None
    multiplier = registers.out_multiplier - (2 * _SIGN if registers.out_multiplier & _SIGN else 0)
    factor = multiplier * 2.0**-registers.out_shift
    low, high = (np.float64(limit) for limit in centred_range(y))
    offset = registers.out_offset
    # an even part may as well follow: it leaves halves where they are, and no bit of a small value is lost
    before = offset if registers.out_round_away else offset & 1
    before = before if registers.out_offset_first else 0
    behind = np.float64(offset - before - y.quant.zero_point)

    def convert(values: Array, out: Array) -> None:
        values *= factor
        if before:
            values += before
        if registers.out_round_away:
            values[...] = np.copysign(np.floor(np.abs(values) + 0.5), values)
        else:
            np.rint(values, out=values)
        if behind:
            values += behind
        np.clip(values, low, high, out=out, casting="unsafe")

    return convert
