"""BSON: documents written by hand, and everything that is none."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_graph.reading.bson import BsonError, decode


def encode(value: dict[str, Any]) -> bytes:
    """The reference writer: the public BSON layout, for the kinds that node attributes use."""
    body = b"".join(element(name, item) for name, item in value.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def element(name: str, value: Any) -> bytes:
    kind, body = payload(value)
    return bytes([kind]) + name.encode() + b"\0" + body


def payload(value: Any) -> tuple[int, bytes]:
    if value is None:
        return 0x0A, b""
    if isinstance(value, bool):
        return 0x08, bytes([value])
    if isinstance(value, int):
        return (0x10, struct.pack("<i", value)) if abs(value) < 1 << 31 else (0x12, struct.pack("<q", value))
    if isinstance(value, float):
        return 0x01, struct.pack("<d", value)
    if isinstance(value, str):
        raw = value.encode()
        return 0x02, struct.pack("<i", len(raw) + 1) + raw + b"\0"
    if isinstance(value, list):
        return 0x04, encode({str(i): item for i, item in enumerate(value)})
    return 0x03, encode(value)


names = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=5)


def depth(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + max(map(depth, items), default=0)


@given(documents)
def test_round_trip(document: dict[str, Any]) -> None:
    if depth(document) <= 8:
        assert decode(encode(document)) == document


def test_attributes_of_a_convolution() -> None:
    document = {"strides": {"dtype": "is", "value": [2, 2]}, "alpha": {"dtype": "f", "value": 0.5}}
    raw = encode(document)
    assert raw[:4] == struct.pack("<i", len(raw))
    assert decode(raw) == document
    assert decode(memoryview(raw + b"trailing bytes of the vector")) == document


@given(documents, st.data())
def test_truncated(document: dict[str, Any], data: st.DataObject) -> None:
    raw = encode(document)
    with pytest.raises(BsonError):
        decode(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=80), st.booleans())
def test_garbage(raw: bytes, sized: bool) -> None:
    if sized:
        raw = struct.pack("<i", len(raw) + 4) + raw
    with contextlib.suppress(BsonError):
        assert isinstance(decode(raw), dict)


@given(documents, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged(document: dict[str, Any], changes: list[tuple[int, int]]) -> None:
    raw = bytearray(encode(document))
    for place, value in changes:
        raw[place % len(raw)] = value
    with contextlib.suppress(BsonError):
        decode(bytes(raw))


def test_depth_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(BsonError, match="nested too deeply"):
        decode(encode(deep))


def test_kinds_that_are_not_served() -> None:
    raw = struct.pack("<i", 12) + b"\x05a\0" + bytes(4) + b"\0"
    with pytest.raises(BsonError, match="element kind 0x5 at 7 is not served"):
        decode(raw)
