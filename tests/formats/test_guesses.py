"""Files that say something no verified file says are loaded with a line that names it."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import pytest

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.attributes import unread_attributes
from rknnlite.formats.flatbuffer import root
from rknnlite.formats.guesses import CONTROL_REGISTERS, SEEN, about_container, about_registers
from rknnlite.formats.slots import UnionCode
from rknnlite.graph import Guess
from tests.support.corpus import DATA, EXAMPLES, genuine
from tests.support.flat import build, i32s
from tests.support.packed import packed

STEM = "conv_relu.rk3588.i8"
UNKNOWN_BIT = 0x2000


def with_register(stem: str, register: int, bits: int) -> bytes:
    """A genuine file in which every command that sets a register of the output stage sets more bits of it."""
    data = bytearray(genuine(stem).read_bytes())
    places = [
        at
        for at in range(0, len(data) - 8, 8)
        if struct.unpack_from("<H", data, at)[0] == register
        and struct.unpack_from("<H", data, at + 6)[0] in (0x1001, 0x2001)
    ]
    assert places
    for at in places:
        (word,) = struct.unpack_from("<Q", data, at)
        struct.pack_into("<Q", data, at, word | bits << 16)
    return bytes(data)


def known_right() -> list[Path]:
    return [*DATA.glob("*.rknn"), *EXAMPLES.rglob("*.rknn"), *packed("uneven").glob("*.rknn")]


ASSUMED = {"int16_fused.rk3562.i16.rknn", "int16_fused.rk3588.i16.rknn"}
"""Files that do not hold alpha of their Elu: right, because it is the one that is taken."""


def test_files_known_right_make_no_guess() -> None:
    wrong = {}
    for path in known_right():
        try:
            model = ModelFile(path).model
            guesses = [
                guess for index in range(max(1, len(model.shapes))) for guess in model.graph(index).guesses
            ]
        except ModelInvalid:
            continue  # kept to be refused
        if guesses:
            wrong[path.name] = guesses
    assert set(wrong) == ASSUMED, wrong
    assert all("alpha of its Elu is not in the file; 1 is taken" in guess.fact for (guess,) in wrong.values())


def test_an_unknown_bit_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    model = ModelFile(with_register(STEM, 0x4060, UNKNOWN_BIT)).model
    with caplog.at_level(logging.WARNING, "rknnlite"):
        graph = model.graph()
        model.graph()
    (line,) = [record.getMessage() for record in caplog.records if "not verified" in record.getMessage()]
    (node,) = [node for node in graph.nodes if node.conv is not None]
    assert node.label() in line and "register 0x4060" in line and "its bits 0x2000 in none" in line
    assert graph.guesses == [Guess(node.label(), node.doubts[0])]


@pytest.mark.parametrize("family", list(CONTROL_REGISTERS))
def test_each_family_has_its_control_registers(family: str) -> None:
    for register, mask in CONTROL_REGISTERS[family].items():
        known = next(iter(SEEN[family][register]))
        assert about_registers(family, {register: known | ~mask & 0xFFFFFFFF}) == []
        free = next(
            bit for bit in range(32) if mask >> bit & 1 and known ^ 1 << bit not in SEEN[family][register]
        )
        (fact,) = about_registers(family, {register: known ^ 1 << free})
        assert f"{register:#06x}" in fact


def test_layers_with_shared_parameters_are_in_the_table() -> None:
    """No file known before had these values; their layers came out wrong without a word."""
    for family, register, value in (
        ("RKNPU f2", 0x501C, 0x11C),
        ("RKNPU t4", 0x4050, 0),
        ("RKNPU w1", 0x4030, 0x40020042),
    ):
        assert value in SEEN[family][register]


def test_attributes_that_nobody_reads() -> None:
    def table(slot: int) -> object:
        return root(memoryview(build({slot: i32s(1, 2)})), b"RKNN")

    assert unread_attributes("Conv", UnionCode.CONV, table(4)) == []  # type: ignore[arg-type]
    assert unread_attributes("MaxPool", UnionCode.MAX_POOL, table(0)) == []  # type: ignore[arg-type]
    (fact,) = unread_attributes("Conv", UnionCode.CONV, table(9))  # type: ignore[arg-type]
    assert fact == "attribute 9 in its table of kind 1 is filled, but not known"
    (fact,) = unread_attributes("exNew", 120, table(0))  # type: ignore[arg-type]
    assert "unknown kind 120" in fact
    assert (
        unread_attributes("Cos", 72, root(memoryview(build({})), b"RKNN"))
        == unread_attributes("Cos", 72, None)
        == []
    )


def test_containers_and_toolkits() -> None:
    assert about_container(6, "2.5.0") == about_container(2, "1.4.0b9") == about_container(6, "") == []
    (fact,) = about_container(6, "2.6.0")
    assert "toolkit 2.6" in fact and "up to 2.5" in fact
    assert "container version 5" in about_container(5, "1.5.2")[0]
