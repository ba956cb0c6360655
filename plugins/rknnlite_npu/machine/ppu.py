"""The unit that pools, and the one that fetches for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import numbers as n
from .memory import Memory
from .registers import Field, UnitRegisters
from .surfaces import atoms, check_size, numbers

__all__ = ["pool"]

IN_WIDTH = Field("CUBE_IN_WIDTH", 0x600C, 12, 0)
IN_HEIGHT = Field("CUBE_IN_HEIGHT", 0x6010, 12, 0)
IN_CHANNEL = Field("CUBE_IN_CHANNEL", 0x6014, 12, 0)
OUT_WIDTH = Field("CUBE_OUT_WIDTH", 0x6018, 12, 0)
OUT_HEIGHT = Field("CUBE_OUT_HEIGHT", 0x601C, 12, 0)
OUT_CHANNEL = Field("CUBE_OUT_CHANNEL", 0x6020, 12, 0)
FLYING = Field("FLYING_MODE", 0x6024, 4, 4)
METHOD = Field("POOLING_METHOD", 0x6024, 1, 0)
NOTCH = Field("NOTCH_ADDR", 0x6024, 28, 16)
STRIDE = Field("KERNEL_STRIDE_HEIGHT", 0x6034, 23, 20), Field("KERNEL_STRIDE_WIDTH", 0x6034, 19, 16)
KERNEL = Field("KERNEL_HEIGHT", 0x6034, 11, 8), Field("KERNEL_WIDTH", 0x6034, 3, 0)
RECIPROCAL = Field("RECIP_KERNEL_HEIGHT", 0x603C, 16, 0), Field("RECIP_KERNEL_WIDTH", 0x6038, 16, 0)
PAD = (
    Field("PAD_TOP", 0x6040, 6, 4),
    Field("PAD_LEFT", 0x6040, 2, 0),
    Field("PAD_BOTTOM", 0x6040, 14, 12),
    Field("PAD_RIGHT", 0x6040, 10, 8),
)
PAD_VALUE = Field("PAD_VALUE_1", 0x6044)
PAD_SIGN = Field("PAD_VALUE_2", 0x6048, 2, 0, signed=True)
ADDRESS = Field("DST_BASE_ADDR", 0x6070)
OUT_SURFACE = Field("DST_SURF_STRIDE", 0x607C, 31, 4)
PRECISION = Field("PROC_PRECISION", 0x6084, 2, 0)
FROM_DPU = Field("DPU_FLYIN", 0x6084, 3, 3)
SOURCE_WIDTH = Field("CUBE_IN_WIDTH", 0x700C, 12, 0)
SOURCE_HEIGHT = Field("CUBE_IN_HEIGHT", 0x7010, 12, 0)
SOURCE_CHANNEL = Field("CUBE_IN_CHANNEL", 0x7014, 12, 0)
SOURCE = Field("SRC_BASE_ADDR", 0x701C)
SOURCE_LINE = Field("SRC_LINE_STRIDE", 0x7024, 31, 4)
SOURCE_SURFACE = Field("SRC_SURF_STRIDE", 0x7028, 31, 4)
SOURCE_SIZE = Field("IN_PRECISION", 0x7030, 1, 0)

WITHOUT_EFFECT: Mapping[int, int] = {
    0x6004: 0xFFFFFFFF,  # S_POINTER
    0x6084: 0xFFFFFFF0,  # INDEX_ADD: of an index surface that is off
    0x60DC: 0x00000007,  # length of bursts
}
SOURCE_WITHOUT_EFFECT: Mapping[int, int] = {0x7004: 0xFFFFFFFF}  # S_POINTER
_AVERAGE, _MAX, _MIN = 0, 1, 2
_SIZES = {n.INT8: 1, n.INT16: 2, n.FP16: 2}
_ONE = 1 << 16


def pool(r: UnitRegisters, source: UnitRegisters, memory: Memory) -> tuple[int, int]:
    """Pool a cube; returns (bytes read, bytes written)."""
    method = r.need(METHOD, _AVERAGE, _MAX, _MIN)
    precision = r.need(PRECISION, *_SIZES)
    r.need(FROM_DPU, 0)
    r.need(FLYING, 1, why="a cube that is not fetched")
    height, width, channels = (r[f] + 1 for f in (IN_HEIGHT, IN_WIDTH, IN_CHANNEL))
    values = _fetched(source, memory, precision, (height, width, channels))
    r.need(OUT_CHANNEL, channels - 1, why="differs from the channels of the input")
    out = r[OUT_HEIGHT] + 1, r[OUT_WIDTH] + 1
    check_size(r.unit, r.task, *out, values.shape[2])
    kernel, stride = [(r[f[0]] + 1, r[f[1]] + 1) for f in (KERNEL, STRIDE)]
    padded = _padded(r, values, precision, method, out, kernel, stride)
    windows = [
        padded[
            y : y + (out[0] - 1) * stride[0] + 1 : stride[0], x : x + (out[1] - 1) * stride[1] + 1 : stride[1]
        ]
        for y in range(kernel[0])
        for x in range(kernel[1])
    ]
    reciprocals = [r[field] for field in RECIPROCAL]
    if method == _AVERAGE:
        result = _averages(r, windows, kernel, reciprocals, precision)
    else:
        result = (np.maximum if method == _MAX else np.minimum).reduce(windows)
    stored = np.ascontiguousarray(n.encoded(result, precision)).view(np.uint8)
    atom = r.design.atom
    row = (out[1] + r[NOTCH]) * atom
    address, surface = r[ADDRESS], r[OUT_SURFACE] * atom
    r.finish(WITHOUT_EFFECT)
    shape = (stored.shape[2] // atom, *out)
    view = atoms(memory, address, shape, surface, row, atom)
    view[...] = stored.reshape(*out, -1, atom).transpose(2, 0, 1, 3)
    return values.size * n.SIZES[precision], view.size


def _fetched(source: UnitRegisters, memory: Memory, precision: int, shape: tuple[int, int, int]) -> n.Values:
    """The input with whole surfaces."""
    source.need(SOURCE_SIZE, _SIZES[precision], why="does not go with the precision of the PPU")
    for field, extent in zip((SOURCE_HEIGHT, SOURCE_WIDTH, SOURCE_CHANNEL), shape):
        source.need(field, extent - 1, why="differs from that of the PPU")
    height, width, channels = shape
    atom = source.design.atom
    surfaces = -(-channels * n.SIZES[precision] // atom)
    check_size(source.unit, source.task, height, width, surfaces * atom)
    strides = source[SOURCE_SURFACE] * atom, source[SOURCE_LINE] * atom
    view = atoms(memory, source[SOURCE], (surfaces, height, width), *strides, atom)
    source.finish(SOURCE_WITHOUT_EFFECT)
    return numbers(view, precision, np.float32)


def _padded(
    r: UnitRegisters,
    values: n.Values,
    precision: int,
    method: int,
    out: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
) -> n.Values:
    """The input with its pads, as far as the windows reach."""
    top, left, _bottom, _right = (r[field] for field in PAD)
    height, width, channels = values.shape
    reach = [(a - 1) * step + size for a, step, size in zip(out, stride, kernel)]
    shape = max(reach[0], height + top), max(reach[1], width + left), channels
    check_size(r.unit, r.task, *shape)
    padded = np.full(shape, _pad(r, precision, method), np.float32)
    padded[top : top + height, left : left + width] = values
    return padded


def _pad(r: UnitRegisters, precision: int, method: int) -> float:
    """Outside lies what loses, and for averages a number of the registers."""
    value = r[PAD_VALUE] & 0xFFFFFFFF
    r.need(PAD_SIGN, -(value >> 31), 0, why="is not the sign of PAD_VALUE_1")
    if method != _AVERAGE:
        lowest = -np.inf if n.is_float(precision) else n.limits(precision)[0]
        return float(lowest if method == _MAX else -lowest - 1)
    if n.is_float(precision):
        return n.as_half(value)
    return float(value - (value >> 31 << 32))


def _averages(
    r: UnitRegisters, windows: list[n.Values], kernel: tuple[int, int], reciprocals: list[int], precision: int
) -> n.Values:
    """Sums times two reciprocals; of integers rounded as measured on RK3588 and RK3576."""
    total = np.zeros(windows[0].shape, np.float64)
    for window in windows:
        total += window
    count = kernel[0] * kernel[1]
    if n.is_float(precision):
        factors = [n.as_fp17(number) for number in reciprocals]
        return (total * factors[0] * factors[1]).astype(np.float32)
    for field, number, size in zip(RECIPROCAL, reciprocals, kernel):
        if number != _ONE // size:
            r.refuse(field, f"is not the reciprocal of {size}, for which alone the rounding was measured")
    magnitude = np.abs(total)
    quotient = np.floor((magnitude + count // 2) / count)
    half = magnitude % count * 2 == count
    if all(_ONE % size == 0 for size in kernel):
        half &= quotient % 2 == 1
    averages: n.Values = np.copysign(quotient - half, total)
    return averages
