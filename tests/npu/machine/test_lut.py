"""Activation tables: between points, beyond their ends, without any."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import DPU
from rknnlite_npu.machine.refused import MachineRefused

from .programs import ELEMENTWISE, Board, copying, cube

TABLE = {
    0x4060: 2 << 16 | 1 << 6, 0x4064: 0, 0x4068: 1 << 16, 0x4070: 0x302, 0x4108: 0x68, 0x410C: 0x50500, 0x4110: 0xFFFFC000,
    0x411C: 0x4000,
}  # fmt: skip
LOW, HIGH = np.arange(-512, 1) * 7, np.arange(513) * 3


def upload(board: Board) -> None:
    writes = []
    for table, points in enumerate((LOW, HIGH)):
        writes += [
            (0x4100, 1 << 17 | table << 16),
            *((0x4104, int(point) & 0xFFFF) for point in points),
            (0x4104, 99),
        ]
    board.upload(writes)


def looked_up(x: list[int], changes: dict[int, int]) -> list[int]:
    board = Board()
    upload(board)
    values = np.array(x, np.int16).reshape(1, -1, 8)
    target = board.room(values.nbytes)
    registers = copying(values.shape, "int16", board.place(cube(values)), target)
    registers[DPU] |= TABLE | changes
    board.run(registers, ELEMENTWISE)
    return board.read(target, "int16", values.size).tolist()


def test_points_and_between_them() -> None:
    x = [-16384, -16352, -32, -1, 0, 1, 32, 48]
    assert looked_up(x, {}) == [-3584, -3577, -7, 0, 0, 0, 3, 4]


def test_beyond_the_ends_values_stay_or_go_on() -> None:
    x = [-16385, -20000, 16384, 16385, 20000, 32767, 0, 0]
    assert looked_up(x, {})[:6] == [-3584, -3584, 1536, 1536, 1536, 1536]
    sloped = looked_up(x, {0x4120: 1 << 0, 0x4124: 2, 0x4128: 3 << 16, 0x412C: 1 << 5})
    assert sloped[:6] == [-3584, -4488, 1536, 1538, 6960, 26110]


def test_the_operation_comes_behind_the_tables() -> None:
    assert looked_up([-16384, -32, 32, 64, 0, 0, 0, 0], {0x4070: 0x300})[:4] == [0, 0, 3, 6]


def test_the_index_is_multiplied_then_moved_then_shifted() -> None:
    got = looked_up([-5, 10, 100, 0, 0, 0, 0, 0], {0x4064: 640, 0x4068: 64 << 16 | 1 << 8})
    assert got[:4] == [round((x * 64 + 640) / 2 / 32 * 3) for x in (-5, 10, 100, 0)]


def test_tables_that_nobody_uploaded_are_refused() -> None:
    board = Board()
    registers = copying((1, 1, 8), "int16", board.room(16), board.room(16))
    registers[DPU] |= TABLE
    with pytest.raises(MachineRefused, match="no table was uploaded"):
        board.run(registers, ELEMENTWISE)


@pytest.mark.parametrize(("register", "value"), [(0x4108, 0x69), (0x410C, 0x1F0500), (0x4120, 1 << 16)])
def test_other_settings_are_refused(register: int, value: int) -> None:
    with pytest.raises(MachineRefused):
        looked_up([0] * 8, {register: value})
