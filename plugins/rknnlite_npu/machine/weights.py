"""Weights as the NPU keeps them: blocks of output and input channels, and how they become plain arrays."""

from __future__ import annotations

import numpy as np

from . import numbers as n
from .memory import Bytes
from .refused import MachineRefused

__all__ = ["dense_weights", "depthwise_weights", "paired_weights", "row_weights"]

_ROW = 4  # taps that a row of a picture's kernel is rounded up to


def dense_weights(
    plain: Bytes,
    shape: tuple[int, int, int, int],
    precision: int,
    kind: type[np.floating],
    block: tuple[int, int],
) -> n.Values:
    """(OC, kh, kw, C) of blocks of output channels, in them of input channels, then kh, kw; the last block of either is smaller.

    Args:
        shape: OC, kh, kw, C.
        block: bytes of its output channels, number of its input channels.
    """
    rows_bytes, lanes = block
    outputs, height, width, inputs = shape
    stored = _elements(plain, precision, outputs * height * width * inputs)
    out = np.empty(shape, kind)
    group = rows_bytes // n.SIZES[precision]
    whole = inputs // lanes * lanes
    at = 0
    for first in range(0, outputs, group):
        rows = min(group, outputs - first)
        if whole:
            size = rows * height * width * whole
            cells = stored[at : at + size].reshape(whole // lanes, height, width, rows, lanes)
            band = out[first : first + rows, :, :, :whole].reshape(rows, height, width, -1, lanes)
            band[...] = cells.transpose(3, 1, 2, 0, 4)
            at += size
        if inputs > whole:
            size = rows * height * width * (inputs - whole)
            cells = stored[at : at + size].reshape(height, width, rows, -1)
            out[first : first + rows, :, :, whole:] = cells.transpose(2, 0, 1, 3)
            at += size
    return out


def depthwise_weights(
    plain: Bytes, shape: tuple[int, int, int, int], precision: int, kind: type[np.floating], block: int
) -> n.Values:
    """(kh, kw, C) of blocks of ``block`` bytes of channels; C as many as there are bytes for."""
    _, height, width, _ = shape
    taps = max(1, height * width)
    channels = len(plain) // (taps * n.SIZES[precision])
    stored = _elements(plain, precision, taps * channels)
    out = np.empty((height, width, channels), kind)
    group = block // n.SIZES[precision]
    for first in range(0, channels, group):
        count = min(group, channels - first)
        cells = stored[first * taps : (first + count) * taps]
        out[..., first : first + count] = cells.reshape(height, width, count)
    return out


def paired_weights(
    plain: Bytes,
    shape: tuple[int, int, int, int],
    precision: int,
    kind: type[np.floating],
    block: int,
    run: int,
) -> n.Values:
    """The same where ``run`` weights are followed by as many numbers that are added to them: their zero points.

    The least number stands for its negative, which the type does not hold: so files have averages of pools.
    """
    _, height, width, _ = shape
    taps = max(1, height * width)
    group = block // n.SIZES[precision]
    channels = len(plain) // (2 * taps * n.SIZES[precision])
    stored = _elements(plain, precision, 2 * taps * channels)
    lowest = -np.inf if n.is_float(precision) else n.limits(precision)[0]
    out = np.empty((height, width, channels), kind)
    for first in range(0, channels, group):
        count = min(group, channels - first)
        if count % run:
            raise MachineRefused(
                "CNA", 0x1030, "WEIGHT_BYTES", len(plain), why=f"no whole runs of {run} weights"
            )
        cells = stored[2 * first * taps : 2 * (first + count) * taps].reshape(taps, count // run, 2, run)
        cells = cells.astype(kind)
        zeros = np.where(cells[:, :, 1] == lowest, -lowest, cells[:, :, 1])
        out[..., first : first + count] = (cells[:, :, 0] + zeros).reshape(height, width, count)
    return out


def row_weights(
    plain: Bytes, shape: tuple[int, int, int, int], precision: int, kind: type[np.floating], rows_bytes: int
) -> n.Values:
    """(OC, kh, kw, C) of blocks of output channels, in them kh, output channels, kw rounded up to 4, C: those of pictures."""
    outputs, height, width, inputs = shape
    wide = -(-width // _ROW) * _ROW
    stored = _elements(plain, precision, outputs * height * wide * inputs)
    out = np.empty(shape, kind)
    group = rows_bytes // n.SIZES[precision]
    at = 0
    for first in range(0, outputs, group):
        rows = min(group, outputs - first)
        size = rows * height * wide * inputs
        cells = stored[at : at + size].reshape(height, rows, wide, inputs)[:, :, :width]
        out[first : first + rows] = cells.transpose(1, 0, 2, 3)
        at += size
    return out


def _elements(plain: Bytes, precision: int, count: int) -> n.Values:
    """The first ``count`` numbers."""
    if not count or count * n.SIZES[precision] > len(plain):
        raise MachineRefused(
            "CNA", 0x1030, "WEIGHT_BYTES", len(plain), why=f"{count} weights do not lie in them"
        )
    return n.decoded(plain[: count * n.SIZES[precision]], precision)
