"""BN and EW as RV1103B has them: one unit with one sum, one product and a table.

Found by comparing files of the same networks for RV1103B and RV1106.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from . import numbers as n
from .lut import Tables, look_at_tables
from .registers import Field, UnitRegisters
from .scaling import alu, limited, limits_of, scalar

__all__ = ["joined"]

BYPASS = Field("EW_BYPASS", 0x404C, 0, 0)
ALU_BYPASS = Field("EW_ALU_BYPASS", 0x404C, 1, 1)
MUL_BYPASS = Field("EW_MUL_BYPASS", 0x404C, 2, 2)
ALU_FETCHED = Field("EW_ALU_SRC", 0x404C, 4, 4)
MUL_FETCHED = Field("EW_MUL_SRC", 0x404C, 5, 5)
PER_CHANNEL = Field("EW_ALU_CHANNELS", 0x404C, 7, 7)
PRODUCT = Field("EW_PRODUCT", 0x404C, 8, 8)
PRELU = Field("EW_MUL_PRELU", 0x404C, 10, 10)
TABLE_BYPASS = Field("EW_LUT_BYPASS", 0x404C, 11, 11)
ALGORITHM = Field("EW_ALU_ALGO", 0x404C, 19, 16)
SHIFT = Field("EW_CVT_SHIFT", 0x404C, 23, 20)
CONVERTED = Field("EW_CVT", 0x404C, 29, 28)
OPERAND = Field("EW_ALU_OPERAND", 0x4050)
FACTOR = Field("EW_MUL_OPERAND", 0x4050, 15, 0, signed=True)
SCALE = Field("EW_CVT_SCALE", 0x4088, 15, 0, signed=True)
OFFSET = Field("EW_CVT_OFFSET", 0x4088, 31, 16, signed=True)
FACTOR_SHIFT = Field("EW_MUL_SHIFT", 0x4080, 21, 16), Field("EW_MUL_SHIFT_NEG", 0x4080, 29, 24)
LOW = Field("EW_LOW", 0x405C), Field("EW_LOW", 0x4064)
HIGH = Field("EW_HIGH", 0x4060), Field("EW_HIGH", 0x4068)

_LOOKED_AT = (
    *(BYPASS, ALU_BYPASS, MUL_BYPASS, ALU_FETCHED, MUL_FETCHED, PER_CHANNEL, PRODUCT, PRELU, TABLE_BYPASS),
    *(ALGORITHM, SHIFT, CONVERTED, OPERAND, SCALE, OFFSET, *FACTOR_SHIFT),
)
_AS_IT_IS, _BY_SCALE = 1, 2  # EW_CVT
_UNIT_SCALE = 1


def joined(r: UnitRegisters, x: n.Values, fetched: Optional[n.Values], tables: Tables) -> n.Values:
    """What becomes of integers (H, W, C); ``fetched`` is the second operand."""
    for field in _LOOKED_AT:
        r.look(field)
    look_at_tables(r)
    limits = limits_of(r, LOW, HIGH)
    if r[BYPASS]:
        return x
    if not r[TABLE_BYPASS]:
        x = tables.look_up(r, x)
    adds, multiplies = not r[ALU_BYPASS], not r[MUL_BYPASS]
    if adds and multiplies:
        r.refuse(MUL_BYPASS, "products and sums together")
    if not multiplies:
        r.need(FACTOR_SHIFT[0], 0)
    if adds:
        operand = _fetched(r, x, fetched) if r[ALU_FETCHED] else scalar(r, OPERAND, x)
        x = alu(r, ALGORITHM, x, operand)
    elif multiplies:
        operand = _fetched(r, x, fetched) if r[MUL_FETCHED] else np.array([float(r[FACTOR])])
        x = np.where(x < 0, x * operand, x) if r[PRELU] else x * operand
        up, down = (r[field] for field in FACTOR_SHIFT)
        x = n.shifted(x, up) if up == down else np.where(x < 0, n.shifted(x.copy(), down), n.shifted(x, up))
    return limited(r, limits, n.saturated(x, n.INT32))


def _fetched(r: UnitRegisters, x: n.Values, operand: Optional[n.Values]) -> n.Values:
    """The second operand, as wide as ``x``; converted where it is asked for."""
    if operand is None:
        r.refuse(ALU_FETCHED if r[ALU_FETCHED] else MUL_FETCHED, "no operand is fetched")
    if r[CONVERTED] == _AS_IT_IS and not (r[PER_CHANNEL] or (r[PRELU] and r[MUL_FETCHED])):
        r.refuse(CONVERTED, "elements of eight bits that are not converted")
    if r.need(CONVERTED, _AS_IT_IS, _BY_SCALE) == _BY_SCALE:
        operand = n.shifted((operand + r[OFFSET]) * r[SCALE], r[SHIFT])
    else:
        for field, value in ((SCALE, _UNIT_SCALE), (OFFSET, 0), (SHIFT, 0)):
            r.need(field, value, why="an operand that is taken as it is")
    missing = x.shape[-1] - operand.shape[-1]
    if operand.shape[-1] > 1 and missing > 0:
        lacking = np.zeros((*operand.shape[:-1], missing), operand.dtype)
        operand = np.concatenate([operand, lacking], axis=-1)
    if operand.ndim == 3 and operand.shape[:2] != x.shape[:2]:
        r.refuse(ALU_FETCHED, f"an operand of {operand.shape} for {x.shape}")
    return operand[..., : x.shape[-1]]
