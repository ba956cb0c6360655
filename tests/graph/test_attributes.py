"""Node attributes: the typed union first, the BSON document second."""

from __future__ import annotations

from typing import Any

import pytest
from rknnlite_graph.reading.attributes import read_attributes

from rknnlite.formats.flatbuffer import Table, root
from tests.support.flat import build, i32s

from .test_bson import encode

CONV, CONCAT, LEAKY, PAD = 1, 19, 9, 30


def read(op: str, code: int, union: dict[int, Any] | None, document: bytes = b"") -> dict[str, Any]:
    fields: dict[int, Any] = {9: document}
    if union is not None:
        fields[8] = union
    node = root(memoryview(build(fields)), b"RKNN")
    table: Table | None = node.table(8)
    return read_attributes(node, op, code, table)


def bson(**values: Any) -> bytes:
    return encode({name: {"dtype": "i", "value": value} for name, value in values.items()})


def test_union_of_a_convolution() -> None:
    union = {0: "NOTSET", 1: i32s(1, 1), 2: 4, 3: i32s(3, 3), 4: i32s(1, 1, 0, 0), 5: i32s(2, 2)}
    assert read("Conv", CONV, union) == {
        "auto_pad": "NOTSET", "dilations": [1, 1], "group": 4, "kernel_shape": [3, 3], "pads": [1, 1, 0, 0],
        "strides": [2, 2],
    }  # fmt: skip


def test_the_union_wins_over_the_document() -> None:
    got = read("Conv", CONV, {4: i32s(1, 1, 0, 0)}, bson(pads=[1, 1, 1, 1], strides=[7, 7]))
    assert got["pads"] == [1, 1, 0, 0] and got["strides"] == [7, 7]


def test_an_absent_axis_in_a_union_is_zero() -> None:
    assert read("Concat", CONCAT, {}) == {"axis": 0}
    assert read("Concat", CONCAT, {0: -1}) == {"axis": -1}


def test_floats_and_texts() -> None:
    assert read("LeakyRelu", LEAKY, {0: 0.25}) == {"alpha": 0.25}
    assert read("Pad", PAD, {0: "reflect"}) == {"mode": "reflect"}


def test_without_a_union_the_document_speaks() -> None:
    assert read("cstDualResidual", 0, None, bson(alpha=0.5, names="x")) == {"alpha": 0.5, "names": "x"}


@pytest.mark.parametrize(
    "garbage", [b"", b"\x05", b"\xff" * 40, b"\x05\0\0\0\0", bytes(64), b"\x20\0\0\0\x10ab"]
)
def test_garbage_in_the_place_of_the_document(garbage: bytes) -> None:
    assert read("OutputOperator", 0, None, garbage) == {}


def test_garbage_in_an_unused_slot_of_a_union_is_skipped() -> None:
    assert read("Conv", CONV, {0: 0x7FFFFFFF, 2: 1}) == {"group": 1}


def test_lists_are_bounded() -> None:
    assert len(read("Conv", CONV, {3: i32s(*range(1000))})["kernel_shape"]) == 64


def test_type_of_a_cast() -> None:
    """Slot 0 is another attribute, always 1; taking it for the type makes every cast one to float."""
    assert read("Cast", 96, {0: 1, 1: 9}, bson(to=9))["to"] == 9
