"""Task records: groups of registers, units that start together, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import CNA, CORE, DPU, DPU_RDMA, PC, CommandWord
from rknnlite_npu.machine.machine import Counts, Machine
from rknnlite_npu.machine.refused import MachineRefused

from .programs import CODES, CONVOLUTION, ELEMENTWISE, Board, blocks, convolution, copying, cube


def test_what_a_task_leaves_out_is_of_the_last_but_one() -> None:
    board = Board()
    values = [np.full((1, 2, 16), k, np.int8) for k in range(4)]
    sources = [board.place(cube(v)) for v in values]
    target = board.room(4 * 32)
    full = [copying((1, 2, 16), "int8", sources[k], target + 32 * k) for k in range(2)]
    later = [{DPU: {0x4020: target + 32 * k}, DPU_RDMA: {0x5018: sources[k]}} for k in (2, 3)]
    board.machine.run(board.memory, [board.task(registers, ELEMENTWISE) for registers in full + later])
    assert board.read(target, "int8", 128).tolist() == np.repeat(range(4), 32).tolist()


def test_a_group_that_nobody_wrote_is_not_taken_for_the_other() -> None:
    board = Board()
    target = board.room(32)
    first = copying((1, 2, 16), "int8", board.place(np.ones(32, np.int8)), target)
    board.run(first, ELEMENTWISE)
    with pytest.raises(MachineRefused):
        board.run({DPU: {0x4020: target}}, ELEMENTWISE)


def test_counts() -> None:
    board = Board()
    features, weights = np.ones((3, 4, 32), np.int8), np.ones((32, 1, 1, 32), np.int8)
    registers = convolution(
        features, weights, (3, 4), CODES["int8"],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=board.room(3 * 4 * 32),
    )  # fmt: skip
    board.run(registers, CONVOLUTION)
    assert board.machine.counts == [Counts(macs=12 * 32 * 32, read=12 * 32 + 32 * 32, written=12 * 32)]


@pytest.mark.parametrize(
    ("unit", "register", "bits", "field"),
    [
        (DPU, 0x400C, 1 << 28 | 1 << 25, "RGP_TYPE"),  # a way of regrouping that nobody has seen
        (DPU, 0x4010, 7 << 29, "OUT_PRECISION"),
        (DPU, 0x4038, 1 << 31, "bits"),
        (DPU, 0x40C4, 1, "bits"),  # a register without a name
        (DPU, 0x4FFC, 1, "bits"),
        (DPU_RDMA, 0x5034, 1 << 29, "ERDMA_SURF_MODE"),
        (DPU_RDMA, 0x5044, 1 << 8, "COMB_USE"),
        (DPU_RDMA, 0x501C, 8 << 1, "BRDMA_DATA_USE"),
    ],
)
def test_what_is_not_understood_is_named(unit: int, register: int, bits: int, field: str) -> None:
    board = Board()
    registers = copying((1, 2, 16), "int8", board.room(32), board.room(32))
    value = registers[unit].get(register, 0) | bits
    registers[unit][register] = value
    with pytest.raises(MachineRefused) as raised:
        board.run(registers, ELEMENTWISE)
    error = raised.value
    assert (error.register, error.task) == (register, 0) and error.field.startswith(field)
    assert f"{register:#06x}" in str(error) and "task 0" in str(error)


@pytest.mark.parametrize("enable", [0, 0x01, 0x04, 0x10, 0x09, 0x0C, 0x20, 0x40, 0x68, 0x7D, 0x80, 0x1A])
def test_units_start_together_in_known_ways(enable: int) -> None:
    board = Board()
    with pytest.raises(MachineRefused):
        board.run(copying((1, 2, 16), "int8", board.room(32), board.room(32)), enable)


def test_words_for_others_than_units_are_refused() -> None:
    board = Board()
    for unit in (0x0081, 0x0041, 0x1234, PC):
        with pytest.raises(MachineRefused, match="among those of a task"):
            board.run({unit: {0x8: 1}}, ELEMENTWISE)


def test_where_the_next_program_begins_does_not_count() -> None:
    board = Board()
    target = board.room(32)
    registers = copying((1, 2, 16), "int8", board.place(np.full(32, 5, np.int8)), target)
    board.run({**registers, PC: {0x10: 0x1234, 0x14: 7}}, ELEMENTWISE)
    assert set(board.read(target, "int8", 32).tolist()) == {5}


def test_a_task_may_change_words_of_later_ones() -> None:
    """Recurrent nodes do: the words of a task are read when its turn comes."""
    board = Board()
    target = board.room(64)
    second = board.task(
        copying((1, 1, 16), "int8", board.place(np.full(16, 7, np.int8)), target), ELEMENTWISE
    )
    words = board.read(second.address, "<u8", second.amount).tolist()
    places = [CommandWord.of(word).register for word in words]
    at = places.index(0x4020) // 2 * 2
    pair = np.array(words[at : at + 2], np.uint64)
    pair[places.index(0x4020) - at] += np.uint64(32 << 16)
    first = copying((1, 1, 16), "int8", board.place(pair), second.address + 8 * at)
    board.machine.run(board.memory, [board.task(first, ELEMENTWISE), second])
    assert board.read(target, "int8", 64).tolist() == [0] * 32 + [7] * 16 + [0] * 16


def test_an_npu_without_a_map_is_refused() -> None:
    with pytest.raises(MachineRefused, match="RKNPU x"):
        Machine("RKNPU x")


def test_units_that_disagree_are_refused() -> None:
    board = Board()
    features, weights = np.ones((3, 4, 32), np.int8), np.ones((32, 1, 1, 32), np.int8)
    for unit, register, value in ((CORE, 0x3010, 0x201), (CORE, 0x3010, 3), (CNA, 0x1084, 0x50003)):
        registers = convolution(
            features, weights, (3, 4), CODES["int8"],
            source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=board.room(3 * 4 * 32),
        )  # fmt: skip
        registers[unit][register] = value
        with pytest.raises(MachineRefused, match="differs"):
            board.run(registers, CONVOLUTION)
