"""Weights as the NPU keeps them: blocks of output and input channels, and how they become plain arrays."""

from __future__ import annotations

import numpy as np

from . import numbers as n
from .memory import Bytes
from .refused import MachineRefused

__all__ = ["dense_weights", "depthwise_weights", "paired_weights", "with_128"]


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
    """(kh, kw, C) of blocks of ``block`` bytes of channels: ``run`` int8 weights, then what is added to each of them."""
    if precision != n.INT8:
        raise MachineRefused(
            "CNA", 0x100C, "WEIGHTS_AND_ZERO_POINTS", precision, why="weights of int8 are expected"
        )
    both = depthwise_weights(plain, shape, precision, kind, 2 * block)
    height, width, lanes = both.shape
    if lanes % (2 * run):
        raise MachineRefused(
            "CNA", 0x1030, "WEIGHT_BYTES", len(plain), why=f"weights of {lanes} lanes make no pairs"
        )
    parts = both.reshape(height, width, -1, 2, run)
    return (parts[..., 0, :] + with_128(parts[..., 1, :])).reshape(height, width, -1)


def with_128(minus: n.Values) -> n.Values:
    """What is added for zero points; that of -128 does not fit a byte and is stored as -128."""
    return np.where(minus == -128, 128, minus)


def _elements(plain: Bytes, precision: int, count: int) -> n.Values:
    """The first ``count`` numbers."""
    if not count or count * n.SIZES[precision] > len(plain):
        raise MachineRefused(
            "CNA", 0x1030, "WEIGHT_BYTES", len(plain), why=f"{count} weights do not lie in them"
        )
    return n.decoded(plain[: count * n.SIZES[precision]], precision)
