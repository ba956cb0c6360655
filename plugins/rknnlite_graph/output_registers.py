"""The output stage of a node as integers, as the NPU's registers hold it: what a chip computes with, digit for digit.

Units in the order in which a sum passes them: BS (bias, a multiplier per channel), BN (slopes, a second factor, indices of a
table), EW (a further operand), the output converter. ``graph.Stage`` has the same as factors.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OutputRegisters"]


@dataclass(frozen=True)
class OutputRegisters:
    """Integers of one output stage; each shift divides by its power of two.

    BS: ``bs_offset`` and ``bs_multiplier`` are those of all channels, for nodes that have none per channel, ``bs_limit`` the upper
    limit of a Clip; ``bs_shift`` of
    products from 0 up, ``bs_shift_negative`` of those below.
    BN: ``bn_multiplier`` (of values below zero only, where it is a slope), ``bn_shift`` and ``bn_shift_negative``, ``bn_offset``.
    ``bn_offset_first``: the offset comes before the multiplier, else behind it; before the shift either way.
    EW: an operand becomes ``(it + ew_offset) * ew_scale / 2^ew_shift``; products of two are shifted by ``ew_product_shift``.
    Output: ``out_multiplier``, ``out_shift``, ``out_offset``; ``out_round_away``: halves go away from zero, not to even;
    ``out_offset_first``: the offset is added before rounding, so that halves are those of the stored value.
    ``truncation`` shifts the sum before the bias.
    """

    bs_shift: int = 0
    bs_shift_negative: int = 0
    out_multiplier: int = 1
    out_shift: int = 0
    out_round_away: bool = False
    out_offset: int = 0
    ew_offset: int = 0
    ew_scale: int = 1
    ew_shift: int = 0
    bn_multiplier: int = 1
    bn_shift: int = 0
    bs_offset: int = 0
    bs_limit: int = 0
    bs_multiplier: int = 1
    bn_shift_negative: int = 0
    bn_offset: int = 0
    bn_offset_first: bool = False
    ew_product_shift: int = 0
    out_offset_first: bool = False
    truncation: int = 0
