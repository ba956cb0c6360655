"""Programs that people proved on RK3588 boards, run on the machine: the same shapes, operands and results.

* Products of matrices, int8 and fp16, the example of 4 x 36 x 16 with its numbers: J. Matharu, on the vendor's driver;
  github.com/mtx512/rk3588-npu, tests/matmul_int8.c, matmul_fp16.c, matmul_4_36_16.c.
* A convolution of 32 x 14 x 14 with 128 kernels of 3 x 3, fp16: allbilly, Orange Pi 5; github.com/allbilly/rk3588,
  examples/conv_simple.py.
* int8, int16, int32: add, subtract, multiply, maximum, minimum, absolute, negative: the same, examples/elementwise_int.py.
* Pools of fp16, int8, int16 (averages, maxima, minima, a kernel of 16, three channels): the same, examples/pooling.py.
* SiLU by tables, fp16: the same, examples/silu.py.
* Ties of the output converter; multipliers, shifts by sign, the order of the sum: G. Ordinary, Turing RK1;
  github.com/gregordinary/rockchip-npu-notes, encodings/out-cvt-converter.md.

Registers that their programs leave as they were are written here; nothing else is theirs.
"""

from __future__ import annotations

import numpy as np
import pytest
from rknnlite_npu.command_words import CNA, CORE, DPU, DPU_RDMA, PPU

from .machine.programs import (
    CODES,
    CONVOLUTION,
    ELEMENTWISE,
    POOLING,
    WITH_OPERANDS,
    Board,
    Registers,
    blocks,
    convolution,
    copying,
    cube,
    plane,
    pooling,
)

LEFT = """
2 9 2 10 6 4 3 6 3 6 9 7 8 8 3 3 10 5 2 10 7 10 9 3 6 6 5 10 2 3 6 1 9 4 10 4
10 7 8 10 10 8 7 10 4 6 8 7 7 6 9 3 6 5 5 2 7 2 7 4 4 6 6 4 3 9 3 6 4 7 2 9
7 3 2 5 7 3 10 2 6 1 4 7 5 10 3 10 4 5 5 1 6 10 7 4 5 3 9 9 8 6 9 2 3 6 8 5
5 5 5 5 3 10 4 1 8 8 9 8 4 1 4 9 3 6 3 1 4 8 3 10 8 6 4 5 4 3 2 2 4 3 6 4
"""
RIGHT = """
9 7 1 3 5 9 7 6 1 10 1 1 7 2 4 9 10 4 5 5 7 1 7 7 2 9 5 10 7 4 8 9 9 3 10 2
4 6 10 9 5 1 8 7 4 7 2 6 5 3 1 10 8 4 8 3 7 1 2 7 6 8 6 5 2 3 1 1 2 5 7 1
8 2 8 8 8 8 4 4 6 10 10 9 2 9 3 7 7 1 4 9 1 2 3 6 1 10 5 8 9 4 6 2 3 1 2 7
5 1 7 2 9 10 9 5 2 5 4 10 9 9 1 9 8 8 9 4 9 4 8 2 1 8 4 5 10 7 6 2 1 10 10 7
"""
PRODUCT = [
    [1224, 1023, 1158, 1259],
    [1216, 1087, 1239, 1361],
    [1125, 966, 1079, 1333],
    [999, 902, 1020, 1056],
]
"""Of the first four of sixteen columns, as published."""


def numbers(text: str) -> np.ndarray:
    return np.array([line.split() for line in text.split("\n") if line], np.float16)


def product(left: np.ndarray, right: np.ndarray, dtype: str) -> np.ndarray:
    """(M, K) times (N, K), transposed, by a convolution of 1 x 1 kernels over M rows."""
    board = Board()
    features, weights = left[:, None, :], right[:, None, None, :]
    out = np.zeros((len(left), 1, len(right)), dtype)
    target = board.room(out.nbytes)
    registers = convolution(
        features, weights, (len(left), 1), CODES[dtype],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=target,
    )  # fmt: skip
    board.run(registers, CONVOLUTION)
    stored = board.read(target, dtype, out.size).reshape(cube(out).shape)
    return plane(stored, len(right))[:, 0]


