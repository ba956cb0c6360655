"""What the fetching unit makes of memory: surfaces, pixels, conversion, steps between features, weights."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import CNA, CORE, DPU
from rknnlite_npu.machine.refused import MachineRefused

from .programs import CODES, CONVOLUTION, Board, blocks, convolution, cube, plane

RNG = np.random.default_rng(3)


def summed(
    features: np.ndarray,
    weights: np.ndarray,
    out: tuple[int, int],
    changes: dict[int, dict[int, int]],
    stored: np.ndarray | None = None,
) -> np.ndarray:
    """int32 sums of a convolution whose registers ``changes`` alter; ``stored``: the features in another form."""
    board = Board()
    target = board.room(out[0] * out[1] * len(weights) * 4)
    registers = convolution(
        features, weights, out, CODES["int32"],
        source=board.place(cube(features) if stored is None else stored), kernels=board.place(blocks(weights)), target=target,
    )  # fmt: skip
    for unit, values in changes.items():
        registers[unit].update(values)
    board.run(registers, CONVOLUTION)
    sums = board.read(target, "int32", out[0] * out[1] * len(weights))
    return plane(sums.reshape(-1, *out, 4), len(weights))


def reference(
    features: np.ndarray, weights: np.ndarray, stride: tuple[int, int] = (1, 1), dilation: int = 1
) -> np.ndarray:
    """(H, W, OC) of a convolution without pads."""
    taps = weights.shape[1:3]
    spread = [dilation * (k - 1) + 1 for k in taps]
    views = np.lib.stride_tricks.sliding_window_view(features.astype(np.int64), spread, (0, 1))
    views = views[:: stride[0], :: stride[1], :, ::dilation, ::dilation]
    return np.einsum("yxcij,oijc->yxo", views, weights.astype(np.int64))


def some(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def test_strides_and_dilations() -> None:
    features, weights = some(9, 11, 32), some(32, 2, 3, 32)
    got = summed(features, weights, (4, 4), {CNA: {0x1014: 1 << 21 | 1 << 16 | 2 << 3 | 2}})
    assert np.array_equal(got, reference(features, weights, (2, 2), 2)[:4, :4])


def test_a_stride_of_0_repeats_a_row() -> None:
    features, weights = some(1, 6, 32), some(32, 1, 1, 32)
    got = summed(features, weights, (3, 6), {CNA: {0x1014: 1}})
    assert np.array_equal(got, np.repeat(reference(features, weights), 3, axis=0))


def test_pads_have_a_value() -> None:
    features, weights = some(5, 6, 32), some(32, 3, 3, 32)
    around = np.pad(features, ((1, 1), (1, 1), (0, 0)), constant_values=-7)
    got = summed(features, weights, (5, 6), {CNA: {0x1068: 0x11, 0x1184: -7}})
    assert np.array_equal(got, reference(around, weights))


def test_steps_between_features_of_a_transposed_convolution() -> None:
    features, weights = some(3, 4, 32), some(32, 2, 2, 32)
    grown = np.full((5, 7, 32), -7, np.int8)
    grown[::2, ::2] = features
    got = summed(features, weights, (4, 6), {CNA: {0x1014: 1 << 11 | 1 << 8 | 9, 0x1184: -7}})
    assert np.array_equal(got, reference(grown, weights))


def test_lines_need_not_be_in_groups() -> None:
    features, weights = some(5, 6, 32), some(32, 1, 1, 32)
    rows = np.zeros((2, 5, 8, 16), np.int8)
    rows[:, :, :6] = cube(features)
    got = summed(
        features, weights, (5, 6), {CNA: {0x100C: 1 << 29, 0x107C: 8, 0x1080: 40 - 6}}, rows
    )  # two positions lie behind each row
    assert np.array_equal(got, reference(features, weights))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pixels_are_converted_while_they_are_read(channels: int) -> None:
    pixels = RNG.integers(0, 256, (5, 6, channels)).astype(np.uint8)
    weights = some(32, 1, 1, 32)
    rows = np.zeros((5, 16, channels), np.uint8)
    rows[:, :6] = pixels
    scale, shift, offset = 0x7000, 15, -112
    settings = {
        0x100C: 3 << 29 | 7 + channels << 12, 0x1024: channels - 1 << 16 | 32, 0x104C: sum(shift << 4 + 6 * k for k in range(4)),
        0x107C: 16, 0x1180: 0xFFF, **{0x1050 + 4 * k: scale << 16 | offset & 0xFFFF for k in range(4)},
    }  # fmt: skip
    got = summed(np.zeros((5, 6, 32), np.int8), weights, (5, 6), {CNA: settings}, rows)
    converted = np.clip(np.rint(pixels * (scale / 2**shift)) + offset, -128, 127)
    assert np.array_equal(got, converted @ weights[:, 0, 0, :channels].T.astype(np.int64))


@pytest.mark.parametrize("stride", [6, 7, 16])
def test_rows_of_pixels_lie_as_far_apart_as_their_stride_says(stride: int) -> None:
    """Files have the width there for the largest numbers of a softmax, which are packed."""
    pixels = some(5, 6, 1)
    weights = some(32, 1, 1, 32)
    rows = np.zeros((5, stride), np.int8)
    rows[:, :6] = pixels[..., 0]
    settings = {0x100C: 3 << 29 | 8 << 12, 0x1024: 32, 0x107C: stride}
    got = summed(np.zeros((5, 6, 32), np.int8), weights, (5, 6), {CNA: settings}, rows)
    assert np.array_equal(got, pixels.astype(np.int64) @ weights[:, 0, 0, :1].T.astype(np.int64))


def test_a_depthwise_convolution_has_one_kernel_for_a_channel() -> None:
    features, weights = some(5, 6, 64), some(3, 3, 64)
    board = Board()
    target = board.room(3 * 4 * 64 * 4)
    registers = convolution(
        features, np.zeros((1, 3, 3, 64), np.int8), (3, 4), CODES["int32"],
        source=board.place(cube(features)), kernels=board.place(weights), target=target,
    )  # fmt: skip
    registers[CNA][0x100C] = 3
    registers[CORE][0x3010] = 3
    registers[DPU] |= {0x400C: 0x1FC, 0x403C: 63 << 16 | 63, 0x4058: 63}
    board.run(registers, CONVOLUTION)
    got = plane(board.read(target, "int32", 3 * 4 * 64).reshape(16, 3, 4, 4), 64)
    views = np.lib.stride_tricks.sliding_window_view(features.astype(np.int64), (3, 3), (0, 1))
    assert np.array_equal(got, np.einsum("yxcij,ijc->yxc", views, weights.astype(np.int64)))


@pytest.mark.parametrize("mode", [1, 2, 4, 15])
def test_other_modes_are_refused(mode: int) -> None:
    with pytest.raises(MachineRefused, match="CONV_MODE"):
        summed(some(5, 6, 32), some(32, 1, 1, 32), (5, 6), {CNA: {0x100C: mode}})


def test_more_weights_than_bytes_are_refused() -> None:
    with pytest.raises(MachineRefused, match="weights do not lie in them"):
        summed(some(5, 6, 32), some(32, 1, 1, 32), (5, 6), {CNA: {0x1038: 1 << 24 | 1 << 16 | 64}})
