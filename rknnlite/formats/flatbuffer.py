"""A bounds-checked view of a flatbuffer: every offset and length is checked before it is followed.

The general flatbuffers package trusts its input; model files are untrusted, so this small reader serves
the few field kinds that the RKNN containers use.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid

__all__ = ["Schema", "Table", "root"]

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_I8 = struct.Struct("<b")
_F32 = struct.Struct("<f")


@dataclass(frozen=True)
class Schema:
    """Other slot numbers for the same fields: ``slots[number asked for] = number stored``.

    With ``slots`` set, fields that it does not name are absent. ``children`` are the schemas of the tables
    below, by the number asked for.
    """

    slots: Optional[Mapping[int, int]] = None
    children: Mapping[int, Schema] = field(default_factory=dict)


_PLAIN = Schema()
_MOST_FIELDS = 64  # no table of a genuine file has more; many tables may claim one huge vtable


class Table:
    """One table inside a buffer; fields are addressed by slot number (vtable index)."""

    __slots__ = ("_buf", "_children", "_fields", "_pos")

    def __init__(self, buf: memoryview, pos: int, schema: Schema = _PLAIN) -> None:
        self._buf = buf
        self._pos = pos
        self._children = schema.children
        vtable = pos - self._unpack(_I32, pos)
        size = self._unpack(_U16, vtable)
        if size < 4 or size % 2:
            raise ModelInvalid(f"damaged file: vtable at byte {vtable} claims {size} bytes")
        fields: list[int] = self._array(vtable + 4, (size - 4) // 2, np.dtype("<u2"))[:_MOST_FIELDS].tolist()
        if schema.slots is not None:
            stored = [schema.slots.get(slot, -1) for slot in range(max(schema.slots) + 1)]
            fields = [fields[slot] if 0 <= slot < len(fields) else 0 for slot in stored]
        self._fields = fields

    def _unpack(self, kind: struct.Struct, pos: int) -> int:
        if pos < 0 or pos + kind.size > len(self._buf):
            raise ModelInvalid(f"damaged file: offset {pos} lies outside its {len(self._buf)} bytes")
        value: int = kind.unpack_from(self._buf, pos)[0]
        return value

    def _array(self, pos: int, count: int, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        if pos < 0 or pos + count * dtype.itemsize > len(self._buf):
            raise ModelInvalid(
                f"damaged file: {count} elements at byte {pos} do not fit its {len(self._buf)} bytes"
            )
        return np.frombuffer(self._buf, dtype, count, pos)

    def _at(self, slot: int) -> int:
        """Absolute position of a field, 0 when it is absent."""
        offset = self._fields[slot] if slot < len(self._fields) else 0
        return self._pos + offset if offset else 0

    def _vector(self, slot: int) -> tuple[int, int]:
        """(position of the first element, count) of a vector field; count 0 when absent."""
        at = self._at(slot)
        if not at:
            return 0, 0
        start = at + self._unpack(_U32, at)
        return start + 4, self._unpack(_U32, start)

    def has(self, slot: int) -> bool:
        """Whether the field is present."""
        return self._at(slot) != 0

    @property
    def empty(self) -> bool:
        """True for a table without any field."""
        return not any(self._fields)

    def i8(self, slot: int, default: int = 0) -> int:
        """A signed byte."""
        at = self._at(slot)
        return self._unpack(_I8, at) if at else default

    def i32(self, slot: int, default: int = 0) -> int:
        """A signed 32-bit number."""
        at = self._at(slot)
        return self._unpack(_I32, at) if at else default

    def f32(self, slot: int, default: float = 0.0) -> float:
        """A 32-bit float."""
        at = self._at(slot)
        return float(self._unpack(_F32, at)) if at else default

    def data(self, slot: int) -> memoryview:
        """A byte vector, as a view into the file."""
        start, count = self.span(slot)
        return self._buf[start : start + count]

    def span(self, slot: int) -> tuple[int, int]:
        """(first byte, size) of a byte vector inside the buffer; size 0 when absent."""
        start, count = self._vector(slot)
        if start + count > len(self._buf):
            raise ModelInvalid(f"damaged file: a blob of {count} bytes at byte {start} leaves the file")
        return start, count

    def string(self, slot: int) -> str:
        """A text; undecodable bytes are replaced."""
        return bytes(self.data(slot)).decode("utf-8", "replace")

    def strings(self, slot: int) -> list[str]:
        """A vector of texts."""
        start, count = self._vector(slot)
        offsets = self._array(start, count, np.dtype("<u4")).tolist()
        texts = []
        for i, offset in enumerate(offsets):
            at = start + 4 * i + offset
            size = self._unpack(_U32, at)
            if at + 4 + size > len(self._buf):
                raise ModelInvalid(f"damaged file: a text of {size} bytes at byte {at} leaves the file")
            texts.append(bytes(self._buf[at + 4 : at + 4 + size]).decode("utf-8", "replace"))
        return texts

    def i32s(self, slot: int) -> NDArray[np.int32]:
        """A vector of 32-bit numbers, as a view."""
        start, count = self._vector(slot)
        return self._array(start, count, np.dtype("<i4")).astype(np.int32, copy=False)

    def f32s(self, slot: int) -> NDArray[np.float32]:
        """A vector of 32-bit floats, as a view."""
        start, count = self._vector(slot)
        return self._array(start, count, np.dtype("<f4")).astype(np.float32, copy=False)

    def u64s(self, slot: int) -> NDArray[np.uint64]:
        """A vector of 64-bit numbers, as a view."""
        return self._array(*self._vector(slot), np.dtype("<u8")).astype(np.uint64, copy=False)

    def table(self, slot: int) -> Table | None:
        """A sub-table, None when absent."""
        at = self._at(slot)
        return Table(self._buf, at + self._unpack(_U32, at), self._below(slot)) if at else None

    def _below(self, slot: int) -> Schema:
        return self._children.get(slot, _PLAIN)

    def count(self, slot: int) -> int:
        """Number of elements of a vector field."""
        return self._vector(slot)[1]

    def tables(self, slot: int) -> Iterator[Table]:
        """The tables of a vector, one at a time; two entries may not share a place."""
        start, count = self._vector(slot)
        offsets = self._array(start, count, np.dtype("<u4")).astype(np.int64)
        places = (offsets + start + 4 * np.arange(count)).tolist()
        # np.unique would import numpy.ma, which costs more than reading the file
        if len(set(places)) != count:
            raise ModelInvalid("damaged file: two entries of a list name the same table")
        for at in places:
            yield Table(self._buf, at, self._below(slot))


def root(buf: memoryview, identifier: bytes, schema: Schema = _PLAIN) -> Table:
    """The root table of a flatbuffer that carries ``identifier`` at byte 4."""
    if len(buf) < 8 or bytes(buf[4:8]) != identifier:
        raise ModelInvalid(f"damaged file: identifier {identifier.decode()} is missing from the payload")
    return Table(buf, _U32.unpack_from(buf, 0)[0], schema)