@pytest.mark.parametrize(("m", "k", "n"), [(1, 32, 32), (4, 64, 32), (8, 4096, 64), (384, 384, 32)])
def test_int8_products(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m)
    left, right = (rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    assert np.array_equal(product(left, right, "int32"), left.astype(np.int64) @ right.T.astype(np.int64))


def test_an_fp16_product_with_its_published_numbers() -> None:
    left, right = numbers(LEFT), numbers(RIGHT)
    padded = [np.zeros((rows, 64), np.float16) for rows in (4, 16)]
    padded[0][:, :36], padded[1][:4, :36] = left, right
    assert product(*padded, "float32")[:, :4].tolist() == PRODUCT


@pytest.mark.parametrize(("m", "k", "n"), [(1, 32, 16), (4, 256, 32), (64, 1024, 16)])
def test_fp16_products(m: int, k: int, n: int) -> None:
    """Sums of 32 exact products, rounded once, added in order."""
    rng = np.random.default_rng(k)
    left, right = (rng.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    expected = np.zeros((m, n), np.float32)
    for first in range(0, k, 32):
        part = slice(first, first + 32)
        expected += (left[:, part].astype(np.float64) @ right[:, part].T.astype(np.float64)).astype(
            np.float32
        )
    assert np.array_equal(product(left, right, "float32"), expected)


def test_an_fp16_convolution() -> None:
    rng = np.random.default_rng(14)
    features = rng.uniform(-2, 2, (14, 14, 32)).astype(np.float16)
    weights = rng.uniform(-2, 2, (128, 3, 3, 32)).astype(np.float16)
    board = Board()
    target = board.room(128 * 12 * 12 * 2)
    registers = convolution(
        features, weights, (12, 12), CODES["float16"],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=target,
    )  # fmt: skip
    assert registers[CNA][0x107C] == 0x38 and registers[CNA][0x1080] == 0x8C
    assert (
        registers[CNA][0x1030] == 0x12000
        and registers[CORE][0x3018] == 0x7F
        and registers[DPU][0x4024] == 0x900
    )
    registers[DPU][0x4084] = 0x10001
    board.run(registers, CONVOLUTION)
    got = plane(board.read(target, "float16", 128 * 144).reshape(16, 12, 12, 8), 128)
    windows = np.lib.stride_tricks.sliding_window_view(features.astype(np.float64), (3, 3), (0, 1))
    expected = np.einsum("yxcij,oijc->yxo", windows, weights.astype(np.float64))
    assert np.abs(got - expected).max() <= 2.0**-11 * np.abs(expected).max()


OPERANDS = {
    "int8": ([-100, -24, -7, -1, 0, 1, 24, 100], [20, -6, 2, -1, 1, 2, -3, 5]),
    "int16": ([-30000, -1200, -7, -1, 0, 1, 1200, 30000], [1000, -30, 2, -1, 1, 2, -30, 1000]),
    "int32": ([-1000, -2000, -7, -1, 0, 1, 2000, 1000], [50000, -50000, 2, -1, 1, 2, -50000, 50000]),
}
ALGORITHMS = {"max": 0, "min": 1, "add": 2, "minus": 4, "abs": 5, "neg": 6}


def elementwise(dtype: str, operation: str) -> np.ndarray:
    a, b = (
        np.array(values, dtype).reshape(1, -1, 16 // np.dtype(dtype).itemsize) for values in padded(dtype)
    )
    board, size = Board(), {"int8": 1, "int16": 2, "int32": 3}[dtype]
    target = board.room(a.nbytes)
    registers = copying(a.shape, dtype, board.place(cube(a)), target)
    config = 1 << 28 | size << 22 | 1 << 9 | 1 << 7 | 1 << 6 | (dtype == "int32") << 8
    if operation == "mul":
        config |= 1 << 2
    else:
        config |= ALGORITHMS[operation] << 16 | (operation in ("max", "min")) << 21
    registers[DPU][0x4070] = config
    registers[DPU_RDMA] |= {0x5034: 1 << 30 | size << 2, 0x5038: board.place(cube(b))}
    board.run(registers, ELEMENTWISE)
    return board.read(target, dtype, a.size)[:8]


def padded(dtype: str) -> list[list[int]]:
    """Operands that fill their last atom."""
    lanes = 16 // np.dtype(dtype).itemsize
    return [values + [0] * (-len(values) % lanes) for values in OPERANDS[dtype]]


@pytest.mark.parametrize("dtype", OPERANDS)
@pytest.mark.parametrize("operation", [*ALGORITHMS, "mul"])
def test_integers(dtype: str, operation: str) -> None:
    a, b = (np.array(values, np.int64) for values in OPERANDS[dtype])
    if operation == "mul" and dtype == "int32":
        b = b.astype(np.int16).astype(np.int64)  # the multiplier takes 16 bits
    expected = {
        "max": np.maximum(a, b), "min": np.minimum(a, b), "add": a + b, "minus": a - b, "abs": np.abs(a), "neg": -a, "mul": a * b,
    }[operation]  # fmt: skip
    limits = np.iinfo(dtype)
    assert elementwise(dtype, operation).tolist() == np.clip(expected, limits.min, limits.max).tolist()


AVERAGE, MAXIMUM, MINIMUM = 0, 1, 2


def pooled(values: np.ndarray, kernel: tuple[int, int], stride: tuple[int, int], method: int) -> np.ndarray:
    height, width, channels = values.shape
    out = (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1
    board, source = Board(), cube(values)
    target = board.room(out[0] * out[1] * source.shape[0] * 16)
    registers = pooling(
        values.shape, out, kernel, stride, method, values.dtype.name, board.place(source), target
    )
    if method == AVERAGE:
        registers[PPU] |= {0x6038: fp17(1 / kernel[1]), 0x603C: fp17(1 / kernel[0])}
    board.run(registers, POOLING)
    lanes = 16 // values.itemsize
    stored = board.read(target, values.dtype.name, out[0] * out[1] * source.shape[0] * lanes)
    return plane(stored.reshape(source.shape[0], *out, lanes), channels)


def fp17(value: float) -> int:
    """A number with 6 bits of exponent and 10 of fraction."""
    fraction, exponent = np.frexp(value)
    return int(exponent + 30) << 10 | round((2 * fraction - 1) * 1024)


def windows_of(values: np.ndarray, kernel: tuple[int, int], stride: tuple[int, int]) -> np.ndarray:
    views = np.lib.stride_tricks.sliding_window_view(values, kernel, (0, 1))
    return views[:: stride[0], :: stride[1]]


@pytest.mark.parametrize(("method", "name"), [(AVERAGE, "mean"), (MAXIMUM, "max"), (MINIMUM, "min")])
def test_fp16_pools(method: int, name: str) -> None:
    values = ((np.arange(4 * 4 * 8, dtype=np.float16).reshape(4, 4, 8) - 32) / 8).astype(np.float16)
    expected = getattr(windows_of(values.astype(np.float32), (2, 2), (1, 1)), name)(axis=(3, 4))
    assert np.abs(pooled(values, (2, 2), (1, 1), method) - expected).max() <= (
        0.0625 if method == AVERAGE else 0
    )


def test_an_fp16_average_of_a_whole_plane() -> None:
    values = (np.arange(3 * 5 * 8).reshape(3, 5, 8) / 8).astype(np.float16)
    got = pooled(values, (3, 5), (3, 5), AVERAGE)
    assert np.abs(got - values.mean(axis=(0, 1), dtype=np.float32)).max() <= 0.0625


@pytest.mark.parametrize(("dtype", "channels"), [("int8", 16), ("int16", 8)])
def test_integer_maxima(dtype: str, channels: int) -> None:
    values = (np.arange(4 * channels).reshape(2, 2, channels) + 1).astype(dtype)
    assert np.array_equal(pooled(values, (2, 2), (2, 2), MAXIMUM)[0, 0], values.max(axis=(0, 1)))


def test_a_kernel_of_16() -> None:
    values = np.arange(16 * 16 * 8).reshape(16, 16, 8).astype(np.float16)
    assert np.array_equal(pooled(values, (16, 16), (16, 16), MAXIMUM)[0, 0], values.max(axis=(0, 1)))


def test_three_channels() -> None:
    values = np.array([[[1, 50, 3], [20, 2, 60]], [[4, 5, 6], [7, 8, 9]]], np.float16)
    assert pooled(values, (2, 2), (2, 2), MAXIMUM).tolist() == [[[20, 50, 60]]]


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def tables(scale: float, steps: float) -> list[tuple[int, int]]:
    """Writes of two tables: below zero, above."""
    x = np.arange(513) * 32 / steps
    writes = []
    for table, values in enumerate((silu(x - x[-1]), silu(x))):
        writes.append((0x4100, 1 << 17 | table << 16))
        writes += [(0x4104, int(value) & 0xFFFF) for value in np.rint(values * scale)]
    return writes


def test_silu_by_tables() -> None:
    scale, steps = 5664.8, 2824.0
    x = np.zeros((1, 16, 8), np.float16)
    x.reshape(-1)[:64] = np.linspace(-3, 3, 64)
    board = Board()
    board.upload(tables(scale, steps))
    target = board.room(x.nbytes)
    registers = copying(x.shape, "float16", board.place(cube(x)), target)
    registers[DPU] |= {
        0x4060: 2 << 16 | 1 << 6, 0x4064: 0x80000000, 0x4068: 0x6984 << 16, 0x4070: 0x302, 0x4084: 0x10001, 0x4108: 0x68,
        0x410C: 0x50500, 0x4110: 0xFFFFC000, 0x411C: 0x4000, 0x4128: 16434 << 16, 0x412C: 13 << 5,
    }  # fmt: skip
    board.run(registers, ELEMENTWISE)
    got = board.read(target, "float16", 64).astype(np.float32) / scale
    assert np.abs(got - silu(x.reshape(-1)[:64].astype(np.float32))).max() < 0.01


def scaled(accumulators: np.ndarray, settings: Registers) -> np.ndarray:
    """(1, W, 32) of a 1 x 1 convolution with an identity, through stages that ``settings`` change."""
    board = Board()
    features = accumulators.astype(np.int8)
    weights = np.eye(32, dtype=np.int8)[:, None, None, :]
    target = board.room(features.size)
    registers = convolution(
        features, weights, features.shape[:2], CODES["int8"],
        source=board.place(cube(features)), kernels=board.place(blocks(weights)), target=target,
    )  # fmt: skip
    for unit, values in settings.items():
        registers.setdefault(unit, {}).update(values)
    board.run(registers, WITH_OPERANDS if DPU_RDMA in settings else CONVOLUTION)
    stored = board.read(target, "int8", features.size).reshape(2, *features.shape[:2], 16)
    return plane(stored, 32)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("shift", [1, 3])
def test_ties_of_the_output_converter(shift: int, away: bool) -> None:
    """Bit 30 unset: half to even; set: half away from zero."""
    x = np.arange(-96, 96).reshape(1, 6, 32)
    got = scaled(x, {DPU: {0x4088: shift | away << 30}})
    exact = x / 2**shift
    expected = np.copysign(np.floor(np.abs(exact) + 0.5), exact) if away else np.rint(exact)
    assert np.array_equal(got, expected)


def test_the_offset_comes_after_the_shift() -> None:
    x = np.arange(-96, 96).reshape(1, 6, 32)
    assert np.array_equal(scaled(x, {DPU: {0x4088: 1, 0x4080: -1}}), np.rint(x / 2) - 1)


@pytest.mark.parametrize(("up", "down"), [(3, 0), (3, 5), (2, 4)])
def test_a_multiplier_has_a_shift_for_each_sign(up: int, down: int) -> None:
    x = np.arange(-96, 96).reshape(1, 6, 32)
    got = scaled(x, {DPU: {0x4010: down << 4, 0x4040: 0x42, 0x4048: 3 << 16 | up << 8}})
    expected = np.where(x < 0, np.rint(3 * x / 2 ** (down or up)), np.rint(3 * x / 2**up))
    assert np.array_equal(got, np.clip(expected, -128, 127))


def test_a_number_is_added_before_the_product() -> None:
    x = np.arange(-64, 128).reshape(1, 6, 32)
    got = scaled(x, {DPU: {0x4040: 2 << 16 | 1 << 6, 0x4044: 5, 0x4048: 7 << 16 | 4 << 8}})
    assert np.array_equal(got, np.rint((x + 5) * 7 / 16))
