"""The flatbuffer reader against small buffers made by hand."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rknnlite.errors import ModelInvalid
from rknnlite.formats.flatbuffer import Table, root
from tests.support.flat import I8, Words, build, f32s, i32s

FIELDS = {
    0: I8(-5), 1: 123456, 2: 1.5, 3: "résumé", 4: b"\x00\x01\xff", 5: i32s(3, -1, 2**31 - 1), 6: f32s(0.5, -2.0),
    8: {1: 7}, 9: [{0: 1}, {0: 2}, {}], 10: ["one", "", "three"], 11: i32s(), 12: {},
}  # fmt: skip


def opened(fields: Any = None) -> Table:
    return root(memoryview(build(FIELDS if fields is None else fields)), b"RKNN")


def test_every_kind_of_field() -> None:
    table = opened()
    assert table.i8(0) == -5
    assert table.i32(1) == 123456
    assert table.f32(2) == 1.5
    assert table.string(3) == "résumé"
    assert bytes(table.data(4)) == b"\x00\x01\xff"
    assert table.i32s(5).tolist() == [3, -1, 2**31 - 1] and table.i32s(5).dtype == np.int32
    assert table.f32s(6).tolist() == [0.5, -2.0]
    assert opened({0: Words((1 << 40, 5), "Q")}).u64s(0).tolist() == [1 << 40, 5]
    child = table.table(8)
    assert child is not None and child.i32(1) == 7
    assert [entry.i32(0, -1) for entry in table.tables(9)] == [1, 2, -1]
    assert table.strings(10) == ["one", "", "three"]
    assert table.count(5) == 3 and table.count(11) == 0 and table.i32s(11).size == 0
    empty = table.table(12)
    assert empty is not None and empty.empty and not table.empty


@pytest.mark.parametrize("slot", [7, 13, 5000])
def test_absent_fields_give_the_default(slot: int) -> None:
    table = opened()
    assert not table.has(slot) and table.has(0)
    assert (table.i8(slot), table.i8(slot, 4)) == (0, 4)
    assert (table.i32(slot, -1), table.f32(slot, 2.5)) == (-1, 2.5)
    assert table.string(slot) == "" and table.strings(slot) == [] and len(table.data(slot)) == 0
    assert table.i32s(slot).size == table.f32s(slot).size == table.u64s(slot).size == table.count(slot) == 0
    assert table.table(slot) is None and list(table.tables(slot)) == []


def test_undecodable_text_is_replaced() -> None:
    assert opened({0: b"a\xffb"}).string(0) == "a\ufffdb"


def test_identifier_is_checked() -> None:
    good = build(FIELDS)
    for bad in (b"", b"\x08\0\0\0", good[:7], good[:4] + b"TFL3" + good[8:]):
        with pytest.raises(ModelInvalid, match="identifier RKNN is missing from the payload"):
            root(memoryview(bad), b"RKNN")


def read_everything(table: Table, depth: int = 0) -> None:
    """Every kind of access to every slot, whatever the field really is."""
    for slot in range(14):
        for access in (table.i8, table.i32, table.f32, table.data, table.string, table.strings, table.i32s,
                       table.f32s, table.has, table.count):  # fmt: skip
            try:
                access(slot)
            except ModelInvalid as error:
                assert "damaged file" in str(error)
        if depth < 2:
            try:
                children = [table.table(slot), *table.tables(slot)]
            except ModelInvalid:
                continue
            for child in children:
                if child is not None:
                    read_everything(child, depth + 1)


@given(st.integers(0, len(build(FIELDS)) - 1))
def test_truncated(size: int) -> None:
    with contextlib.suppress(ModelInvalid):
        read_everything(root(memoryview(build(FIELDS)[:size]), b"RKNN"))


@given(st.lists(st.tuples(st.integers(0, 10000), st.integers(0, 255)), min_size=1, max_size=10))
def test_damaged(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(build(FIELDS))
    for place, value in changes:
        raw[place % len(raw)] = value
    with contextlib.suppress(ModelInvalid):
        read_everything(root(memoryview(bytes(raw)), b"RKNN"))


@pytest.mark.parametrize("count", [4, 1 << 16, 0x3FFFFFFF, 0x40000001, 0xFFFFFFFF])
def test_vectors_longer_than_the_file(count: int) -> None:
    raw = bytearray(build({0: Words((1, 2, 3), "I")}))
    struct.pack_into("<I", raw, len(raw) - 16, count)
    table = root(memoryview(bytes(raw)), b"RKNN")
    assert table.count(0) == count
    for access in (table.i32s, table.f32s, table.strings, lambda slot: list(table.tables(slot))):
        with pytest.raises(
            ModelInvalid, match=f"{count} elements at byte .* do not fit its {len(raw)} bytes"
        ):
            access(0)
    if count > 12:
        with pytest.raises(ModelInvalid, match=f"a blob of {count} bytes"):
            table.data(0)


def test_a_list_may_not_name_a_table_twice() -> None:
    raw = bytearray(build({0: [{0: 1}, {0: 2}]}))
    vector = raw.index(b"\x02\0\0\0", 20)  # the count of the list
    first = struct.unpack_from("<I", raw, vector + 4)[0]
    struct.pack_into("<I", raw, vector + 8, first - 4)
    with pytest.raises(ModelInvalid, match="two entries of a list name the same table"):
        list(root(memoryview(bytes(raw)), b"RKNN").tables(0))


@pytest.mark.parametrize("size", [0, 2, 5, 0xFFFF])
def test_impossible_vtables(size: int) -> None:
    raw = bytearray(build({0: 1}))
    table = struct.unpack_from("<I", raw, 0)[0]
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    struct.pack_into("<H", raw, vtable, size)
    with pytest.raises(ModelInvalid, match="damaged file"):
        root(memoryview(bytes(raw)), b"RKNN")
