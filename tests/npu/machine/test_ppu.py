"""Pools of integers, as measured on RK3588 and RK3576: two truncated reciprocals of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import PPU, PPU_RDMA
from rknnlite_npu.machine.refused import MachineRefused

from .programs import POOLING, Board, cube, pooling

AVERAGE, MAXIMUM = 0, 1


def pooled(
    values: np.ndarray,
    kernel: tuple[int, int],
    out: tuple[int, int],
    method: int,
    changes: dict[int, dict[int, int]],
) -> np.ndarray:
    board = Board()
    target = board.room(out[0] * out[1] * 16)
    registers = pooling(values.shape, out, kernel, (1, 1), method, "int8", board.place(cube(values)), target)
    if method == AVERAGE:
        registers[PPU] |= {0x6038: 0x10000 // kernel[1], 0x603C: 0x10000 // kernel[0]}
    for unit, fields in changes.items():
        registers[unit].update(fields)
    board.run(registers, POOLING)
    return board.read(target, "int8", out[0] * out[1] * 16).reshape(*out, 16)


def rounded(total: int, count: int, exact: bool) -> int:
    """The rule in words: to the nearest; a half to even where the reciprocals are exact, else one step towards zero."""
    quotient, rest = divmod(abs(total), count)
    if 2 * rest == count:
        quotient += (quotient % 2) if exact else 0
    else:
        quotient += 2 * rest > count
    return quotient if total >= 0 else -quotient


@pytest.mark.parametrize("kernel", [(2, 2), (1, 2), (3, 3), (2, 3), (4, 3), (8, 7)])
def test_averages(kernel: tuple[int, int]) -> None:
    values = np.random.default_rng(kernel[0]).integers(-128, 128, (9, 9, 16)).astype(np.int8)
    out = 10 - kernel[0], 10 - kernel[1]
    sums = np.lib.stride_tricks.sliding_window_view(values.astype(int), kernel, (0, 1)).sum((3, 4))
    exact = all(0x10000 % size == 0 for size in kernel)
    expected = np.vectorize(lambda total: rounded(int(total), kernel[0] * kernel[1], exact))(sums)
    assert np.array_equal(pooled(values, kernel, out, AVERAGE, {}), expected)


def test_pads_of_averages_count_with_a_value() -> None:
    values = np.full((2, 2, 16), 10, np.int8)
    got = pooled(values, (3, 3), (2, 2), AVERAGE, {PPU: {0x6040: 0x1111, 0x6044: -8, 0x6048: 7}})
    assert set(got.reshape(-1).tolist()) == {round((4 * 10 - 5 * 8) / 9)}


def test_pads_of_maxima_never_win() -> None:
    values = np.full((2, 2, 16), -128, np.int8)
    got = pooled(values, (3, 3), (2, 2), MAXIMUM, {PPU: {0x6040: 0x1111}})
    assert set(got.reshape(-1).tolist()) == {-128}


@pytest.mark.parametrize(
    ("unit", "register", "value"),
    [
        (PPU, 0x6024, 1 << 30 | 0x11), (PPU, 0x6024, 0x13), (PPU, 0x6084, 4), (PPU, 0x6038, 0x1234), (PPU, 0x6048, 3),
        (PPU_RDMA, 0x7030, 2), (PPU_RDMA, 0x700C, 5),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(unit: int, register: int, value: int) -> None:
    method = AVERAGE if register in (0x6038, 0x6048) else MAXIMUM
    with pytest.raises(MachineRefused):
        pooled(np.zeros((4, 4, 16), np.int8), (2, 2), (3, 3), method, {unit: {register: value}})
