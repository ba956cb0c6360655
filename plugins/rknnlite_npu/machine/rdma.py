"""The unit that fetches for the output stage: what flows through it, a second operand, numbers per channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np

from . import numbers as n
from .memory import Memory
from .registers import Field, UnitRegisters
from .surfaces import atoms, check_size, numbers

__all__ = ["FLOW", "Operands", "PerChannel", "fetch_operands"]

WIDTH = Field("WIDTH", 0x500C, 12, 0)
EW_LINE_NOTCH = Field("EW_LINE_NOTCH_ADDR", 0x5010, 28, 16)
HEIGHT = Field("HEIGHT", 0x5010, 12, 0)
CHANNEL = Field("CHANNEL", 0x5014, 12, 0)
FLOW = HEIGHT, WIDTH, CHANNEL
SOURCE = Field("SRC_BASE_ADDR", 0x5018)
BS_USE = Field("BRDMA_DATA_USE", 0x501C, 4, 1)
BS_BASE = Field("BS_BASE_ADDR", 0x5020)
BN_USE = Field("NRDMA_DATA_USE", 0x5028, 4, 1)
BN_BASE = Field("BN_BASE_ADDR", 0x502C)
EW_MODE = Field("ERDMA_DATA_MODE", 0x5034, 31, 30)
EW_SURFACE_MODE = Field("ERDMA_SURF_MODE", 0x5034, 29, 29)
EW_NONALIGN = Field("ERDMA_NONALIGN", 0x5034, 28, 28)
EW_SIZE = Field("ERDMA_DATA_SIZE", 0x5034, 3, 2)
EW_DISABLE = Field("ERDMA_DISABLE", 0x5034, 0, 0)
EW_BASE = Field("EW_BASE_ADDR", 0x5038)
EW_SURFACE_STRIDE = Field("EW_SURF_STRIDE", 0x5040, 31, 4)
IN_PRECISION = Field("IN_PRECISION", 0x5044, 17, 15)
COMBINED = Field("COMB_USE", 0x5044, 10, 8)
PROC_PRECISION = Field("PROC_PRECISION", 0x5044, 7, 5)
SOURCE_DISABLE = Field("MRDMA_DISABLE", 0x5044, 4, 4)
WIDENED = Field("MRDMA_FP16TOFP32_EN", 0x5044, 3, 3)
MODE = Field("CONV_MODE", 0x5044, 2, 1)
FLYING = Field("FLYING_MODE", 0x5044, 0, 0)
MOVED = Field("MOVED", 0x5044, 24, 23)
LINE_NOTCH = Field("LINE_NOTCH_ADDR", 0x5048, 31, 19)
UNPOOL = Field("UNPOOLING_EN", 0x5048, 12, 12)
UNPOOL_METHOD = Field("POOLING_METHOD", 0x5048, 13, 13)
UNPOOL_STRIDE = Field("KERNEL_STRIDE_HEIGHT", 0x5048, 11, 9), Field("KERNEL_STRIDE_WIDTH", 0x5048, 8, 6)
UNPOOL_KERNEL = Field("KERNEL_HEIGHT", 0x5048, 5, 3), Field("KERNEL_WIDTH", 0x5048, 2, 0)
BS_COMMON = Field("BRDMA_COMMON", 0x501C, 4, 1)
BS_COMMON_BASE = Field("BS_COMMON_ADDR", 0x5024)
BN_COMMON = Field("NRDMA_COMMON", 0x5028, 4, 1)
BN_COMMON_BASE = Field("BN_COMMON_ADDR", 0x5030)
"""Of designs that have numbers for all channels in memory, not in registers."""
SURFACE_NOTCH = Field("SURF_NOTCH_ADDR", 0x504C, 31, 4, signed=True)
EW_SURFACE_NOTCH = Field("EW_SURF_NOTCH", 0x506C, 31, 4, signed=True)

WITHOUT_EFFECT: Mapping[int, int] = {
    0x5004: 0xFFFFFFFF,  # S_POINTER
    0x5034: 0x00000002,  # OV4K_BYPASS: bursts may cross 4 KiB
    0x5044: 0x00007800,  # length of bursts
    0x5068: 0xFFFFFFFF,  # how the fetchers share the bus
}
_FULL, _PER_CHANNEL = 1, 0  # ERDMA_DATA_MODE
_ALONE, _ONE_SOURCE, _ONE_OPERAND = (
    0,
    3,
    5,
)  # COMB_USE: both fetchers bring surfaces of the source, or of the operand, in turn
_ALL_NUMBERS = 7
_JOINED_ZERO = 8  # BRDMA_DATA_USE where numbers are joined
_COMMON = 16  # bytes that a number for all channels lies in
_LARGEST_SHIFT = 63


class PerChannel(NamedTuple):
    """Numbers of every channel, (C,) each, or (1,) of all channels, or None; ``shifts`` of products from 0 on and below."""

    alu: Optional[n.Values]
    zero: Optional[n.Values]
    multiplier: Optional[n.Values]
    shifts: Optional[tuple[int, int]] = None


@dataclass(frozen=True)
class Operands:
    """What the output stage is given.

    Attributes:
        source: (H, W, C), where nothing comes from the convolution.
        ew: (H, W, C), or (C,) of one number per channel.
        read: bytes.
        repeated: surfaces that unpooling makes of one.
        source_address: where the source lies; 0 without one.
    """

    source: Optional[n.Values]
    ew: Optional[n.Values]
    bs: PerChannel
    bn: PerChannel
    read: int
    repeated: int = 1
    source_address: int = 0


def fetch_operands(r: UnitRegisters, memory: Memory, flying: bool, precision: int, channels: int) -> Operands:
    """Everything that is not switched off.

    Args:
        flying: what flows comes from memory, not from the convolution.
        precision: of what flows.
        channels: of the output stage.
    """
    r.need(FLYING, int(flying), why="differs from that of the DPU")
    r.need(EW_SURFACE_MODE, 0)
    r.need(EW_NONALIGN, 0)
    combined = r.need(COMBINED, _ALONE, _ONE_SOURCE, _ONE_OPERAND)
    r.need(PROC_PRECISION, *n.SIZES)
    r.need(MODE, 0, 1, 3)
    _ = r[WIDENED], r[IN_PRECISION]
    check_size(r.unit, r.task, r[HEIGHT] + 1, r[WIDTH] + 1, r[CHANNEL] + 1)
    source, ew = _activations(r, memory, combined, precision)
    repeated = r[UNPOOL_KERNEL[0]] + 1
    if flying and source is None:
        r.refuse(SOURCE_DISABLE, "nothing flows: it is neither fetched nor computed")
    bs = _per_channel(r, memory, BS_USE, BS_BASE, precision, channels)
    bn = _per_channel(r, memory, BN_USE, BN_BASE, precision, channels)
    if r.has(BS_COMMON):
        bs = _with_common(r, memory, bs, BS_COMMON, BS_COMMON_BASE, precision)
        bn = _with_common(r, memory, bn, BN_COMMON, BN_COMMON_BASE, precision)
    r.finish(WITHOUT_EFFECT)
    read = sum(part.size * n.SIZES[precision] for part in (source, ew, *bs[:3], *bn[:3]) if part is not None)
    return Operands(source if flying else None, ew, bs, bn, read, repeated, r[SOURCE] if flying else 0)


def _activations(
    r: UnitRegisters, memory: Memory, combined: int, precision: int
) -> tuple[Optional[n.Values], Optional[n.Values]]:
    """(what flows, second operand)."""
    on, ew_on = not r[SOURCE_DISABLE], not r[EW_DISABLE]
    if combined != _ALONE and not (on and ew_on):
        r.refuse(COMBINED, "one of the two fetchers is off")
    _ = [r[f] for f in (SOURCE, LINE_NOTCH, SURFACE_NOTCH, EW_BASE, EW_LINE_NOTCH, EW_SURFACE_NOTCH)]
    _ = r[EW_SIZE], r[EW_MODE], r[EW_SURFACE_STRIDE]
    _ = [r[f] for f in (UNPOOL, UNPOOL_METHOD, *UNPOOL_STRIDE, *UNPOOL_KERNEL)]
    parts = 1 + (combined != _ALONE)
    source = _source(r, memory, parts, precision) if on else None
    if not ew_on:
        return source, None
    ew = _operand(r, memory, parts, precision)
    if combined == _ALONE:
        return source, ew
    assert source is not None
    both = _in_turn(source, ew, r.design.atom // n.SIZES[r[IN_PRECISION]], r[CHANNEL] + 1)
    return (both, None) if combined == _ONE_SOURCE else (None, both)


def _in_turn(even: n.Values, odd: n.Values, lanes: int, channels: int) -> n.Values:
    """Surfaces of both in turn."""
    height, width, _ = even.shape
    pairs = [part.reshape(height, width, -1, lanes) for part in (even, odd)]
    return np.stack(pairs, axis=3).reshape(height, width, -1)[..., :channels]


def _source(r: UnitRegisters, memory: Memory, parts: int, flowing: int) -> n.Values:
    """(H, W, C): every surface, or every second one."""
    precision = r.need(IN_PRECISION, *n.SIZES)
    if r.design.joined:
        r.need(MOVED, 3 * (precision == n.INT16), why="words of 16 bits that are not moved")
        if precision != flowing:
            r.refuse(IN_PRECISION, "does not go with the DPU")
    if precision == n.INT16 and r[WIDENED] and n.is_float(flowing):
        precision = n.FP16  # 16 bits that become fp32
    shape = _shape(r, precision, parts)
    atom, unit = r.design.atom_of(n.SIZES[precision]), r.design.atom
    row = shape[2] * atom + r[LINE_NOTCH] * unit
    surface = (shape[1] - 1) * row + shape[2] * atom + r[SURFACE_NOTCH] * unit
    view = atoms(memory, r[SOURCE], shape, surface, row, atom)
    if r[UNPOOL]:
        return _unpooled(r, numbers(view, flowing, _kind(flowing)), shape[0])
    return _cut(r, numbers(view, precision, _kind(precision)), parts)


def _operand(r: UnitRegisters, memory: Memory, parts: int, flowing: int) -> n.Values:
    """(H, W, C), or (C,); its type is that of what flows."""
    size = r[EW_SIZE]
    stored = r.design.operand_bytes.get(size)
    precision = {1: n.INT8, 2: n.INT16, 4: n.INT32}.get(stored or 0, -1)
    if n.is_float(flowing):
        precision = {2: n.BF16 if flowing == n.BF16 else n.FP16, 4: n.FP32}.get(stored or 0, -1)
    if precision < 0:
        r.refuse(EW_SIZE)
    mode = r.need(EW_MODE, _PER_CHANNEL, _FULL)
    _ = r[EW_SURFACE_STRIDE]
    if mode == _PER_CHANNEL:
        found = memory.view(r[EW_BASE], (r[CHANNEL] + 1) * n.SIZES[precision])
        return n.decoded(found, precision).astype(_kind(precision))
    shape = _shape(r, precision, parts)
    atom, unit = r.design.atom_of(n.SIZES[precision]), r.design.atom
    row = shape[2] * atom + r[EW_LINE_NOTCH] * unit
    surface = (shape[1] - 1) * row + shape[2] * atom + r[EW_SURFACE_NOTCH] * unit
    if r.design.line_strides or r.design.whole_surfaces:
        surface = r[EW_SURFACE_STRIDE] * unit
    view = atoms(memory, r[EW_BASE], shape, surface, row, atom)
    return _cut(r, numbers(view, precision, _kind(precision)), parts)


def _shape(r: UnitRegisters, precision: int, parts: int) -> tuple[int, int, int]:
    """(surfaces, rows, columns) of one fetcher."""
    lanes = r.design.atom_of(n.SIZES[precision]) // n.SIZES[precision]
    surfaces = -(-(r[CHANNEL] + 1) // lanes)
    return -(-surfaces // parts), r[HEIGHT] + 1, r[WIDTH] + 1


def _cut(r: UnitRegisters, values: n.Values, parts: int) -> n.Values:
    return values[..., : r[CHANNEL] + 1] if parts == 1 else values


def _kind(precision: int) -> type[np.floating]:
    return np.float32 if n.is_float(precision) else np.float64


def _unpooled(r: UnitRegisters, values: n.Values, surfaces: int) -> n.Values:
    """Every position repeated over a kernel: columns beside each other, rows as further surfaces."""
    rows, columns = (r[field] + 1 for field in UNPOOL_KERNEL)
    if surfaces != 1 or r[UNPOOL_METHOD] or any(r[a] != r[b] for a, b in zip(UNPOOL_STRIDE, UNPOOL_KERNEL)):
        r.refuse(UNPOOL, "one surface without overlap is expected")
    check_size(r.unit, r.task, *values.shape, rows, columns)
    return np.tile(np.repeat(values, columns, axis=1), (1, 1, rows))


def _joined(r: UnitRegisters, memory: Memory, address: int, channels: int) -> PerChannel:
    """Records of eight channels: 4 int32 to add, 4 int16 to multiply with, 8 int8 for zero points, and the first two again."""
    r.need(BS_USE, _JOINED_ZERO | 3)
    count = -(-channels // 8)
    half = [("alu", "<i4", (4,)), ("multiplier", "<i2", (4,))]
    kind = np.dtype([("first", half), ("zero", "i1", (8,)), ("second", half)])
    records = memory.view(address, count * kind.itemsize).copy().view(kind)
    alu, multiplier = (
        np.concatenate([records["first"][part], records["second"][part]], axis=1).reshape(-1)[:channels]
        for part in ("alu", "multiplier")
    )
    minus = records["zero"].reshape(-1)[:channels].astype(np.float64)
    zero = np.where(minus == -128, 128, minus)  # which a byte does not hold
    return PerChannel(alu.astype(np.float64), zero, multiplier.astype(np.float64))


def _per_channel(
    r: UnitRegisters, memory: Memory, use: Field, base: Field, precision: int, channels: int
) -> PerChannel:
    """Records of a group of channels: int32 to add, int16 for zero points, int16 to multiply with; floats fp32 and fp16."""
    bits, address, group = r[use], r[base], r.design.group
    if r.design.joined:
        if bits & _JOINED_ZERO:
            return _joined(r, memory, address, channels)
        bits = bits & 1 | (bits & 2) << 1
    if bits > _ALL_NUMBERS:
        r.refuse(use)
    widths = [4 * (bits & 1), 2 * (bits >> 1 & 1), 2 * (bits >> 2 & 1)]
    if not any(widths):
        return PerChannel(None, None, None)
    count = -(-channels // group)
    records = memory.view(address, count * group * sum(widths)).reshape(count, group * sum(widths))
    floats = n.is_float(precision)
    kinds = (
        (n.FP32, n.INT16, n.BF16 if precision == n.BF16 else n.FP16)
        if floats
        else (n.INT32, n.INT16, n.INT16)
    )
    found: list[Optional[n.Values]] = []
    at = 0
    for width, kind in zip(widths, kinds):
        if not width:
            found.append(None)
            continue
        part = np.ascontiguousarray(records[:, at : at + group * width])
        found.append(n.decoded(part, kind).reshape(-1)[:channels].astype(_kind(precision)))
        at += group * width
    alu, zero, multiplier = found
    return PerChannel(alu, zero, multiplier)


def _with_common(
    r: UnitRegisters, memory: Memory, own: PerChannel, use: Field, base: Field, precision: int
) -> PerChannel:
    """``own`` and the numbers for all channels: one to add in 32 bytes; zero point, multiplier and two shifts in 16 each."""
    bits, at = r[use], r[base]
    adds, zero, multiplies, shifts = (bool(bits >> k & 1) for k in range(4))
    if adds and zero:
        r.refuse(use, "a number to add and a zero point at once: in which order they lie was never seen")
    alu_kind, mul_kind = (
        (n.FP32, n.BF16 if precision == n.BF16 else n.FP16) if n.is_float(precision) else (n.INT32, n.INT16)
    )
    if multiplies and not shifts and precision == n.INT16:
        mul_kind = n.FP16  # slopes of int16 layers
    found: dict[str, n.Values] = {}
    for there, name, kind, size in (
        (adds, "alu", alu_kind, 2 * _COMMON),
        (zero, "zero", n.INT16, _COMMON),
        (multiplies, "multiplier", mul_kind, _COMMON),
    ):
        if there:
            if getattr(own, name) is not None:
                r.refuse(use, f"{name} for all channels and for each")
            found[name] = n.decoded(memory.view(at, n.SIZES[kind]), kind).astype(_kind(precision))
            at += size
    numbers = (
        found.get("alu", own.alu),
        found.get("zero", own.zero),
        found.get("multiplier", own.multiplier),
    )
    if not shifts:
        return PerChannel(*numbers)
    above, below = memory.view(at, 2).tolist()
    if max(above, below) > _LARGEST_SHIFT:
        r.refuse(base, f"shifts by {above} and {below}")
    return PerChannel(*numbers, (above, below))
