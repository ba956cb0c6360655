"""The metadata part of GGUF: enough to read and write ``PREFIX.tokenizer.gguf`` (version 3, little endian).

A file is ``GGUF``, version, number of tensors (none here) and of key/value pairs, then the pairs: key, type,
value. Arrays of strings are the vocabulary and the merges.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

__all__ = ["read_gguf", "write_gguf"]

Value = Union[int, float, bool, str, list[str], NDArray[Any]]

_SCALARS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_MAX_PAIRS = 1 << 16


def read_gguf(data: bytes | memoryview, label: str) -> dict[str, Value]:
    """All key/value pairs; numeric arrays as ndarray. Raises ModelInvalid."""
    reader = _Reader(data, label)
    if reader.take(4) != b"GGUF":
        raise ModelInvalid(f"{label}: not a GGUF file")
    version = reader.number("<I")
    if version not in (2, 3):
        raise ModelInvalid(f"{label}: GGUF version {version}, this program reads 2 and 3")
    reader.number("<Q")
    count = reader.number("<Q")
    if count > _MAX_PAIRS:
        raise ModelInvalid(f"{label}: {count} key/value pairs")
    pairs: dict[str, Value] = {}
    for _ in range(count):
        key = reader.string()
        pairs[key] = reader.value(reader.number("<I"))
    return pairs


class _Reader:
    """Walks through the bytes; every length is checked before it is believed."""

    def __init__(self, data: bytes | memoryview, label: str) -> None:
        self._data, self._label, self._at = bytes(data), label, 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise ModelInvalid(f"{self._label}: cut or damaged at byte {self._at} of {len(self._data)}")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]  # type: ignore[no-any-return]

    def string(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", "replace")

    def strings(self, count: int) -> list[str]:
        """``count`` times ``string``, in a tenth of the time: a vocabulary has more than a hundred thousand."""
        data, end, length = self._data, self._at, struct.Struct("<Q").unpack_from
        found: list[str] = []
        try:
            for _ in range(count):
                start = end + 8
                end = start + length(data, end)[0]
                found.append(data[start:end].decode("utf-8", "replace"))
        except (struct.error, OverflowError):
            pass
        cut = end > len(data)  # the last one that was found
        if cut or len(found) < count:
            raise ModelInvalid(
                f"{self._label}: string {len(found) - cut} of {count} goes beyond the {len(data)} bytes; cut or damaged"
            )
        self._at = end
        return found

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.string()
        if kind in _SCALARS:
            dtype = np.dtype(_SCALARS[kind])
            return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()  # type: ignore[no-any-return]
        if kind != _ARRAY:
            raise ModelInvalid(f"{self._label}: unknown value type {kind}")
        kind, count = self.number("<I"), self.number("<Q")
        if kind == _STRING:
            if count * 8 > len(self._data) - self._at:
                raise ModelInvalid(f"{self._label}: {count} strings in {len(self._data) - self._at} bytes")
            return self.strings(count)
        if kind not in _SCALARS:
            raise ModelInvalid(f"{self._label}: unknown element type {kind}")
        dtype = np.dtype(_SCALARS[kind])
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)


def write_gguf(pairs: Mapping[str, Value]) -> bytes:
    """The bytes of a file with these pairs; int32 and float32 arrays, lists of strings, scalars."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, 0, len(pairs))]
    for key, value in pairs.items():
        parts += [_text(key), _encoded(value)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def _encoded(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, list):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))
    kind, dtype = (_INT32, "<i4") if value.dtype.kind in "iu" else (_FLOAT32, "<f4")
    return struct.pack("<IIQ", _ARRAY, kind, value.size) + value.astype(dtype).tobytes()
