"""Rows of NPU families: every SoC has one, and its places give what registers hold."""

from __future__ import annotations

import pytest

from rknnlite import socs
from rknnlite.errors import ModelInvalid
from rknnlite.formats.families import FAMILIES, family_of
from rknnlite.formats.register_map import V1, V2A, V2B, Field, scaled


def test_every_soc_of_the_generation_has_a_row() -> None:
    assert {soc.family for soc in socs.table().values() if soc.generation == "rknpu2"} == set(FAMILIES)


def test_unknown_family() -> None:
    with pytest.raises(ModelInvalid, match="unknown NPU family 'RKNPU x9'; known: RKNPU v2, "):
        family_of("RKNPU x9")


def test_what_a_field_is_without_its_register() -> None:
    unused = Field(0x4070, 7, 1, absent=1)
    assert unused.of({}) == 1 and unused.of({0x4070: 0x7F}) == 0 and unused.of({0x4070: 0x80}) == 1


def test_numbers_with_a_shift() -> None:
    assert scaled(V1.out, {0x4084: 1 << 16 | 3, 0x4088: 2}) == 0.75
    assert scaled(V2A.out, {0x40B0: 3, 0x40B4: 2}) == 0.75


def test_kernel_sizes() -> None:
    """3 x 5; the newest generation stores them less one."""
    assert V1.kernel_size({0x1038: 3 << 16 | 5 << 24}) == (3, 5)
    assert V2A.kernel_size({0x1024: 3 << 16 | 5 << 24}) == (3, 5)
    assert V2B.kernel_size({0x1024: 2 << 16 | 4 << 24}) == (3, 5)
    assert family_of("RKNPU t3").places.kernel_size({}) is None


def test_a_common_multiplier() -> None:
    assert V1.shared_multiplier({0x4048: 5 << 16}) == 1.0
    assert V1.shared_multiplier({0x4040: 0, 0x4048: 5 << 16}) == 5.0
    assert V2A.shared_multiplier({0x4040: 0, 0x4048: 5 << 16}) == 1.0


def test_small_constants_are_read_as_registers() -> None:
    """rk3576 keeps the shift of the accumulator in the first byte of the BS constant."""
    assert V2B.bs_shift.of({0x10000: 0xFFF2_000E}) == 14
    assert V2B.common_zero.of({0x10000: 0xFFF2_FFFD}) == -3
