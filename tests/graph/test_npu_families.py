"""Rows of NPU families: every SoC has one, and its places give what registers hold."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from rknnlite_graph.graph import Node
from rknnlite_graph.reading.npu_families import FAMILIES, family_of
from rknnlite_graph.reading.output_stages import StageReader
from rknnlite_graph.reading.register_map import T3, V1, V2A, V2B, W1, Field, scaled
from rknnlite_graph.reading.registers import RegisterProgram

from rknnlite import socs
from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType


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
    """3 x 5; newer generations store them less one."""
    assert V1.kernel_size({0x1038: 3 << 16 | 5 << 24}) == (3, 5)
    assert V2A.kernel_size({0x1024: 3 << 16 | 5 << 24}) == (3, 5)
    assert V2B.kernel_size({0x1024: 2 << 16 | 4 << 24}) == (3, 5)
    assert T3.kernel_size({0x1038: 3 << 16 | 5 << 24}) == (3, 5)
    assert W1.kernel_size({0x1018: 2 << 16 | 4 << 24}) == (3, 5)
    assert replace(V1, kernel=None).kernel_size({}) is None


def test_kernels_that_are_too_large() -> None:
    """Five bits: 87 = 2 * 32 + 23, and 32 fits where it is stored less one."""
    assert V1.largest_kernel == T3.largest_kernel == 31 and V2B.largest_kernel == W1.largest_kernel == 32
    assert V1.held((1, 31)) == (1, 31) and V1.held((1, 87)) == (1, 23) and V1.held((32, 33)) == (0, 1)
    assert V2B.held((1, 32)) == (1, 32) and V2B.held((1, 87)) == (1, 23) and V2B.held((64, 33)) == (32, 1)


def test_a_common_multiplier() -> None:
    assert V1.shared_multiplier({0x4048: 5 << 16}) == 1.0
    assert V1.shared_multiplier({0x4040: 0, 0x4048: 5 << 16}) == 5.0
    assert V2A.shared_multiplier({0x4040: 0, 0x4048: 5 << 16}) == 1.0


def test_small_constants_are_read_as_registers() -> None:
    """rk3576 keeps the shift of the accumulator in the first byte of the BS constant."""
    assert V2B.bs_shift.of({0x10000: 0xFFF2_000E}) == 14
    assert V2B.common_zero.of({0x10000: 0xFFF2_FFFD}) == -3


@pytest.mark.parametrize(
    ("word", "register", "low"),
    [("RKNPU v2", 0x301C, 0), ("RKNPU lite", 0x302C, 0), ("RKNPU t4", 0x3024, 0), ("RKNPU f2", 0x3024, 0),
     ("RKNPU f3", 0x3024, 0), ("RKNPU t3", 0x301C, 0), ("RKNPU w1", 0x1048, 8)],
)  # fmt: skip
def test_where_accumulators_are_shifted_before_the_bias(word: str, register: int, low: int) -> None:
    """Measured on networks whose biases pass 32 bits; the stored bias is smaller by the shift."""
    program = RegisterProgram.from_blobs(
        [(0, memoryview(struct.pack("<Q", (4 << low) << 32 | register << 16)))]
    )
    reader = StageReader(family_of(word), program, lambda name: None)
    stage = reader.read(Node(0, "Conv", "c", [0], [1]), reader.registers(0, "y"), "y", DType.INT8)
    assert stage.bias_scale == 16 and stage.pre_scale == 1 / 16


def test_positive_and_negative_shifts() -> None:
    """A slope is a fraction of the difference of the two; rk3576 keeps both in the BS constant."""
    assert V1.shifts({0x4048: 2 << 8, 0x4010: 15 << 4}) == (2, 15)
    assert V2A.shifts({0x4038: 2 << 8, 0x4054: 15 << 16}) == (2, 15)
    assert V2B.shifts({0x501C: 0x710, 0x10000: 0xF02}) == (2, 15)
    assert V2B.shifts({0x501C: 0x114, 0x4050: 1 << 17, 0x10000: 11}) == (0, 0)
    assert V2B.shifts({0x501C: 0x11C, 0x4050: 0, 0x10000: 11, 0x10020: 0xF02}) == (2, 15)
