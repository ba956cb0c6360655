"""Damage of files of the first toolkit: bytes as in any file, and values of their description."""

from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import strategies as st

from tests.support import damage

__all__ = ["KINDS", "described", "mixed", "parts"]

KINDS = ["truncated", "flipped", "overwritten", "headed"]
"""Ways of ``damage`` that need no flatbuffer."""
_FIRST = 24
_VALUES: tuple[Any, ...] = (
    None, -1, 0, 1, 2, 3, 7, 255, 65536, 1 << 31, 1 << 40, 1 << 64, -(1 << 63), 0.0, -0.5, 1e-300, 1e300, True, "", "x", [],
    [0], [1, 2, 3, 4], [-1, 0, 1, 1 << 30], {}, [[]], "VSI_NN_TYPE_INT16", "VSI_NN_QNT_TYPE_DFP", "const_tensor",
    "VSI_NN_OP_RESHAPE", "VSI_NN_OP_CONV2D", "VSI_NN_OP_X",
)  # fmt: skip


def parts(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Constants and description of a file of container 1."""
    size = struct.unpack_from("<Q", data, 16)[0]
    fields: dict[str, Any] = json.loads(data[_FIRST + size + 8 :])
    return data[_FIRST : _FIRST + size], fields


def joined(constants: bytes, text: bytes) -> bytes:
    """A file of these parts."""
    sizes = struct.pack("<QQ", 1, len(constants)), struct.pack("<Q", len(text))
    return b"RKNN\0\0\0\0" + sizes[0] + constants + sizes[1] + text


def mixed(data: bytes) -> st.SearchStrategy[bytes]:
    """Damage of any kind; that of the description is drawn as often as all others."""
    return st.one_of(described(data), *(getattr(damage, kind)(data) for kind in KINDS))


def described(data: bytes) -> st.SearchStrategy[bytes]:
    """Some values of the description replaced, or the entries around them left out."""
    constants, fields = parts(data)
    places = list(_places(fields, ()))
    change = st.tuples(st.sampled_from(places), st.sampled_from(_VALUES), st.integers(0, 9))

    def write(changes: list[tuple[tuple[Any, ...], Any, int]]) -> bytes:
        damaged = json.loads(json.dumps(fields))
        for place, value, lot in changes:
            _replace(damaged, place, value, drop=lot == 0)
        return joined(constants, json.dumps(damaged).encode())

    return st.lists(change, min_size=1, max_size=4).map(write)


def _places(value: Any, way: tuple[Any, ...]) -> Any:
    if way:
        yield way
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(inner, (*way, key))


def _replace(root: Any, way: tuple[Any, ...], value: Any, drop: bool) -> None:
    try:
        for key in way[:-1]:
            root = root[key]
        if drop:
            del root[way[-1]]
        else:
            root[way[-1]] = value
    except (LookupError, TypeError):  # an earlier change took its place away
        return
