"""EW, the last stage before the output converter: tables, an operation with a second operand, limits."""

from __future__ import annotations

from typing import Optional

import numpy as np

from . import numbers as n
from .lut import Tables, look_at_tables
from .registers import Field, UnitRegisters
from .scaling import alu, at_most, limit_fields, limited, limits_of, scalar

__all__ = ["elementwise"]

CONVERT_TYPE = Field("EW_CVT_TYPE", 0x4070, 31, 31)
CONVERT_ROUND = Field("EW_CVT_ROUND", 0x4070, 30, 30)
MODE = Field("EW_DATA_MODE", 0x4070, 29, 28)
SIZE = Field("EDATA_SIZE", 0x4070, 23, 22)
EQUAL = Field("EW_EQUAL_EN", 0x4070, 21, 21)
BINARY = Field("EW_BINARY_EN", 0x4070, 20, 20)
ALGORITHM = Field("EW_ALU_ALGO", 0x4070, 19, 16)
LIMITED = Field("EW_RELUX_EN", 0x4070, 10, 10)
RELU_BYPASS = Field("EW_RELU_BYPASS", 0x4070, 9, 9)
CONVERT_BYPASS = Field("EW_OP_CVT_BYPASS", 0x4070, 8, 8)
TABLE_BYPASS = Field("EW_LUT_BYPASS", 0x4070, 7, 7)
FETCHED = Field("EW_OP_SRC", 0x4070, 6, 6)
PRELU = Field("EW_MUL_PRELU", 0x4070, 5, 5)
MULTIPLIES = Field("EW_OP_TYPE", 0x4070, 2, 2)
OPERATION_BYPASS = Field("EW_OP_BYPASS", 0x4070, 1, 1)
BYPASS = Field("EW_BYPASS", 0x4070, 0, 0)
OFFSET = Field("EW_CVT_OFFSET", 0x4074, signed=True)
SHIFT = Field("EW_TRUNCATE", 0x4078, 31, 22)
SHIFT_NEGATIVE = Field("EW_TRUNCATE_NEG", 0x4010, 25, 16)
CONVERT_SHIFT = Field("EW_CVT_SHIFT", 0x4078, 21, 16)
SCALE = Field("EW_CVT_SCALE", 0x4078, 15, 0, signed=True)
LIMIT = Field("EW_RELUX_CMP", 0x407C)
LOW, HIGH = limit_fields("EW", 0x4088, 0x40A4)
ALU_FETCHED, MUL_FETCHED = Field("EW_ALU_SRC", 0x407C, 15, 15), Field("EW_MUL_SRC", 0x407C, 4, 4)
ALU_OFF, MUL_OFF, DIVIDE_OFF = (
    Field("EW_ALU_BYPASS", 0x407C, 24, 24),
    Field("EW_MUL_BYPASS", 0x407C, 6, 6),
    Field("EW_DIV_BYPASS", 0x407C, 14, 14),
)
"""Of designs that have the three apart."""
_APART = ALU_FETCHED, MUL_FETCHED, ALU_OFF, MUL_OFF, DIVIDE_OFF
OPERANDS = tuple(Field(f"EW_OP_VALUE_{k}", 0x4090 + 4 * k) for k in range(8))

_LOOKED_AT = (
    *(
        CONVERT_TYPE,
        CONVERT_ROUND,
        MODE,
        SIZE,
        EQUAL,
        BINARY,
        ALGORITHM,
        LIMITED,
        RELU_BYPASS,
        CONVERT_BYPASS,
    ),
    *(TABLE_BYPASS, FETCHED, PRELU, MULTIPLIES, OPERATION_BYPASS, BYPASS, OFFSET, SHIFT, SHIFT_NEGATIVE),
    *(CONVERT_SHIFT, SCALE, LIMIT, *OPERANDS),
)
_HALF_WORD = 1 << 15


def elementwise(
    r: UnitRegisters, x: n.Values, operand: Optional[n.Values], tables: Tables, floats: bool
) -> n.Values:
    """What becomes of (H, W, C); ``operand`` is what was fetched.

    Tables come first, which is inferred: a stand-alone Sigmoid of the vendor's goes on along a line below its table, and has a
    maximum with 0 switched on.
    """
    for field in _LOOKED_AT:
        r.look(field)
    look_at_tables(r)
    limits = limits_of(r, LOW, HIGH)
    if r.design.apart:
        for field in _APART:
            r.look(field)
    if r[BYPASS]:
        return x
    if not r[TABLE_BYPASS]:
        x = tables.look_up(r, x)
    if r.design.apart:
        x = _operations(r, x, operand, floats)
    elif not r[OPERATION_BYPASS]:
        x = _operation(r, x, operand, floats, bool(r[MULTIPLIES]), FETCHED)
    if not r[RELU_BYPASS]:
        x = np.maximum(x, 0)
        if r[LIMITED]:
            x = at_most(x, scalar(r, LIMIT, x))
    return limited(r, limits, x)


def _operations(r: UnitRegisters, x: n.Values, operand: Optional[n.Values], floats: bool) -> n.Values:
    """The sum or the product that is switched on."""
    sums, products = not r[ALU_OFF], not r[MUL_OFF]
    r.need(DIVIDE_OFF, 1)
    if sums and products:
        r.refuse(ALU_OFF, "a sum and a product at once")
    if sums or products:
        x = _operation(r, x, operand, floats, products, MUL_FETCHED if products else ALU_FETCHED)
    return x


def _operation(
    r: UnitRegisters,
    x: n.Values,
    fetched: Optional[n.Values],
    floats: bool,
    multiplies: bool,
    source: Field,
) -> n.Values:
    """``source``: the field that says whether the operand is fetched."""
    for field in (BINARY, PRELU, CONVERT_ROUND):
        r.need(field, 0)
    if r[EQUAL] and (multiplies or r[ALGORITHM] > 1):
        r.refuse(EQUAL, "it comes with maxima and minima alone")
    operand = _operand(r, x, fetched, source)
    if not r[CONVERT_BYPASS] and not floats:
        operand = n.shifted((operand + r[OFFSET]) * r[SCALE], r[CONVERT_SHIFT])
    if not multiplies:
        x = alu(r, ALGORITHM, x, operand)
    elif floats:
        x = x * operand
    else:
        r.need(SHIFT_NEGATIVE, 0, r[SHIFT], why="differs from EW_TRUNCATE")
        operand = (operand + _HALF_WORD) % (2 * _HALF_WORD) - _HALF_WORD  # 16 bits of an int32, as measured
        x = n.shifted(x * operand, r[SHIFT])
    return x if floats else n.saturated(x, n.INT32)


def _operand(r: UnitRegisters, x: n.Values, fetched: Optional[n.Values], source: Field) -> n.Values:
    """The second operand, as wide as ``x`` or one number."""
    if not r[source]:
        for field in OPERANDS[1:]:
            r.need(field, r[OPERANDS[0]], why="differs from EW_OP_VALUE_0")
        return scalar(r, OPERANDS[0], x)
    if fetched is None:
        r.refuse(source, "no operand is fetched")
    missing = x.shape[-1] - fetched.shape[-1]
    if fetched.shape[-1] > 1 and missing > 0:
        lacking = np.zeros((*fetched.shape[:-1], missing), fetched.dtype)
        fetched = np.concatenate([fetched, lacking], axis=-1)
    if fetched.ndim == 3 and fetched.shape[:2] != x.shape[:2]:
        r.refuse(source, f"an operand of {fetched.shape} for {x.shape}")
    return fetched[..., : x.shape[-1]]
