"""What families have elsewhere than RK3588: places, constants, units that count together."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_graph.reading.npu_families import FAMILIES
from rknnlite_npu.command_words import CNA, CORE, DPU, DPU_RDMA
from rknnlite_npu.machine import cna, rdma, writer
from rknnlite_npu.machine.designs import DESIGNS
from rknnlite_npu.machine.refused import MachineRefused
from rknnlite_npu.machine.registers import Field, UnitRegisters

from .programs import Board

RK356X = "RKNPU lite"
COPY = {
    DPU: {
        0x400C: 0x109,
        0x4024: 2 * 8,
        0x4030: 1,
        0x403C: 0xF << 16 | 0xF,
        0x4040: 0x53,
        0x4050: 2,
        0x4060: 0x53,
        0x4070: 0x383,
        0x4084: 1,
    },
    DPU_RDMA: {0x500C: 1, 0x5014: 0xF, 0x501C: 1, 0x5028: 1, 0x5034: 1, 0x5044: 0x4001},
}
"""Two positions of 16 channels through the stages of the DPU, as the vendor's words have it."""


def copying(board: Board, values: np.ndarray) -> tuple[dict[int, dict[int, int]], int]:
    """The registers, and where they write."""
    target = board.room(32)
    registers = {unit: dict(words) for unit, words in COPY.items()}
    registers[DPU][0x4020], registers[DPU_RDMA][0x5018] = target, board.place(values)
    return registers, target


def test_atoms_are_as_long_as_the_design_says() -> None:
    board, values = Board(RK356X), np.arange(32, dtype=np.int8)
    registers, target = copying(board, values)
    board.run(registers, 0x18)
    assert np.array_equal(board.read(target, "int8", 32), values)


def test_a_field_of_rk3588_alone_is_refused_where_it_is_set() -> None:
    board = Board(RK356X)
    registers, _ = copying(board, np.zeros(32, np.int8))
    registers[DPU][0x4058] = 0xF
    with pytest.raises(MachineRefused, match="0x4058"):
        board.run(registers, 0x18)


def test_an_operation_is_read_where_the_family_has_it() -> None:
    board = Board(RK356X)
    registers, target = copying(board, np.arange(32, dtype=np.int8))
    registers[DPU].update({0x4040: 0x40 | 0x10 | 2 << 2, 0x4044: 5})
    board.run(registers, 0x18)
    assert np.array_equal(board.read(target, "int8", 32), np.arange(32) + 5)
    registers[DPU][0x4040] = 0x40 | 0x10 | 3 << 2
    with pytest.raises(MachineRefused, match="BS_ALU_ALGO = 0x3"):
        board.run(registers, 0x18)


@pytest.mark.parametrize("enable", [0x1D, 0x1B])
def test_parts_of_a_unit_do_not_start_alone(enable: int) -> None:
    board = Board(RK356X)
    registers, _ = copying(board, np.zeros(32, np.int8))
    with pytest.raises(MachineRefused, match="CORE in part"):
        board.run(registers, enable)


def test_fields_have_one_place_each() -> None:
    """Of RK3588 those of their modules; two fields of a unit share bits only where one stands for the other."""
    design = DESIGNS[RK356X]
    registers = UnitRegisters(CNA, {0x104C: 1, 0x1068: 0xFF80_0011}, 0, design)
    assert registers[cna.CONVERT_BYPASS] == 0 and registers[cna.PAD_VALUE] == 0xFF80
    assert registers[cna.NONALIGN] == 0, "it has no such field"
    assert UnitRegisters(CNA, {}, 0, design)[cna.CONVERT_BYPASS] == 1
    assert UnitRegisters(DPU, {0x4024: 24}, 0, design)[writer.SURFACE_STRIDE] == 3
    assert UnitRegisters(DPU_RDMA, {0x5044: 1}, 0, design)[rdma.SOURCE_DISABLE] == 0
    assert all(isinstance(field, Field) for field in design.places)


def test_every_design_is_a_family_and_counts_its_units_once() -> None:
    assert set(DESIGNS) <= set(FAMILIES)
    for word, design in DESIGNS.items():
        assert design.group == FAMILIES[word].bias_group
        bits = list(design.bits.values())
        assert all(a & b == 0 for i, a in enumerate(bits) for b in bits[:i])
        assert set(design.parts.values()) <= {CORE}
