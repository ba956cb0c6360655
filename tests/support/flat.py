"""A small flatbuffer writer: just enough to make model files by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True)
class I8:
    """A signed byte field."""

    value: int


@dataclass(frozen=True)
class Words:
    """A vector of 32-bit numbers: ``i`` signed, ``I`` unsigned, ``f`` float."""

    values: tuple[Any, ...]
    kind: str = "i"


Fields = Mapping[int, Union[int, float, str, bytes, I8, Words, "Fields", list[Any]]]
"""Slot -> value: int (i32), float (f32), I8, str, bytes, Words, a table, or a list of texts or of tables."""


def i32s(*values: int) -> Words:
    """A vector of signed numbers."""
    return Words(values)


def f32s(*values: float) -> Words:
    """A vector of floats."""
    return Words(values, "f")


def build(fields: Fields, identifier: bytes = b"RKNN") -> bytes:
    """A flatbuffer whose root table has these fields."""
    out = bytearray(4) + bytearray(identifier)
    struct.pack_into("<I", out, 0, _table(out, fields))
    return bytes(out)


def _table(out: bytearray, fields: Fields) -> int:
    """Append a table with everything below it; returns its position."""
    _align(out)
    slots = max(fields, default=-1) + 1
    vtable = len(out)
    out += struct.pack("<HH", 4 + 2 * slots, 4 + 4 * len(fields)) + bytes(2 * slots)
    _align(out)
    table = len(out)
    out += struct.pack("<i", table - vtable) + bytes(4 * len(fields))
    children = []
    for place, (slot, value) in enumerate(sorted(fields.items())):
        at = table + 4 + 4 * place
        struct.pack_into("<H", out, vtable + 4 + 2 * slot, at - table)
        if not _scalar(out, at, value):
            children.append((at, value))
    for at, value in children:
        struct.pack_into("<I", out, at, _child(out, value) - at)
    return table


def _scalar(out: bytearray, at: int, value: Any) -> bool:
    if isinstance(value, I8):
        struct.pack_into("<b", out, at, value.value)
    elif isinstance(value, int):
        struct.pack_into("<i", out, at, value)
    elif isinstance(value, float):
        struct.pack_into("<f", out, at, value)
    else:
        return False
    return True


def _child(out: bytearray, value: Any) -> int:
    if isinstance(value, Mapping):
        return _table(out, value)
    _align(out)
    start = len(out)
    if isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        out += struct.pack("<I", len(raw)) + raw
    elif isinstance(value, Words):
        out += struct.pack(f"<I{len(value.values)}{value.kind}", len(value.values), *value.values)
    else:
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, item in enumerate(value):
            at = start + 4 + 4 * i
            struct.pack_into("<I", out, at, _child(out, item) - at)
    return start


def _align(out: bytearray) -> None:
    out += bytes(-len(out) % 4)
