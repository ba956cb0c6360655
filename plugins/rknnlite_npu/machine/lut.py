"""Activation tables: two of 513 points, linear between them, with slopes beyond their ends."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from . import numbers as n
from .registers import Field, UnitRegisters

__all__ = ["Tables", "look_at_tables"]

_POINTS = 513
_SELECT, _DATA = 0x4100, 0x4104
_TABLE, _WRITE = 1 << 16, 1 << 17
LE_STEP = Field("LUT_LE_INDEX_SELECT", 0x410C, 15, 8)
LO_STEP = Field("LUT_LO_INDEX_SELECT", 0x410C, 23, 16)
LE_START = Field("LUT_LE_START", 0x4110, signed=True)
LE_END = Field("LUT_LE_END", 0x4114, signed=True)
LO_START = Field("LUT_LO_START", 0x4118, signed=True)
LO_END = Field("LUT_LO_END", 0x411C, signed=True)
LE_SLOPE = Field("LUT_LE_SLOPE_UFLOW_SCALE", 0x4120, 15, 0, signed=True)
LE_SLOPE_SHIFT = Field("LUT_LE_SLOPE_UFLOW_SHIFT", 0x4124, 4, 0)
LO_SLOPE = Field("LUT_LO_SLOPE_OFLOW_SCALE", 0x4128, 31, 16, signed=True)
LO_SLOPE_SHIFT = Field("LUT_LO_SLOPE_OFLOW_SHIFT", 0x412C, 9, 5)
BYPASS = Field("EW_LUT_BYPASS", 0x4070, 7, 7)
CONFIG = Field("LUT_CFG", 0x4108)
UNUSED = Field("LUT_LE_SLOPE_OFLOW_SCALE", 0x4120, 31, 16), Field("LUT_LE_SLOPE_OFLOW_SHIFT", 0x4124, 9, 5)
UNUSED_TOO = Field("LUT_LO_SLOPE_UFLOW_SCALE", 0x4128, 15, 0), Field("LUT_LO_SLOPE_UFLOW_SHIFT", 0x412C, 4, 0)
LOW_VALUE, HIGH_VALUE = (
    Field("LUT_LE_UFLOW_VALUE", 0x4188, 31, 16, signed=True),
    Field("LUT_LO_OFLOW_VALUE", 0x4190, 31, 16, signed=True),
)
"""Of designs that have them: what the lower table begins with, and the upper one ends with."""
_FOUR = {  # register -> registers with the same for three more channels
    first: tuple(range(first + 4, first + 16, 4)) for first in (0x4110, 0x4120, 0x4130, 0x4140)
}
COPIES = tuple(
    (Field("first", first), Field(f"LUT_{other:04X}", other))
    for first, more in _FOUR.items()
    for other in more
)
HALVES = tuple(
    (Field("first", first, 15, 0), Field(f"LUT_{register:04X}", register, low + 15, low))
    for first in (0x4150, 0x4170)
    for register in (first, first + 4)
    for low in (0, 16)
)
BYTES = tuple(
    (Field("first", register, 7, 0), Field(f"LUT_{register:04X}", register, low + 7, low))
    for register in (0x4160, 0x4184)
    for low in (0, 8, 16, 24)
)
VALUES = tuple(
    (Field("first", register, 31, 16), Field(f"LUT_{at:04X}", at, low + 15, low))
    for register in (0x4188, 0x4190)
    for at, low in ((register + 4, 0), (register + 4, 16))
)
"""Of the same designs: pairs of fields that are equal."""
_LARGEST_STEP = 16
_CONFIG = 0x68  # which table counts where both could, and beyond their ends; never seen otherwise
_LOOKED_AT = (
    *(
        LE_STEP,
        LO_STEP,
        LE_START,
        LE_END,
        LO_START,
        LO_END,
        LE_SLOPE,
        LE_SLOPE_SHIFT,
        LO_SLOPE,
        LO_SLOPE_SHIFT,
    ),
    *(CONFIG, *UNUSED, *UNUSED_TOO),
)


def look_at_tables(r: UnitRegisters) -> None:
    """Take note of the fields, for tasks that use no tables as well."""
    for field in _LOOKED_AT:
        r.look(field)
    if r.has(LOW_VALUE):
        for first, other in (*COPIES, *HALVES, *BYTES, *VALUES):
            r.need(other, r[first], why="differs from that of another channel")
        _ = r[LOW_VALUE], r[HIGH_VALUE]


class Tables:
    """The tables of one core, as uploads left them; they live on."""

    def __init__(self) -> None:
        self._points = [np.zeros(_POINTS), np.zeros(_POINTS)]
        self._there: set[int] = set()

    def upload(self, writes: Iterable[tuple[int, int]]) -> None:
        """Take (register, value) of an upload in order: a selection, then its points. What follows the last is none."""
        at, table = _POINTS, 0
        for register, value in writes:
            if register == _SELECT:
                at, table = (0, value >> 16 & 1) if value & _WRITE else (_POINTS, 0)
            elif register == _DATA and at < _POINTS:
                self._points[table][at] = (value & 0xFFFF) - ((value & 0x8000) << 1)
                at += 1
                if at == _POINTS:
                    self._there.add(table)

    def look_up(self, r: UnitRegisters, values: n.Values) -> n.Values:
        """The function of integers, as an integer; of floats without rounding.

        Between points, and beyond the ends, it is rounded to the nearest integer.
        """
        if self._there != {0, 1}:
            r.refuse(BYPASS, "no table was uploaded; files of int16 and bf16 layers hold none")
        r.need(CONFIG, _CONFIG)
        for field in (*UNUSED, *UNUSED_TOO):
            r.need(field, 0)
        if r.has(LOW_VALUE):
            r.need(LOW_VALUE, int(self._points[0][0]), why="is not the first point")
            r.need(HIGH_VALUE, int(self._points[1][-1]), why="is not the last point")
        floats = values.dtype == np.float32
        steps = r[LE_STEP], r[LO_STEP]
        for field, step in zip((LE_STEP, LO_STEP), steps):
            if step > _LARGEST_STEP:
                r.refuse(field)
        start, middle = r[LE_START], r[LO_START]
        x = values.astype(np.float64)
        y = np.where(
            x < middle,
            _between(self._points[0], (x - start) / 2.0 ** steps[0]),
            _between(self._points[1], (x - middle) / 2.0 ** steps[1]),
        )
        top = middle + (_POINTS - 1) * 2.0 ** steps[1]
        below, above = r[LE_SLOPE] * 2.0 ** -r[LE_SLOPE_SHIFT], r[LO_SLOPE] * 2.0 ** -r[LO_SLOPE_SHIFT]
        y = np.where(x < start, self._points[0][0] + (x - start) * below, y)
        y = np.where(x > top, self._points[1][-1] + (x - top) * above, y)
        return y.astype(np.float32) if floats else np.rint(y)


def _between(points: n.Values, index: n.Values) -> n.Values:
    index = np.clip(np.nan_to_num(index), 0, _POINTS - 1)
    low = np.minimum(index.astype(np.intp), _POINTS - 2)
    found: n.Values = points[low] + (points[low + 1] - points[low]) * (index - low)
    return found
