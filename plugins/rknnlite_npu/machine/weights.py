"""Weights as the NPU keeps them: blocks of output and input channels, and how they become plain arrays."""

from __future__ import annotations

import numpy as np

from . import numbers as n
from .memory import Bytes
from .refused import MachineRefused

__all__ = ["dense_weights", "depthwise_weights"]

_INPUTS = 32  # input channels of a block
_OUTPUTS = 32  # bytes of the output channels of a block
_DEPTHWISE = 64  # bytes of the channels of a block


def dense_weights(
    plain: Bytes, shape: tuple[int, int, int, int], precision: int, kind: type[np.floating]
) -> n.Values:
    """(OC, kh, kw, C) of blocks of output channels, in them of input channels, then kh, kw; the last block of either is smaller.

    Args:
        shape: OC, kh, kw, C.
    """
    outputs, height, width, inputs = shape
    stored = _elements(plain, precision, outputs * height * width * inputs)
    out = np.empty(shape, kind)
    group = _OUTPUTS // n.SIZES[precision]
    whole = inputs // _INPUTS * _INPUTS
    at = 0
    for first in range(0, outputs, group):
        rows = min(group, outputs - first)
        if whole:
            size = rows * height * width * whole
            block = stored[at : at + size].reshape(whole // _INPUTS, height, width, rows, _INPUTS)
            band = out[first : first + rows, :, :, :whole].reshape(rows, height, width, -1, _INPUTS)
            band[...] = block.transpose(3, 1, 2, 0, 4)
            at += size
        if inputs > whole:
            size = rows * height * width * (inputs - whole)
            block = stored[at : at + size].reshape(height, width, rows, -1)
            out[first : first + rows, :, :, whole:] = block.transpose(2, 0, 1, 3)
            at += size
    return out


def depthwise_weights(
    plain: Bytes, shape: tuple[int, int, int, int], precision: int, kind: type[np.floating]
) -> n.Values:
    """(kh, kw, C) of blocks of 64 bytes of channels; C as many as there are bytes for."""
    _, height, width, _ = shape
    taps = max(1, height * width)
    channels = len(plain) // (taps * n.SIZES[precision])
    stored = _elements(plain, precision, taps * channels)
    out = np.empty((height, width, channels), kind)
    group = _DEPTHWISE // n.SIZES[precision]
    for first in range(0, channels, group):
        count = min(group, channels - first)
        block = stored[first * taps : (first + count) * taps]
        out[..., first : first + count] = block.reshape(height, width, count)
    return out


def _elements(plain: Bytes, precision: int, count: int) -> n.Values:
    """The first ``count`` numbers."""
    if not count or count * n.SIZES[precision] > len(plain):
        raise MachineRefused(
            "CNA", 0x1030, "WEIGHT_BYTES", len(plain), why=f"{count} weights do not lie in them"
        )
    return n.decoded(plain[: count * n.SIZES[precision]], precision)
