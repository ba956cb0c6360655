"""Weight and bias blobs of the NPU, decoded to plain arrays (docs/rknn-format.md, weights and bias).

Weights lie in blocks described by their own native dims: a list of segments
``[nOC, nIC, kh, kw, bOC, bIC]``; see ``unpack_blocks``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.quant import dequantise, quantise
from rknnlite.tensor import DType, QuantParams

__all__ = [
    "BiasBlob",
    "in_steps",
    "parse_bias",
    "parse_joined_bias",
    "parse_scaled_bias",
    "surface_constant",
    "unpack_blocks",
    "unpack_byte_blocks",
    "unpack_first_layer",
    "unpack_nibbles",
    "unpack_pairs",
]

Segment = tuple[int, int, int, int, int, int]


def segments(native: tuple[int, ...], name: str) -> list[Segment]:
    """The native dims as checked segments, empty ones dropped."""
    if not native or len(native) % 6:
        raise ModelInvalid(f"weight {name}: native dims {list(native)} are no list of 6-tuples")
    if min(native) < 0 or max(native) > 1 << 24:
        raise ModelInvalid(f"weight {name}: native dims {list(native)} are out of range")
    parts: list[Segment] = [tuple(native[i : i + 6]) for i in range(0, len(native), 6)]  # type: ignore[misc]
    parts = [part for part in parts if prod(part)]
    if not parts:
        raise ModelInvalid(f"weight {name}: native dims {list(native)} hold nothing")
    kernel = parts[0][2:4]
    if any(part[2:4] != kernel for part in parts):
        raise ModelInvalid(f"weight {name}: its segments disagree about the kernel size")
    return parts


def _groups(parts: list[Segment], channels: int) -> list[list[Segment]]:
    """Segments that share their output channels: same (nOC, bOC), until the input channels are complete."""
    groups: list[list[Segment]] = []
    covered = 0
    for part in parts:
        same = groups and (part[0], part[4]) == (groups[-1][0][0], groups[-1][0][4])
        if not same or covered >= channels:
            groups.append([])
            covered = 0
        groups[-1].append(part)
        covered += part[1] * part[5]
    return groups


def unpack_blocks(
    data: NDArray[Any], native: tuple[int, ...], shape: tuple[int, ...], name: str
) -> NDArray[Any]:
    """Elements in block order -> [OC, IC, kh, kw]; padding lanes are dropped.

    Order of the elements: output-channel group, output-channel block, segment, input-channel block, then
    [kh][kw][bOC][bIC]. A depthwise weight is stored with OC 1 and IC = channels.
    """
    parts = segments(native, name)
    rows, inner = shape[0], shape[1]
    kh, kw = parts[0][2:4]
    if (kh, kw) != tuple(shape[2:4]):
        raise ModelInvalid(f"weight {name}: kernel {kh}x{kw} in the file, {shape[2]}x{shape[3]} in the graph")
    need = sum(prod(part) for part in parts)
    if need > data.size:
        raise ModelInvalid(f"weight {name}: {need} elements expected, the file holds {data.size}")
    bands, pos = [], 0
    for group in _groups(parts, inner):
        n_oc, b_oc = group[0][0], group[0][4]
        sizes = [prod(part) // n_oc for part in group]
        block = data[pos : pos + n_oc * sum(sizes)].reshape(n_oc, sum(sizes))
        pos += block.size
        columns, at = [], 0
        for (_, n_ic, _, _, _, b_ic), size in zip(group, sizes):
            part = block[:, at : at + size].reshape(n_oc, n_ic, kh, kw, b_oc, b_ic)
            columns.append(part.transpose(0, 4, 1, 5, 2, 3).reshape(n_oc * b_oc, n_ic * b_ic, kh, kw))
            at += size
        bands.append(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1))
    widths = {band.shape[1] for band in bands}
    if len(widths) > 1 and min(widths) < inner:
        raise ModelInvalid(f"weight {name}: its segments {list(native)} do not cover {inner} input channels")
    bands = [band[:, :inner] for band in bands]
    full = bands[0] if len(bands) == 1 else np.concatenate(bands, axis=0)
    if full.shape[0] < rows or full.shape[1] < inner:
        raise ModelInvalid(f"weight {name}: stored {full.shape}, but the graph needs {shape}")
    return np.ascontiguousarray(full[:rows, :inner])


def unpack_pairs(
    data: NDArray[Any], native: tuple[int, ...], shape: tuple[int, ...], name: str, run: int
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Depthwise integers of newer NPUs: ``run`` weights, then their ``run`` negative zero points.

    Returns ([C, 1, kh, kw] weights, zero point per channel).
    """
    parts = segments(native, name)
    channels, lowest = shape[0], np.iinfo(data.dtype).min
    bands, zeros, pos = [], [], 0
    for _, blocks, kh, kw, _, lanes in parts:
        size = blocks * kh * kw * lanes * 2
        if lanes % run or pos + size > data.size:
            raise ModelInvalid(
                f"depthwise weight {name}: {data.size} elements cannot hold its dims {list(native)}"
            )
        cells = data[pos : pos + size].reshape(blocks, kh, kw, lanes // run, 2, run)
        pos += size
        weight = cells[..., 0, :].reshape(blocks, kh, kw, lanes)
        minus = cells[:, 0, 0, :, 1].reshape(blocks * lanes).astype(np.float32)
        bands.append(weight.transpose(0, 3, 1, 2).reshape(blocks * lanes, 1, kh, kw))
        # its negative does not fit the type
        zeros.append(np.where(minus == lowest, np.float32(lowest), -minus))
    weights, zero_points = np.concatenate(bands)[:channels], np.concatenate(zeros)[:channels]
    if len(weights) < channels or weights.shape[2:] != tuple(shape[2:4]):
        raise ModelInvalid(f"depthwise weight {name}: {list(weights.shape)} stored, {list(shape)} needed")
    return np.ascontiguousarray(weights), zero_points


def unpack_nibbles(data: memoryview) -> NDArray[np.int8]:
    """Two signed 4-bit numbers per byte, the lower one first."""
    stored = np.frombuffer(data, np.int8)
    return np.stack([np.left_shift(stored, 4) >> 4, stored >> 4], axis=1).reshape(-1)


def unpack_byte_blocks(data: NDArray[np.int8], shape: tuple[int, ...], name: str) -> NDArray[np.int8]:
    """8-bit weights on float16 data (rk3562): blocks of 8 output and 32 input channels, plain dims."""
    oc, ic, kh, kw = shape
    if oc % 8 or ic % 32:
        raise ModelUnsupported(
            f"weight {name}: 8-bit weights of {oc} output and {ic} input channels on float16 data; the converter loses "
            "weights when these are no multiples of 8 and 32: convert in int8 or float16"
        )
    return unpack_blocks(data, (oc // 8, ic // 32, kh, kw, 8, 32), shape, name)


def unpack_first_layer(
    data: NDArray[Any], native: tuple[int, ...], shape: tuple[int, ...], name: str
) -> NDArray[Any]:
    """First layers of rk3576 and rv1126b: [OC block][kh][oc][kw padded to a multiple of 4][4 channels]."""
    bands, pos = [], 0
    for n_oc, _, kh, kw, b_oc, b_ic in segments(native, name):
        wide = -(-kw // 4) * 4
        size = n_oc * kh * b_oc * wide * b_ic
        if pos + size > data.size:
            raise ModelInvalid(f"weight {name}: {size} elements expected, the file holds {data.size - pos}")
        block = data[pos : pos + size].reshape(n_oc, kh, b_oc, wide, b_ic)[:, :, :, :kw]
        pos += size
        bands.append(block.transpose(0, 2, 4, 1, 3).reshape(n_oc * b_oc, b_ic, kh, kw))
    full = np.concatenate(bands)
    if full.shape[0] < shape[0] or full.shape[1] < shape[1] or full.shape[2:] != tuple(shape[2:4]):
        raise ModelInvalid(f"weight {name}: stored {full.shape}, but the graph needs {shape}")
    return np.ascontiguousarray(full[: shape[0], : shape[1]])


@dataclass
class BiasBlob:
    """Per channel: bias, and in quantised layers zero point of the weights and multiplier."""

    bias: Optional[NDArray[Any]]
    zero_point: Optional[NDArray[np.float32]]
    multiplier: Optional[NDArray[np.float64]]


def parse_bias(
    data: memoryview, channels: int, group: int, has: tuple[bool, bool, bool], name: str
) -> BiasBlob:
    """Groups of ``group`` channels: int32 bias, int16 -zero point, uint16 multiplier, as far as present."""
    fields = [
        (label, kind)
        for label, kind, there in zip(("bias", "zero", "mul"), ("<i4", "<i2", "<u2"), has)
        if there
    ]
    if not fields:
        return BiasBlob(None, None, None)
    if len(fields) == 1 and has[0]:
        if len(data) < 4 * channels:
            raise ModelInvalid(f"bias {name}: {len(data)} bytes for {channels} channels")
        return BiasBlob(np.frombuffer(data, "<i4", channels).copy(), None, None)
    record = np.dtype([(label, kind, (group,)) for label, kind in fields])
    count = -(-channels // group)
    if count * record.itemsize > len(data):
        raise ModelInvalid(
            f"bias {name}: {len(data)} bytes, but {channels} channels need {count * record.itemsize}"
        )
    rows = np.frombuffer(data, record, count).copy()
    return BiasBlob(
        rows["bias"].reshape(-1)[:channels] if has[0] else None,
        -rows["zero"].reshape(-1)[:channels].astype(np.float32) if has[1] else None,
        rows["mul"].reshape(-1)[:channels].astype(np.float64) if has[2] else None,
    )


def parse_scaled_bias(
    data: memoryview, channels: int, name: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(bias / scale, scale) per channel of 8-bit weights on float16 data: groups of 4 float32, 4 float16.

    Layers without a bias have the scales alone.
    """
    if len(data) == 2 * channels:
        return np.zeros(channels, np.float32), np.frombuffer(data, "<f2", channels).astype(np.float32)
    record = np.dtype([("bias", "<f4", (4,)), ("scale", "<f2", (4,))])
    count = -(-channels // 4)
    if count * record.itemsize > len(data):
        raise ModelInvalid(
            f"bias {name}: {len(data)} bytes, but {channels} channels need {count * record.itemsize}"
        )
    rows = np.frombuffer(data, record, count).copy()
    return rows["bias"].reshape(-1)[:channels], rows["scale"].reshape(-1)[:channels].astype(np.float32)


def parse_joined_bias(data: memoryview, channels: int, name: str) -> BiasBlob:
    """Convolutions of rv1103b and rv1106b: zero points of 8 channels lie between two groups of 4.

    Record: 4 int32 bias, 4 uint16 multipliers, 8 int8 -zero point, 4 int32 bias, 4 uint16 multipliers.
    """
    half = [("bias", "<i4", (4,)), ("mul", "<u2", (4,))]
    record = np.dtype([("first", half), ("zero", "i1", (8,)), ("second", half)])
    count = -(-channels // 8)
    if count * record.itemsize > len(data):
        raise ModelInvalid(
            f"bias {name}: {len(data)} bytes, but {channels} channels need {count * record.itemsize}"
        )
    rows = np.frombuffer(data, record, count).copy()
    bias, multiplier = (
        np.concatenate([rows["first"][part], rows["second"][part]], axis=1).reshape(-1)[:channels]
        for part in ("bias", "mul")
    )
    return BiasBlob(bias, _zero_points(rows["zero"].reshape(-1)[:channels]), multiplier.astype(np.float64))


def _zero_points(minus: NDArray[np.int8]) -> NDArray[np.float32]:
    """Zero points from their negatives; in a byte, -128 stands for +128."""
    wide = minus.astype(np.float32)
    return np.where(wide == -128, np.float32(-128), -wide)


def surface_constant(
    data: NDArray[Any], native: tuple[int, ...], shape: tuple[int, ...], align: int, name: str
) -> NDArray[Any]:
    """A constant in NC1HWC2 whose surfaces of H*W positions are padded to ``align`` -> logical order."""
    n, c1, h, w, c2 = native
    surface = h * w
    if align > 0 and data.size >= n * c1 * (-(-surface // align) * align) * c2:
        surface = -(-surface // align) * align
    need = n * c1 * surface * c2
    if need > data.size or n * c1 * c2 * h * w < prod(shape):
        raise ModelInvalid(f"constant {name}: {data.size} elements stored, dims {list(native)} need {need}")
    planes = data[:need].reshape(n, c1, surface, c2)[:, :, : h * w]
    flat = planes.transpose(0, 1, 3, 2).reshape(n, c1 * c2, h, w)
    if len(shape) == 4 and (n, h, w) == (shape[0], shape[2], shape[3]) and shape[1] <= c1 * c2:
        return np.ascontiguousarray(flat[:, : shape[1]])
    lanes = prod(shape) // (n * h * w) if n * h * w else 0
    if lanes * n * h * w != prod(shape):
        raise ModelInvalid(f"constant {name}: dims {list(native)} do not fit shape {list(shape)}")
    return np.ascontiguousarray(flat[:, :lanes]).reshape(shape)


def in_steps(load: Callable[[], NDArray[Any]], step: QuantParams, dtype: DType) -> NDArray[Any]:
    """Values rounded to ``step``; as they are where it is too fine to hold them, for it is not that of ``dtype`` then."""
    values = load()
    with np.errstate(invalid="ignore"):  # not a number: nor is it rounded
        rounded = dequantise(quantise(values, step, dtype), step)
    return rounded if (np.abs(rounded - values) <= step.scale).all() else values
