"""How results lie in memory: surfaces, transposed, exchanged, spread, packed."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import DPU, DPU_RDMA
from rknnlite_npu.machine.refused import MachineRefused

from .programs import ELEMENTWISE, Board, copying, cube


def written(values: np.ndarray, changes: dict[int, dict[int, int]], size: int) -> np.ndarray:
    """Bytes that a copy of (H, W, C) leaves behind."""
    board = Board()
    target = board.room(size)
    registers = copying(values.shape, values.dtype.name, board.place(cube(values)), target)
    for unit, fields in changes.items():
        registers[unit].update(fields)
    board.run(registers, ELEMENTWISE)
    return board.read(target, "uint8", size)


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).astype(np.int16).reshape(shape)


def test_lanes_without_a_channel_hold_a_number_of_the_registers() -> None:
    values = numbered(1, 3, 5)
    stored = written(values, {DPU: {0x4014: 0xFBFF}}, 48).view("<u2").reshape(3, 8)
    assert np.array_equal(stored[:, :5], values[0]) and (stored[:, 5:] == 0xFBFF).all()


def test_rows_may_have_gaps() -> None:
    values = numbered(2, 3, 8)
    stored = written(values, {DPU: {0x4038: 1, 0x4024: 16 * 8}}, 16 * 8).view("<i2").reshape(2, 4, 8)
    assert np.array_equal(stored[:, :3], values) and not stored[:, 3].any()


def test_surfaces_may_be_groups() -> None:
    """As an attention over 40 positions lays out 24 lanes as weights: two blocks of outputs, in each two of inputs."""
    values = numbered(32, 4, 16)
    fields = {0x4024: 1 << 4, 0x4038: 64, 0x4058: 1 << 16 | 15, 0x405C: 1 << 16 | 63, 0x40C0: 64 << 4}
    stored = written(values, {DPU: fields}, values.nbytes).view("<i2").reshape(2, 2, 64, 8)
    assert np.array_equal(stored, values.reshape(2, 64, 2, 8).transpose(0, 2, 1, 3))


def test_other_groups_are_refused() -> None:
    fields = {0x4058: 2 << 16 | 15}
    with pytest.raises(MachineRefused, match="2 surfaces do not make such groups"):
        written(numbered(2, 3, 16), {DPU: fields}, 192)


def test_words_are_transposed_in_blocks() -> None:
    """16 positions of 24 channels become 24 rows of 16 positions."""
    values = numbered(4, 4, 24)
    fields = {
        0x4050: 1 << 27 | 0x7FE,
        0x4058: 1 << 27 | 2 << 16 | 23,
        0x405C: 1,
        0x4024: 2 << 4,
        0x40C0: 16 << 4,
    }
    stored = written(values, {DPU: fields}, values.nbytes).view("<i2").reshape(24, 16)
    assert np.array_equal(stored, values.reshape(16, 24).T)


def test_bytes_are_transposed_in_blocks() -> None:
    """32 rows of 16 bytes become 16 rows of 32."""
    values = np.arange(512, dtype=np.int64).astype(np.uint8).view(np.int16).reshape(4, 8, 8)
    fields = {
        0x4050: 1 << 27 | 0x7FE,
        0x4058: 1 << 16 | 7,
        0x405C: 1 << 16,
        0x4038: 15,
        0x4024: 2 << 4,
        0x40C0: 1 << 4,
    }
    stored = written(values, {DPU: fields}, 512).reshape(16, 32)
    assert np.array_equal(stored, values.view(np.uint8).reshape(32, 16).T)


def test_atoms_change_places() -> None:
    """Activations become weights: surfaces of positions become positions of surfaces."""
    values = numbered(2, 8, 16)
    fields = {
        0x400C: 1 << 30 | 0x1E5, 0x4050: 0x7FE, 0x4058: 1 << 27 | 15, 0x405C: 1 << 16 | 1, 0x4038: 14, 0x4024: 2 << 4,
        0x40C0: 16 << 4,
    }  # fmt: skip
    stored = written(values, {DPU: fields}, values.nbytes).view("<i2").reshape(2, 8, 2, 8)
    assert np.array_equal(stored, values.reshape(2, 8, 2, 8).transpose(2, 1, 0, 3))


def test_positions_are_spread() -> None:
    """As a resize does it that computes every second position."""
    values = numbered(3, 4, 8)
    fields = {0x4058: 3 * 8 - 1, 0x405C: 3 << 16, 0x4038: 1, 0x4024: 48 << 4, 0x40C0: 16 << 4}
    stored = written(values, {DPU: fields}, 48 * 16).view("<i2").reshape(6, 8, 8)
    assert np.array_equal(stored[::2, ::2], values) and not stored[1::2].any() and not stored[:, 1::2].any()


def test_the_largest_of_all_channels_is_packed() -> None:
    values = np.random.default_rng(0).standard_normal((1, 9, 11)).astype(np.float16)
    fields = {0x4014: 0xFBFF, 0x4034: 7 << 22, 0x400C: 1 << 25 | 2 << 9 | 0x1E5}
    stored = written(values, {DPU: fields, DPU_RDMA: {0x5014: 10}}, 18).view("<f2")
    assert np.array_equal(stored, values.max(axis=2)[0])


@pytest.mark.parametrize(("kind", "kept"), [(2, 1), (3, 2)])
def test_a_cube_of_one_channel_becomes_plain_rows(kind: int, kept: int) -> None:
    values = numbered(2, 8, 8)
    fields = {0x400C: kind << 26 | 1 << 25 | kept << 9 | 0x1E5}
    stored = written(values, {DPU: fields}, 16 * kept)
    assert np.array_equal(stored.reshape(16, kept), values.view(np.uint8).reshape(16, 16)[:, :kept])


def test_unpooling_repeats_positions() -> None:
    values = np.arange(2 * 3 * 16).astype(np.int8).reshape(2, 3, 16)
    dpu = {0x4030: 5, 0x405C: 1 << 16 | 5, 0x4038: 6, 0x4024: 6 << 4}
    stored = written(values, {DPU: dpu, DPU_RDMA: {0x5014: 7, 0x5044: 0xF801, 0x5048: 0x1249}}, 4 * 6 * 16)
    assert np.array_equal(stored.view(np.int8).reshape(4, 6, 16), values.repeat(2, axis=0).repeat(2, axis=1))


def test_blocks_that_do_not_come_out_are_refused() -> None:
    fields = {
        0x4050: 1 << 27 | 0x7FE,
        0x4058: 1 << 27 | 5 << 16 | 23,
        0x405C: 1,
        0x4024: 2 << 4,
        0x40C0: 16 << 4,
    }
    with pytest.raises(MachineRefused, match="do not make such blocks"):
        written(numbered(4, 4, 24), {DPU: fields}, 4096)
