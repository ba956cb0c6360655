"""The unit that fetches: features, as surfaces or as pixels, converted where asked for, and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from . import numbers as n
from .compressed import COMPRESSION, plain_bytes
from .memory import Memory
from .prepared_weights import PreparedWeights, WeightStore
from .registers import Field, Mode, UnitRegisters
from .surfaces import atoms, check_size, numbers

__all__ = ["Fetched", "fetch"]

NONALIGN = Field("NONALIGN_DMA", 0x100C, 30, 30)
GROUP_LINE_OFF = Field("GROUP_LINE_OFF", 0x100C, 29, 29)
DECONV = Field("DECONV", 0x100C, 16, 16)
PIXELS = Field("ARGB_IN", 0x100C, 15, 12)
PROC_PRECISION = Field("PROC_PRECISION", 0x100C, 9, 7)
IN_PRECISION = Field("IN_PRECISION", 0x100C, 6, 4)
MODE = Field("CONV_MODE", 0x100C, 3, 0)
DILATION = Field("ATROUS_Y_DILATION", 0x1014, 25, 21), Field("ATROUS_X_DILATION", 0x1014, 20, 16)
GROWTH = Field("DECONV_Y_STRIDE", 0x1014, 13, 11), Field("DECONV_X_STRIDE", 0x1014, 10, 8)
STRIDE = Field("CONV_Y_STRIDE", 0x1014, 5, 3), Field("CONV_X_STRIDE", 0x1014, 2, 0)
WIDTH = Field("DATAIN_WIDTH", 0x1020, 26, 16)
HEIGHT = Field("DATAIN_HEIGHT", 0x1020, 10, 0)
CHANNEL_REAL = Field("DATAIN_CHANNEL_REAL", 0x1024, 29, 16)
CHANNEL = Field("DATAIN_CHANNEL", 0x1024, 15, 0)
OUT_WIDTH = Field("DATAOUT_WIDTH", 0x1028, 10, 0)
OUT_ATOMS = Field("DATAOUT_ATOMICS", 0x102C, 21, 0)
WEIGHT_BYTES = Field("WEIGHT_BYTES", 0x1030)
KERNEL_BYTES = Field("WEIGHT_BYTES_PER_KERNEL", 0x1034, 18, 0)
KERNEL = Field("WEIGHT_HEIGHT", 0x1038, 20, 16), Field("WEIGHT_WIDTH", 0x1038, 28, 24)
KERNELS = Field("WEIGHT_KERNELS", 0x1038, 13, 0)
CONVERT_SHIFT = tuple(Field(f"CVT_TRUNCATE_{k}", 0x104C, 9 + 6 * k, 4 + 6 * k) for k in range(4))
DATA_SIGN = Field("DATA_SIGN", 0x104C, 3, 3)
CONVERT_ROUND = Field("ROUND_TYPE", 0x104C, 2, 2)
CONVERT_TYPE = Field("CVT_TYPE", 0x104C, 1, 1)
CONVERT_BYPASS = Field("CVT_BYPASS", 0x104C, 0, 0)
CONVERT_SCALE = tuple(Field(f"CVT_SCALE{k}", 0x1050 + 4 * k, 31, 16, signed=True) for k in range(4))
CONVERT_OFFSET = tuple(Field(f"CVT_OFFSET{k}", 0x1050 + 4 * k, 15, 0, signed=True) for k in range(4))
PAD = Field("PAD_TOP", 0x1068, 3, 0), Field("PAD_LEFT", 0x1068, 7, 4)
FEATURES = Field("FEATURE_DATA_ADDR", 0x1070)
LINE_STRIDE = Field("LINE_STRIDE", 0x107C, 27, 0)
SURFACE_STRIDE = Field("SURF_STRIDE", 0x1080, 27, 0, signed=True)
READ_WIDTH = Field("DMA_WIDTH", 0x1084, 29, 16)
READ_HEIGHT = Field("DMA_HEIGHT", 0x1084, 10, 0)
READ_CHANNEL = Field("DMA_CHANNEL", 0x1088, 15, 0)
WEIGHTS = Field("DECOMP_ADDR0", 0x1110)
CONVERTED = Field("PER_CHANNEL_CVT_EN", 0x1180)
PAD_VALUE = Field("PAD_VALUE", 0x1184)
WEIGHT_ZERO = Field("WEIGHT_ZERO", 0x1074)
"""Of designs that have it: a number that is added to all weights of a depthwise convolution, twice."""

WITHOUT_EFFECT: Mapping[int, int] = {
    0x1004: 0xFFFFFFFF,  # S_POINTER: which group of registers is written and run, as the machine follows it anyway
    0x1010: 0xF0FF3FF0,  # which cores fetch together; KERNEL_GROUP, FEATURE_GRAINS: how much is fetched at a time
    0x1040: 0x00003FFF,  # banks of the buffer; whether weights or features are there from the task before
    0x1044: 0x0000FFFF,  # entries of the buffer
    0x1078: 0x800F000F,  # lengths of bursts
    0x1100: 0x00000008,  # compression is bypassed
}
_FIRST_PIXELS, _MOST_PIXELS = 8, 11  # ARGB_IN of one channel, of four
_ROW = 16  # bytes of every channel that a row of a picture is rounded up to
_MIDDLE = 0x80
_LINES = 4  # rows whose strides are counted at once


@dataclass(frozen=True)
class Fetched:
    """What a convolution works on; pairs are (y, x). A stride of 0 repeats the same features, which is how the compiler broadcasts.

    Attributes:
        features: (H, W, C); of a transposed convolution with pad values between.
        weights: of at least as many channels.
        pad: value of a position outside; ``before``: such positions above and to the left.
        read: bytes.
    """

    features: n.Values
    weights: PreparedWeights
    precision: int
    pad: float
    before: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    read: int


def fetch(r: UnitRegisters, memory: Memory, store: WeightStore) -> Fetched:
    """What the registers ask for; ``store`` keeps weights for the next run.

    Raises:
        MachineRefused: a mode that is not understood, or bytes that lie in no buffer.
    """
    mode = r.design.modes[r.need(MODE, *r.design.modes)]
    precision = r.need(IN_PRECISION, n.INT8, n.INT16, n.FP16, n.BF16)
    if precision not in r.design.precisions:
        r.refuse(IN_PRECISION)
    r.need(PROC_PRECISION, precision, why="differs from IN_PRECISION")
    pad = _pad(r, precision)
    features = _pixels(r, memory, precision) if r[PIXELS] else _surfaces(r, memory, precision)
    read = r[WEIGHT_BYTES] + features.size * n.SIZES[precision]
    features = _converted(r, features)
    features = _grown(r, features, pad)
    if r[COMPRESSION]:
        plain = plain_bytes(r, memory, r[WEIGHTS], r[WEIGHT_BYTES])
    else:
        plain = memory.view(r[WEIGHTS], r[WEIGHT_BYTES])
    taps = r[KERNEL[0]] * r[KERNEL[1]]
    if not taps or not r[KERNELS]:
        r.refuse(KERNELS, "a kernel without a size, or none")
    lanes = r[KERNEL_BYTES] // (
        taps * n.SIZES[precision]
    )  # three quarters of a block are stored as a whole one
    shape = (r[KERNELS], r[KERNEL[0]], r[KERNEL[1]], max(lanes, r[CHANNEL]))
    weights = store.prepared(
        r[WEIGHTS], plain, shape, precision, mode, r.design, _weight_zero(r, mode, precision)
    )
    _ = r[OUT_WIDTH], r[OUT_ATOMS]
    fetched = Fetched(
        features[..., : weights.values.shape[-1]],
        weights,
        precision,
        pad,
        (r[PAD[0]], r[PAD[1]]),
        (r[STRIDE[0]], r[STRIDE[1]]),
        (r[DILATION[0]] + 1, r[DILATION[1]] + 1),
        read,
    )
    r.finish(WITHOUT_EFFECT)
    return fetched


def _weight_zero(r: UnitRegisters, mode: Mode, precision: int) -> int:
    """What is added to weights; -128 stands for 128, which a byte does not hold."""
    if not r.has(WEIGHT_ZERO):
        return 0
    byte = r[WEIGHT_ZERO] & 0xFF
    r.need(WEIGHT_ZERO, byte << 8 | byte, why="is not the same number twice")
    if byte and (mode is not Mode.DEPTHWISE or precision != n.INT8):
        r.refuse(WEIGHT_ZERO, "zero points of other than depthwise weights of int8")
    return byte - (byte >> 7 << 8) if byte != _MIDDLE else byte


def _pad(r: UnitRegisters, precision: int) -> float:
    """The value of positions outside, in the type of features."""
    value = r[PAD_VALUE]
    if precision == n.FP16:
        return n.as_half(value)
    if precision == n.BF16:
        return n.as_float32(value << 16)
    bits = 8 * n.SIZES[precision]
    value &= (1 << bits) - 1
    return float(value - (1 << bits) if value >> bits - 1 else value)


def _kind(precision: int) -> type[np.floating]:
    """float32 where products of that type are exact in it."""
    return np.float64 if precision == n.INT16 else np.float32


def _surfaces(r: UnitRegisters, memory: Memory, precision: int) -> n.Values:
    """(H, W, C) of surfaces: C / C2 of them, in rows of W atoms."""
    r.need(NONALIGN, 0)
    height, width = r[HEIGHT], r[WIDTH]
    for field, expected in ((READ_WIDTH, width), (READ_HEIGHT, height), (READ_CHANNEL, r[CHANNEL])):
        r.need(field, expected, why="differs from the size of the features")
    channels = r[CHANNEL_REAL] + 1
    if r.design.counts_last:
        channels += max(0, r[CHANNEL] - 1) // r.design.counts_last * r.design.counts_last
    atom = r.design.atom
    lanes = atom // n.SIZES[precision]
    surfaces = -(-channels // lanes)
    check_size(r.unit, r.task, height, width, surfaces * lanes)
    if r.design.line_strides:
        row, surface = r[LINE_STRIDE] * atom, r[SURFACE_STRIDE] * atom
    elif r.design.whole_surfaces:
        row = r[LINE_STRIDE] * (atom if r[GROUP_LINE_OFF] else atom // _LINES)
        surface = r[SURFACE_STRIDE] * atom
    elif r[GROUP_LINE_OFF]:
        row, surface = r[LINE_STRIDE] * atom, (r[SURFACE_STRIDE] + width) * atom
    else:  # four rows are a group, of whose end the next surface is counted
        row, surface = r[LINE_STRIDE] * (atom // _LINES), (r[SURFACE_STRIDE] + r[LINE_STRIDE]) * atom
    view = atoms(memory, r[FEATURES], (surfaces, height, width), surface, row, atom)
    return numbers(view, precision, _kind(precision))[..., :channels]


def _pixels(r: UnitRegisters, memory: Memory, precision: int) -> n.Values:
    """(H, W, C) of a picture whose positions have one to four channels; their rows are a multiple of 16 or 8 positions."""
    r.need(PIXELS, *range(_FIRST_PIXELS, _MOST_PIXELS + 1))
    if not (r.design.line_strides or r.design.whole_surfaces):
        r.need(NONALIGN, 1, why="pixels at any byte are expected")
        r.need(GROUP_LINE_OFF, 1, why="pixels without groups of lines are expected")
    channels, height = r[PIXELS] - _FIRST_PIXELS + 1, r[HEIGHT]
    r.need(CHANNEL_REAL, channels - 1, why="differs from the number of channels of a pixel")
    r.look(GROUP_LINE_OFF)
    size = channels * n.SIZES[precision]
    width, row = _pixel_rows(r, size, height)
    check_size(r.unit, r.task, height, width, channels)
    _ = r[SURFACE_STRIDE], r[LINE_STRIDE]
    view = atoms(memory, r[FEATURES], (1, height, width), 0, row, atom=size)
    if precision == n.INT8 and not r[CONVERT_BYPASS] and not r[DATA_SIGN]:
        pixels: n.Values = view[0].astype(np.float32)  # uint8
        return pixels
    return numbers(view, precision, _kind(precision))


def _pixel_rows(r: UnitRegisters, size: int, height: int) -> tuple[int, int]:
    """(pixels of a row, bytes from one row to the next) of pixels of ``size`` bytes."""
    if r.design.whole_surfaces:  # atoms of a row, or of all rows
        atoms_read = r[READ_WIDTH] * r[READ_HEIGHT]
        if not height or atoms_read % height:
            r.refuse(READ_WIDTH, f"{atoms_read} atoms are not {height} rows")
        return r[WIDTH], atoms_read // height * r.design.atom
    r.need(READ_HEIGHT, height, why="differs from the height of the features")
    r.need(READ_CHANNEL, r[CHANNEL], why="differs from the channels of the features")
    width = min(r[WIDTH], r[READ_WIDTH])
    if r.design.line_strides:  # DMA_WIDTH has the pixels of a row with its padding
        return width, r[READ_WIDTH] * size
    whole = _ROW * (r[CHANNEL_REAL] + 1) // size
    return width, -(-max(r[WIDTH], r[LINE_STRIDE]) // whole) * whole * size


def _converted(r: UnitRegisters, features: n.Values) -> n.Values:
    """Bytes as a caller gave them become what the convolution takes, by channel modulo 4."""
    unused = (
        *CONVERT_SCALE,
        *CONVERT_OFFSET,
        *CONVERT_SHIFT,
        CONVERTED,
        CONVERT_TYPE,
        DATA_SIGN,
        CONVERT_ROUND,
    )
    settings = [r[field] for field in unused]
    if r.need(CONVERT_BYPASS, 0, 1):
        return features
    if settings[-1]:
        r.refuse(CONVERT_ROUND)
    if r[IN_PRECISION] != n.INT8:
        r.refuse(IN_PRECISION, "conversion of other than int8 features is not known")
    out = np.empty(features.shape, np.float32)
    for channel in range(features.shape[-1]):
        lane = channel % 4
        scale, offset, shift = r[CONVERT_SCALE[lane]], r[CONVERT_OFFSET[lane]], r[CONVERT_SHIFT[lane]]
        values = features[..., channel].astype(np.float64)
        if r[CONVERT_TYPE]:
            values = n.shifted((values + offset) * scale, shift)
        else:
            values = n.shifted(values * scale, shift) + offset
        out[..., channel] = n.saturated(values, n.INT8)
    return out


def _grown(r: UnitRegisters, features: n.Values, pad: float) -> n.Values:
    """Features of a transposed convolution: steps between them are filled with the pad value."""
    growth = r[GROWTH[0]] + 1, r[GROWTH[1]] + 1
    _ = r[DECONV]
    if growth == (1, 1):
        return features
    height, width, channels = features.shape
    shape = (height - 1) * growth[0] + 1, (width - 1) * growth[1] + 1, channels
    check_size(r.unit, r.task, *shape)
    out = np.full(shape, pad, features.dtype)
    out[:: growth[0], :: growth[1]] = features
    return out
