"""The frame of a toolkit-1 file: header, data, and the JSON that describes them, of bounded size and depth.

Version 1: header of 24 bytes, data, u64 length, JSON. Version 2: u64 length and JSON at 24, then libraries of custom
operators behind a JSON list of their own; it has no data in its header's sense.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ...errors import ModelInvalid, shown
from ...files.json_text import parse_json

__all__ = ["FIRST_DATA", "Container", "unpack"]

FIRST_DATA = 24
_LENGTH = struct.Struct("<Q")
_MOST_JSON = 1 << 26
"""Bytes; the largest known description has 200,000."""
_MOST_DEPTH = 32


class Container(NamedTuple):
    """The parts of a file; ``libraries`` describe the custom operators of version 2."""

    version: int
    data: memoryview
    fields: dict[str, Any]
    libraries: list[Any]


def unpack(data: memoryview) -> Container:
    """Take a file apart; raises ModelInvalid."""
    version = _length(data, 8, "header")
    if version == 1:
        size = _length(data, 16, "data")
        end = FIRST_DATA + size
        if end > len(data):
            raise ModelInvalid(f"damaged file: {size} bytes of data in a file of {len(data)}; copy it again")
        text, _ = _block(data, end, "description")
        return Container(version, data[FIRST_DATA:end], _object(text), [])
    text, end = _block(data, FIRST_DATA, "description")
    libraries, end = _block(data, end, "list of custom operators")
    return Container(version, data[end:], _object(text), _parsed(libraries, list, "list of custom operators"))


def _length(data: memoryview, at: int, what: str) -> int:
    if at + _LENGTH.size > len(data):
        raise ModelInvalid(f"the file is truncated: it ends before the length of its {what}; copy it again")
    size: int = _LENGTH.unpack_from(data, at)[0]
    return size


def _block(data: memoryview, at: int, what: str) -> tuple[bytes, int]:
    """What stands behind its length at ``at``, and where it ends."""
    size, start = _length(data, at, what), at + _LENGTH.size
    if size > len(data) - start:
        raise ModelInvalid(
            f"the file is truncated: its {what} takes {size} bytes, {len(data) - start} are left; copy it again"
        )
    if size > _MOST_JSON:
        raise ModelInvalid(f"damaged file: its {what} takes {size} bytes, at most {_MOST_JSON} are read")
    return bytes(data[start : start + size]), start + size


def _object(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = _parsed(text, dict, "description")
    return found


def _parsed(text: bytes, kind: type, what: str) -> Any:
    if _depth(text) > _MOST_DEPTH:
        raise ModelInvalid(f"damaged file: its {what} is nested deeper than {_MOST_DEPTH} levels")
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ModelInvalid(f"damaged file: its {what} is no JSON ({shown(error)}); copy it again") from None
    if not isinstance(value, kind):
        raise ModelInvalid(f"damaged file: its {what} is {shown(value)}, must be a {kind.__name__}")
    return value


def _depth(text: bytes) -> int:
    """An upper bound of the nesting: brackets inside of texts count, too."""
    level = deepest = 0
    for byte in text.translate(None, _NO_BRACKETS):
        level += 1 if byte in b"[{" else -1
        deepest = max(deepest, level)
    return deepest


_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
