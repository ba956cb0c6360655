"""Just enough BSON for node attributes: numbers, texts, booleans, arrays and nested documents.

Written here because the two BSON packages that exist are not at hand everywhere the core must import,
and because attributes are untrusted: depth and sizes are bounded.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["BsonError", "decode"]

_MAX_DEPTH = 8


class BsonError(ValueError):
    """The bytes are not a BSON document of the kinds served here."""


def decode(data: bytes | memoryview) -> dict[str, Any]:
    """Decode one document; arrays become lists. Raises BsonError."""
    try:
        document, _ = _document(bytes(data), 0, 0)
    except BsonError:
        raise
    except (struct.error, IndexError, ValueError) as error:  # ValueError: no end of a name, or no UTF-8
        raise BsonError(str(error)) from None
    return document


def _document(data: bytes, pos: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth > _MAX_DEPTH:
        raise BsonError("documents nested too deeply")
    (size,) = struct.unpack_from("<i", data, pos)
    end = pos + size
    if size < 5 or end > len(data):
        raise BsonError(f"document of {size} bytes at {pos} does not fit")
    pos += 4
    fields: dict[str, Any] = {}
    while pos < end - 1 and data[pos]:
        kind = data[pos]
        stop = data.index(0, pos + 1, end)
        name = data[pos + 1 : stop].decode()
        fields[name], pos = _value(data, stop + 1, kind, depth)
    return fields, end


def _value(data: bytes, pos: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == 0x01:
        return struct.unpack_from("<d", data, pos)[0], pos + 8
    if kind == 0x02:
        (size,) = struct.unpack_from("<i", data, pos)
        if size < 1 or pos + 4 + size > len(data):
            raise BsonError(f"text of {size} bytes at {pos} does not fit")
        return data[pos + 4 : pos + 3 + size].decode(), pos + 4 + size
    if kind == 0x03:
        return _document(data, pos, depth + 1)
    if kind == 0x04:
        fields, end = _document(data, pos, depth + 1)
        return list(fields.values()), end
    if kind == 0x08:
        return data[pos] != 0, pos + 1
    if kind == 0x0A:
        return None, pos
    if kind == 0x10:
        return struct.unpack_from("<i", data, pos)[0], pos + 4
    if kind == 0x12:
        return struct.unpack_from("<q", data, pos)[0], pos + 8
    raise BsonError(f"element kind {kind:#x} at {pos} is not served")
