"""The output stage: what accumulators, or numbers from memory, go through on their way into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

import numpy as np

from . import numbers as n
from .core import Sums
from .elementwise import elementwise
from .joined import joined
from .lut import Tables
from .memory import Memory
from .moves import check_pools, is_moved
from .rdma import FLOW, UNPOOL, UNPOOL_KERNEL, Operands
from .registers import Field, UnitRegisters
from .scaling import BN, BS, scaled
from .writer import ADDRESS, write

__all__ = ["Form", "form_of", "put_out"]

FLYING = Field("FLYING_MODE", 0x400C, 0, 0)
OUTPUT_MODE = Field("OUTPUT_MODE", 0x400C, 2, 1)
MODE = Field("CONV_MODE", 0x400C, 4, 3)
OUT_PRECISION = Field("OUT_PRECISION", 0x4010, 31, 29)
IN_PRECISION = Field("IN_PRECISION", 0x4010, 28, 26)
PROC_PRECISION = Field("PROC_PRECISION", 0x4010, 2, 0)
WIDTH = Field("WIDTH", 0x4030, 12, 0)
HEIGHT = Field("HEIGHT", 0x4034, 12, 0)
LARGEST = Field("MINMAX_CTL", 0x4034, 24, 22)
CHANNEL = Field("CHANNEL", 0x403C, 12, 0)
ZERO_BYPASS = Field("OD_BYPASS", 0x4050, 1, 1)
ZERO_PER_CHANNEL = Field("OW_SRC", 0x4050, 0, 0)
ZERO = Field("OW_OP", 0x4054, 15, 0, signed=True)
ZERO_SWITCHES = (
    Field("WINDOW_MUL_BYPASS", 0x4040, 4, 4),
    Field("WINDOW_ALU_ALGO", 0x4040, 19, 16),
    Field("WINDOW_ALU_SRC", 0x4040, 8, 8),
    Field("WINDOW_SUMS", 0x4054, 31, 31),
)
OUT_OFFSET = Field("OUT_CVT_OFFSET", 0x4080, signed=True)
OUT_HALF = Field("FP32TOFP16_EN", 0x4084, 16, 16)
OUT_SCALE = Field("OUT_CVT_SCALE", 0x4084, 15, 0, signed=True)
OUT_TYPE = Field("CVT_TYPE", 0x4088, 31, 31)
OUT_ROUND = Field("CVT_ROUND", 0x4088, 30, 30)
OUT_EXPONENT = Field("MINUS_EXP", 0x4088, 19, 12)
OUT_SHIFT = Field("OUT_CVT_SHIFT", 0x4088, 11, 0)

WITHOUT_EFFECT: Mapping[int, int] = {
    0x4004: 0xFFFFFFFF,  # S_POINTER
    0x400C: 0x000001E0,  # length of bursts
}
_MEMORY = 2  # OUTPUT_MODE
_DEPTHWISE = 1, 3
_LARGEST_CHANNEL = 7
_ADD = 2  # ALU_ALGO
_LEAST_OFFSET = 1  # as fp32 this is 1e-45


@dataclass(frozen=True)
class Form:
    """What flows through the stage."""

    height: int
    width: int
    channels: int
    flying: bool
    precision: int


def form_of(r: UnitRegisters, rdma: Optional[UnitRegisters] = None) -> Form:
    """Size and kind of what flows; ``rdma`` where that unit runs, too."""
    precision = r.need(PROC_PRECISION, *r.design.precisions)
    if r.design.joined and is_moved(r):
        precision = n.INT16
    if rdma is not None and r.design.flow_by_rdma:
        _ = r[HEIGHT], r[WIDTH], r[CHANNEL]
        height, width, channels = (rdma[field] + 1 for field in FLOW)
        if rdma[UNPOOL]:
            width *= rdma[UNPOOL_KERNEL[1]] + 1
            if r.design.whole_surfaces:  # DPU_RDMA counts wider elements there
                channels = r[CHANNEL] + 1
        return Form(height, width, channels, bool(r[FLYING]), precision)
    return Form(r[HEIGHT] + 1, r[WIDTH] + 1, r[CHANNEL] + 1, bool(r[FLYING]), precision)


def put_out(
    r: UnitRegisters, form: Form, memory: Memory, sums: Optional[Sums], operands: Operands, tables: Tables
) -> int:
    """Run the stage and write its result; returns the bytes written."""
    r.need(OUTPUT_MODE, _MEMORY, why="goes on to another unit")
    r.need(MODE, 0, *_DEPTHWISE)
    r.need(IN_PRECISION, *n.SIZES)
    if r.design.joined:
        check_pools(r, sums is not None and sums.pooled)
    values = operands.source if form.flying else _accumulators(r, form, sums)
    assert values is not None
    channels = form.channels * operands.repeated
    if r.design.joined and form.flying:
        values = values[..., :channels]  # whole atoms are fetched
    if values.shape[2] != channels or values.shape[0] * values.shape[1] > form.height * form.width:
        r.refuse(CHANNEL, f"{values.shape} flow into a stage of {(form.height, form.width, channels)}")
    floats = n.is_float(form.precision)
    if not floats and values.dtype != np.float64:
        r.refuse(PROC_PRECISION, "floats flow into a stage of integers")
    if floats and values.dtype == np.float64:
        values = values.astype(np.float32)
    zero_off, *_ = (r[field] for field in (ZERO_BYPASS, ZERO_PER_CHANNEL, ZERO))
    with np.errstate(all="ignore"):
        if r.design.pictures_in_line:
            _check_switches(r, floats)
        if sums is not None and sums.windows is not None and not zero_off:
            values = _less_zero_points(r, values, sums, operands.bs.zero)
        values = scaled(r, BS, values, operands.bs, form.precision)
        if r.design.joined:
            values = joined(r, values, operands.ew, tables)
        else:
            values = scaled(r, BN, values, operands.bn, form.precision)
            values = elementwise(r, values, operands.ew, tables, floats)
        values = _converted(r, values, floats)
        if r[LARGEST]:
            r.need(LARGEST, _LARGEST_CHANNEL)
            if operands.source_address == r[ADDRESS]:
                r.refuse(
                    LARGEST, "a maximum of maxima (over 8192 channels) reads surfaces where they were packed"
                )
            values = values.max(axis=-1, keepdims=True)
    precision = form.precision if r.design.joined else r[OUT_PRECISION]
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


def _check_switches(r: UnitRegisters, floats: bool) -> None:
    """What RV1106 has for the sum of a window."""
    for field in ZERO_SWITCHES:
        r.look(field)
    off = r[ZERO_BYPASS]
    expected = (1, 0, 0, 0) if off else (0, _ADD, 1, 1)
    for field, value in zip(ZERO_SWITCHES, expected):
        if not (r[BS.off] or floats):
            r.need(field, value, why="does not go with whether windows are summed")


def _less_zero_points(r: UnitRegisters, values: n.Values, sums: Sums, zeros: Optional[n.Values]) -> n.Values:
    """Zero points of weights: the sum of the features, times what is added to each weight."""
    windows = sums.windows
    assert windows is not None
    if not r.design.core:
        factors = np.array([float(sums.zero)]) if zeros is None else zeros
    elif r[ZERO_PER_CHANNEL] or r.design.in_memory:
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
    values += windows * factors  # nobody else has them
    return values


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
    if r.design.offset_first:
        return n.shifted(x + offset * 2.0**shift, shift, away=bool(r[OUT_ROUND]))
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
