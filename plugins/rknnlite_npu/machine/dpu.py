"""The output stage: what accumulators, or numbers from memory, go through on their way into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np

from . import numbers as n
from .core import Sums
from .lut import Tables
from .memory import Memory
from .rdma import Operands, PerChannel
from .registers import Field, UnitRegisters
from .writer import write

__all__ = ["Form", "form_of", "put_out"]

FLYING = Field("FLYING_MODE", 0x400C, 0, 0)
OUTPUT_MODE = Field("OUTPUT_MODE", 0x400C, 2, 1)
MODE = Field("CONV_MODE", 0x400C, 4, 3)
OUT_PRECISION = Field("OUT_PRECISION", 0x4010, 31, 29)
IN_PRECISION = Field("IN_PRECISION", 0x4010, 28, 26)
EW_SHIFT_NEGATIVE = Field("EW_TRUNCATE_NEG", 0x4010, 25, 16)
PROC_PRECISION = Field("PROC_PRECISION", 0x4010, 2, 0)
WIDTH = Field("WIDTH", 0x4030, 12, 0)
HEIGHT = Field("HEIGHT", 0x4034, 12, 0)
LARGEST = Field("MINMAX_CTL", 0x4034, 24, 22)
CHANNEL = Field("CHANNEL", 0x403C, 12, 0)
ZERO_BYPASS = Field("OD_BYPASS", 0x4050, 1, 1)
ZERO_PER_CHANNEL = Field("OW_SRC", 0x4050, 0, 0)
ZERO = Field("OW_OP", 0x4054, 15, 0, signed=True)
OUT_OFFSET = Field("OUT_CVT_OFFSET", 0x4080, signed=True)
OUT_HALF = Field("FP32TOFP16_EN", 0x4084, 16, 16)
OUT_SCALE = Field("OUT_CVT_SCALE", 0x4084, 15, 0, signed=True)
OUT_TYPE = Field("CVT_TYPE", 0x4088, 31, 31)
OUT_ROUND = Field("CVT_ROUND", 0x4088, 30, 30)
OUT_EXPONENT = Field("MINUS_EXP", 0x4088, 19, 12)
OUT_SHIFT = Field("OUT_CVT_SHIFT", 0x4088, 11, 0)
TABLE_CONFIG = Field("LUT_CFG", 0x4108)
EW_TYPE = Field("EW_CVT_TYPE", 0x4070, 31, 31)
EW_ROUND = Field("EW_CVT_ROUND", 0x4070, 30, 30)
EW_MODE = Field("EW_DATA_MODE", 0x4070, 29, 28)
EW_SIZE = Field("EDATA_SIZE", 0x4070, 23, 22)
EW_EQUAL = Field("EW_EQUAL_EN", 0x4070, 21, 21)
EW_BINARY = Field("EW_BINARY_EN", 0x4070, 20, 20)
EW_ALGORITHM = Field("EW_ALU_ALGO", 0x4070, 19, 16)
EW_LIMITED = Field("EW_RELUX_EN", 0x4070, 10, 10)
EW_RELU_BYPASS = Field("EW_RELU_BYPASS", 0x4070, 9, 9)
EW_CONVERT_BYPASS = Field("EW_OP_CVT_BYPASS", 0x4070, 8, 8)
TABLE_BYPASS = Field("EW_LUT_BYPASS", 0x4070, 7, 7)
EW_FETCHED = Field("EW_OP_SRC", 0x4070, 6, 6)
EW_PRELU = Field("EW_MUL_PRELU", 0x4070, 5, 5)
EW_MULTIPLIES = Field("EW_OP_TYPE", 0x4070, 2, 2)
EW_OPERATION_BYPASS = Field("EW_OP_BYPASS", 0x4070, 1, 1)
EW_BYPASS = Field("EW_BYPASS", 0x4070, 0, 0)
EW_OFFSET = Field("EW_CVT_OFFSET", 0x4074, signed=True)
EW_SHIFT = Field("EW_TRUNCATE", 0x4078, 31, 22)
EW_CONVERT_SHIFT = Field("EW_CVT_SHIFT", 0x4078, 21, 16)
EW_SCALE = Field("EW_CVT_SCALE", 0x4078, 15, 0, signed=True)
EW_LIMIT = Field("EW_RELUX_CMP", 0x407C)
EW_OPERANDS = tuple(Field(f"EW_OP_VALUE_{k}", 0x4090 + 4 * k) for k in range(8))


class _Stage(NamedTuple):
    """Fields of BS or BN."""

    config: int
    alu: Field
    multiplier: Field
    shift: Field
    source: Field
    limit: Field
    shift_negative: Field

    def bit(self, name: str, high: int, low: Optional[int] = None) -> Field:
        """A field of its configuration."""
        return Field(name, self.config, high, high if low is None else low)


def _stage(name: str, config: int, negative: tuple[int, int]) -> _Stage:
    return _Stage(
        config,
        Field(f"{name}_ALU_OPERAND", config + 4),
        Field(f"{name}_MUL_OPERAND", config + 8, 31, 16),
        Field(f"{name}_MUL_SHIFT_VALUE", config + 8, 13, 8),
        Field(f"{name}_MUL_SRC", config + 8, 0, 0),
        Field(f"{name}_RELUX_CMP", config + 12),
        Field(f"{name}_MUL_SHIFT_VALUE_NEG", 0x4010, *negative),
    )


BS = _stage("BS", 0x4040, (9, 4))
BN = _stage("BN", 0x4060, (15, 10))

WITHOUT_EFFECT: Mapping[int, int] = {
    0x4004: 0xFFFFFFFF,  # S_POINTER
    0x400C: 0x000001E0,  # length of bursts
    0x4078: 0xFFFFFFFF,  # of operands that are not there
    0x4108: 0xFFFFFFFF,  # tables
    **{register: 0xFFFFFFFF for register in range(0x410C, 0x4130, 4)},
}
_MEMORY = 2  # OUTPUT_MODE
_MAX, _MIN, _ADD, _DIVIDE, _MINUS, _ABS, _NEGATE, _FLOOR, _CEIL = range(9)
_KNOWN_TABLES = 0x68
_DEPTHWISE = 3
_LARGEST_CHANNEL = 7
_LEAST_OFFSET = 1  # as fp32 this is 1e-45


@dataclass(frozen=True)
class Form:
    """What flows through the stage."""

    height: int
    width: int
    channels: int
    flying: bool
    precision: int


def form_of(r: UnitRegisters) -> Form:
    """Size and kind of what flows."""
    precision = r.need(PROC_PRECISION, *n.SIZES)
    return Form(r[HEIGHT] + 1, r[WIDTH] + 1, r[CHANNEL] + 1, bool(r[FLYING]), precision)


def put_out(
    r: UnitRegisters, form: Form, memory: Memory, sums: Optional[Sums], operands: Operands, tables: Tables
) -> int:
    """Run the stage and write its result; returns the bytes written."""
    r.need(OUTPUT_MODE, _MEMORY, why="goes on to another unit")
    r.need(MODE, 0, _DEPTHWISE)
    r.need(IN_PRECISION, *n.SIZES)
    values = operands.source if form.flying else _accumulators(r, form, sums)
    assert values is not None
    channels = form.channels * operands.repeated
    if values.shape[2] != channels or values.shape[0] * values.shape[1] > form.height * form.width:
        r.refuse(CHANNEL, f"{values.shape} flow into a stage of {(form.height, form.width, channels)}")
    floats = n.is_float(form.precision)
    if not floats and values.dtype != np.float64:
        r.refuse(PROC_PRECISION, "floats flow into a stage of integers")
    if floats and values.dtype == np.float64:
        values = values.astype(np.float32)
    zero_off, *_ = (r[field] for field in (ZERO_BYPASS, ZERO_PER_CHANNEL, ZERO))
    with np.errstate(all="ignore"):
        if sums is not None and sums.windows is not None and not zero_off:
            values = _less_zero_points(r, values, sums.windows, operands.bs.zero)
        values = _scaled(r, BS, values, operands.bs, floats)
        values = _scaled(r, BN, values, operands.bn, floats, adds_behind=True)
        values = _elementwise(r, values, operands.ew, tables, floats)
        values = _converted(r, values, floats)
        if r[LARGEST]:
            r.need(LARGEST, _LARGEST_CHANNEL)
            values = values.max(axis=-1, keepdims=True)
    precision = r[OUT_PRECISION]
    if floats and precision == r[IN_PRECISION] == n.INT16:
        precision = n.FP16  # 16 bits in and out; a root is computed so, step by step
    return write(r, memory, values, precision, operands.repeated, WITHOUT_EFFECT)


def _accumulators(r: UnitRegisters, form: Form, sums: Optional[Sums]) -> n.Values:
    """Sums in the channels of the stage; those that nothing computes are 0."""
    if sums is None:
        r.refuse(FLYING, "nothing is computed that could flow")
    values = sums.values
    missing = form.channels - values.shape[-1]
    if missing > 0:
        values = np.concatenate([values, np.zeros((*values.shape[:2], missing), values.dtype)], axis=-1)
    return values[..., : form.channels]


def _less_zero_points(
    r: UnitRegisters, values: n.Values, windows: n.Values, zeros: Optional[n.Values]
) -> n.Values:
    """Zero points of weights: the sum of the features, times what is added to each weight."""
    if r[ZERO_PER_CHANNEL]:
        if zeros is None:
            r.refuse(ZERO_PER_CHANNEL, "no zero points are fetched")
        factors = zeros
    else:
        factors = np.array([float(r[ZERO])])
    if not factors.any():
        return values
    windows = windows[..., : values.shape[-1]]
    missing = values.shape[-1] - windows.shape[-1]
    if windows.shape[-1] > 1 and missing:
        windows = np.concatenate([windows, np.zeros((*windows.shape[:2], missing))], axis=-1)
    return values + windows * factors


def _scaled(
    r: UnitRegisters, stage: _Stage, x: n.Values, numbers: PerChannel, floats: bool, adds_behind: bool = False
) -> n.Values:
    """BS or BN: a sum, a product with a shift that depends on the sign, limits; in BN the sum comes between product and shift."""
    fields = (
        stage.bit("ALU_ALGO", 19, 16),
        stage.bit("ALU_SRC", 8),
        stage.bit("RELUX_EN", 7),
        stage.bit("RELU_BYPASS", 6),
        stage.bit("MUL_PRELU", 5),
        stage.bit("MUL_BYPASS", 4),
        stage.bit("ALU_BYPASS", 1),
        stage.bit("BYPASS", 0),
    )
    algorithm, fetched, limited, relu_off, prelu, multiplier_off, alu_off, off = (r[field] for field in fields)
    places = (stage.alu, stage.multiplier, stage.shift, stage.source, stage.limit, stage.shift_negative)
    _ = [r[field] for field in places]
    if off:
        return x
    def added(x: n.Values) -> n.Values:
        if alu_off:
            return x
        if fetched and numbers.alu is None:
            r.refuse(fields[1], "nothing is fetched")
        return _alu(r, fields[0], algorithm, x, numbers.alu if fetched else _scalar(r, stage.alu, floats))

    if not adds_behind or multiplier_off:
        x = added(x)
    if not multiplier_off:
        if r[stage.source] and numbers.multiplier is None:
            r.refuse(stage.source, "nothing is fetched")
        factor = numbers.multiplier if r[stage.source] else _factor(r, stage.multiplier, floats)
        x = np.where(x < 0, x * factor, x) if prelu else x * factor
        negative = x < 0
        if adds_behind:
            x = added(x)
        x = x.astype(np.float32) if floats else _shifted_by_sign(r, stage, x, negative)
    if not relu_off:
        x = np.maximum(x, 0)
        if limited:
            x = np.minimum(x, _scalar(r, stage.limit, floats))
    return x


def _shifted_by_sign(r: UnitRegisters, stage: _Stage, product: n.Values, negative: n.Values) -> n.Values:
    """Products divided by 2^shift, those below zero by a shift of their own, limited to int32."""
    up, down = r[stage.shift], r[stage.shift_negative]
    shifted = n.shifted(product, up)
    if down not in (0, up):
        shifted = np.where(negative, n.shifted(product, down), shifted)
    return n.saturated(shifted, n.INT32)


def _scalar(r: UnitRegisters, field: Field, floats: bool) -> n.Values:
    """A number of 32 bits."""
    value = r[field] & 0xFFFFFFFF
    if floats:
        return np.array([n.as_float32(value)], np.float32)
    return np.array([value - (value >> 31 << 32)], np.float64)


def _factor(r: UnitRegisters, field: Field, floats: bool) -> n.Values:
    """A number of 16 bits."""
    value = r[field]
    if floats:
        kind = n.BF16 if r[PROC_PRECISION] == n.BF16 else n.FP16
        return np.array([n.as_float32(value << 16) if kind == n.BF16 else n.as_half(value)], np.float32)
    return np.array([value - (value >> 15 << 16)], np.float64)


def _alu(r: UnitRegisters, field: Field, algorithm: int, x: n.Values, operand: n.Values) -> n.Values:
    if algorithm == _MAX:
        return np.maximum(x, operand)
    if algorithm == _MIN:
        return np.minimum(x, operand)
    if algorithm == _ADD:
        return x + operand
    if algorithm == _MINUS:
        return x - operand
    if algorithm == _DIVIDE and x.dtype == np.float32:
        return x / operand
    r.refuse(field)


def _elementwise(
    r: UnitRegisters, x: n.Values, operand: Optional[n.Values], tables: Tables, floats: bool
) -> n.Values:
    """EW: tables, an operation with a second operand, limits."""
    fields = (EW_TYPE, EW_ROUND, EW_MODE, EW_SIZE, EW_EQUAL, EW_BINARY, EW_ALGORITHM, EW_LIMITED, EW_RELU_BYPASS)
    others = (EW_CONVERT_BYPASS, TABLE_BYPASS, EW_FETCHED, EW_PRELU, EW_MULTIPLIES, EW_OPERATION_BYPASS)
    places = (EW_OFFSET, EW_LIMIT, EW_SHIFT_NEGATIVE, *EW_OPERANDS)
    _ = [r[field] for field in (*fields, *others, *places)]
    if r[EW_BYPASS]:
        return x
    if not r[TABLE_BYPASS]:
        r.need(TABLE_CONFIG, _KNOWN_TABLES)
        x = tables.look_up(r, x)
    if not r[EW_OPERATION_BYPASS]:  # behind the tables: a stand-alone Sigmoid goes on below its table, and not below 0
        x = _operation(r, x, operand, floats)
    if not r[EW_RELU_BYPASS]:
        x = np.maximum(x, 0)
        if r[EW_LIMITED]:
            x = np.minimum(x, _scalar(r, EW_LIMIT, floats))
    return x


def _operation(r: UnitRegisters, x: n.Values, operand: Optional[n.Values], floats: bool) -> n.Values:
    for field in (EW_EQUAL, EW_BINARY, EW_PRELU, EW_ROUND):
        r.need(field, 0)
    if r[EW_FETCHED]:
        if operand is None:
            r.refuse(EW_FETCHED, "no operand is fetched")
    else:
        values = {r[field] for field in EW_OPERANDS}
        if len(values) > 1:
            r.refuse(EW_OPERANDS[1], "differs from the first")
        operand = _scalar(r, EW_OPERANDS[0], floats)
    missing = x.shape[-1] - operand.shape[-1]
    if operand.shape[-1] > 1 and missing > 0:
        operand = np.concatenate([operand, np.zeros((*operand.shape[:-1], missing), operand.dtype)], axis=-1)
    if operand.shape[-1] > 1:
        operand = operand[..., : x.shape[-1]]
    if not r[EW_CONVERT_BYPASS]:
        if floats:
            if r[EW_OFFSET] or r[EW_SCALE] != 1 or r[EW_CONVERT_SHIFT]:
                r.refuse(EW_SCALE, "an operand of floats is converted")
        else:
            operand = n.shifted((operand + r[EW_OFFSET]) * r[EW_SCALE], r[EW_CONVERT_SHIFT])
    if not r[EW_MULTIPLIES]:
        x = _alu(r, EW_ALGORITHM, r[EW_ALGORITHM], x, operand)
    elif floats:
        x = x * operand
    else:
        x = n.shifted(x * operand, r[EW_SHIFT])
    return x if floats else n.saturated(x, n.INT32)


def _converted(r: UnitRegisters, x: n.Values, floats: bool) -> n.Values:
    """The output converter."""
    offset, scale, shift, exponent = r[OUT_OFFSET], r[OUT_SCALE], r[OUT_SHIFT], r[OUT_EXPONENT]
    _ = r[OUT_HALF], r[OUT_ROUND]
    r.need(OUT_TYPE, 0)
    if floats or n.is_float(r[OUT_PRECISION]):
        return _converted_floats(r, x, floats, offset, scale, shift, exponent)
    if exponent:
        r.refuse(OUT_EXPONENT)
    if scale != 1:
        x = x * scale
    x = n.shifted(x, shift, away=bool(r[OUT_ROUND]))
    return x + offset if offset else x


def _converted_floats(
    r: UnitRegisters, x: n.Values, floats: bool, offset: int, scale: int, shift: int, exponent: int
) -> n.Values:
    """Numbers times ``scale / 2^(exponent + shift)``; the offset is a float, of which files have next to nothing."""
    if floats and (offset, scale, shift, exponent) == (0, 1, 0, 0):
        return x
    _ = r[OUT_ROUND]
    if abs(offset) > _LEAST_OFFSET:
        r.refuse(OUT_OFFSET)
    return (x.astype(np.float64) * (scale * 2.0 ** -(exponent + shift))).astype(np.float32)
