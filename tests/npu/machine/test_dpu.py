"""Numbers per channel, zero points of weights, a second operand, floats."""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import DPU, DPU_RDMA
from rknnlite_npu.machine.refused import MachineRefused

from .programs import CODES, ELEMENTWISE, WITH_OPERANDS, Board, blocks, convolution, copying, cube, plane

RNG = np.random.default_rng(5)


def records(bias: np.ndarray, zero: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
    """Numbers of 8 channels at a time: int32 to add, int16 for zero points, int16 to multiply with."""
    parts = [
        np.concatenate([bias[k : k + 8].astype("<i4").view(np.uint8), zero[k : k + 8].astype("<i2").view(np.uint8),
                        multiplier[k : k + 8].astype("<i2").view(np.uint8)])
        for k in range(0, len(bias), 8)
    ]  # fmt: skip
    return np.concatenate(parts)


def test_a_layer_as_the_vendor_writes_it() -> None:
    """(sum of (weight - zero point) * feature + bias) * multiplier >> 14, then scale, shift and zero point of the output."""
    features, weights = (
        RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((5, 6, 32), (32, 3, 3, 32))
    )
    bias, zero, multiplier = (
        RNG.integers(-9000, 9000, 32),
        RNG.integers(-50, 50, 32),
        RNG.integers(4000, 16385, 32),
    )
    board = Board()
    target = board.room(3 * 4 * 32)
    registers = convolution(
        features, weights, (3, 4), CODES["int8"],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=target,
    )  # fmt: skip
    registers[DPU] |= {
        0x4040: 0x20140,
        0x4048: 14 << 8 | 1,
        0x4050: 0x125,
        0x4084: 0x4D5A,
        0x4088: 26,
        0x4080: -9,
    }
    registers[DPU_RDMA] = {
        0x500C: 3, 0x5010: 2, 0x5014: 31, 0x501C: 7 << 1, 0x5020: board.place(records(bias, -zero, multiplier)), 0x5034: 1,
        0x5044: 0x7810,
    }  # fmt: skip
    board.run(registers, WITH_OPERANDS)
    got = plane(board.read(target, "int8", 3 * 4 * 32).reshape(2, 3, 4, 16), 32)
    views = np.lib.stride_tricks.sliding_window_view(features.astype(np.int64), (3, 3), (0, 1))
    sums = np.einsum("yxcij,oijc->yxo", views, weights.astype(np.int64) - zero[:, None, None, None]) + bias
    scaled = np.rint(sums * multiplier / 2**14)
    assert np.array_equal(got, np.clip(np.rint(scaled * 0x4D5A / 2**26) - 9, -128, 127))


def two(operation: int, floats: bool, per_channel: bool = False) -> tuple[np.ndarray, ...]:
    """(a, b, result) of EW on (3, 4, 16)."""
    kind = "float16" if floats else "int8"
    a, b = (RNG.integers(-100, 100, (3, 4, 16)).astype(kind) for _ in range(2))
    board, size = Board(), 2 if floats else 1
    if per_channel:
        b = b[:1, :1]
    target = board.room(a.nbytes)
    registers = copying(a.shape, kind, board.place(cube(a)), target)
    registers[DPU] |= {0x4070: (not per_channel) << 28 | size << 22 | operation | 0x2C0, 0x4078: 1}
    stored = b.reshape(-1) if per_channel else cube(b)
    registers[DPU_RDMA] |= {0x5034: (not per_channel) << 30 | size << 2, 0x5038: board.place(stored)}
    board.run(registers, ELEMENTWISE)
    lanes = 16 // a.itemsize
    return a, b, plane(board.read(target, kind, a.size).reshape(-1, 3, 4, lanes), 16)


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_second_operand(floats: bool, per_channel: bool) -> None:
    a, b, got = two(2 << 16, floats, per_channel)
    limits = (-128, 127) if not floats else (-np.inf, np.inf)
    assert np.array_equal(got, np.clip(a.astype(int) + b.astype(int), *limits))


def test_floats_divide() -> None:
    a, b, got = two(3 << 16, floats=True)
    with np.errstate(all="ignore"):
        expected = (a.astype(np.float32) / b.astype(np.float32)).astype(np.float16)
    assert np.array_equal(got, expected, equal_nan=True)


def test_integers_do_not_divide() -> None:
    with pytest.raises(MachineRefused, match="integers are divided"):
        two(3 << 16, floats=False)


def test_surfaces_of_a_second_operand_come_by_two_fetchers() -> None:
    """So the vendor adds to what a convolution gives: even surfaces from one address, odd ones from another."""
    features, weights = (
        RNG.integers(-50, 50, (3, 4, 32)).astype(np.int8),
        np.eye(32, dtype=np.int8)[:, None, None],
    )
    other = RNG.integers(-50, 50, (3, 4, 32)).astype(np.int8)
    board = Board()
    place, target = board.place(cube(other)), board.room(3 * 4 * 32)
    registers = convolution(
        features, weights, (3, 4), CODES["int8"],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=target,
    )  # fmt: skip
    registers[DPU] |= {0x4070: 0x904202C0, 0x4074: 3, 0x4078: 1}
    registers[DPU_RDMA] = {
        0x500C: 3, 0x5010: 2, 0x5014: 31, 0x5018: place, 0x5034: 1 << 30 | 4, 0x5038: place + 192, 0x5040: 192, 0x5044: 0x7D00,
        0x504C: 192, 0x506C: 192,
    }  # fmt: skip
    board.run(registers, WITH_OPERANDS)
    got = plane(board.read(target, "int8", 3 * 4 * 32).reshape(2, 3, 4, 16), 32)
    assert np.array_equal(got, features + other + 3)


def test_an_exponential_through_the_bits_of_fp16() -> None:
    """The vendor's softmax: a line whose integer is taken for fp16; its error is 3 %, by design."""
    x = -np.arange(64).reshape(1, 8, 8).astype(np.float16) / 8
    board = Board()
    target = board.room(x.nbytes)
    registers = copying(x.shape, "float16", board.place(cube(x)), target)
    registers[DPU] |= {
        0x4010: 0x28000002,
        0x4040: 0x42,
        0x4048: 0x65C50000,
        0x4060: 0x20010,
        0x4064: 0x466F127F,
        0x4084: 0x10001,
    }
    board.run(registers, ELEMENTWISE)
    got = board.read(target, "float16", 64).astype(np.float64)
    error = got / np.exp(x.reshape(-1).astype(np.float64)) - 1
    assert 0.02 < np.abs(error).max() < 0.04


@pytest.mark.parametrize(
    "registers", [{0x4040: 0x90, 0x404C: 0x7FFFFFFF}, {0x4070: 0x582, 0x407C: 0x7FFFFFFF}]
)
def test_a_limit_of_floats_that_is_no_number_limits_nothing(registers: dict[int, int]) -> None:
    """What the vendor's Clip has where there is no upper limit: the largest integer."""
    x = np.linspace(-4, 500, 64, dtype=np.float16).reshape(1, 8, 8)
    board = Board()
    target = board.room(x.nbytes)
    program = copying(x.shape, "float16", board.place(cube(x)), target)
    program[DPU] |= registers
    board.run(program, ELEMENTWISE)
    got = plane(board.read(target, "float16", 64).reshape(1, 1, 8, 8), 8)
    assert np.array_equal(got, np.maximum(x, 0))


def test_quantised_numbers_become_floats() -> None:
    x = RNG.integers(-128, 128, (1, 4, 16)).astype(np.int8)
    board = Board()
    target = board.room(2 * x.size)
    registers = copying(x.shape, "int8", board.place(cube(x)), target)
    registers[DPU] |= {
        0x4010: 0x40000000,
        0x4060: 0x20050,
        0x4064: 5,
        0x4080: 1,
        0x4084: 0x14F8B,
        0x4088: 0xD006,
        0x4024: 64,
    }
    board.run(registers, ELEMENTWISE)
    got = plane(board.read(target, "float16", x.size).reshape(2, 1, 4, 8), 16)
    assert np.array_equal(got, ((x.astype(np.float64) + 5) * (0x4F8B * 2.0**-19)).astype(np.float16))


@pytest.mark.parametrize("in_place", [False, True])
def test_the_largest_number_of_a_position(in_place: bool) -> None:
    """Maxima are packed. The vendor's softmax of more than 8192 channels reads them, in the same place, as if they were not."""
    values = RNG.normal(size=(1, 8, 24)).astype(np.float16)
    board = Board()
    source = board.place(cube(values))
    target = source if in_place else board.room(16)
    registers = copying(values.shape, "float16", source, target)
    registers[DPU] |= {0x400C: 1 << 25 | 1 << 9 | 0x1E5, 0x4034: 7 << 22}
    if in_place:
        with pytest.raises(MachineRefused, match="a maximum of maxima"):
            board.run(registers, ELEMENTWISE)
        return
    board.run(registers, ELEMENTWISE)
    assert np.array_equal(board.read(target, "float16", 8), values.max(axis=2)[0])
