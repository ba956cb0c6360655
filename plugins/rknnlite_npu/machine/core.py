"""The unit that multiplies and adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import numbers as n
from .cna import Fetched
from .registers import Field, UnitRegisters
from .surfaces import check_size

__all__ = ["Sums", "accumulate"]

PROC_PRECISION = Field("PROC_PRECISION", 0x3010, 10, 8)
DEPTHWISE = Field("DW_EN", 0x3010, 1, 1)
OUT_HEIGHT = Field("DATAOUT_HEIGHT", 0x3014, 31, 16)
OUT_WIDTH = Field("DATAOUT_WIDTH", 0x3014, 15, 0)
OUT_CHANNEL = Field("DATAOUT_CHANNEL", 0x3018, 15, 0)
TRUNCATE_ROUND = Field("ROUND_TYPE", 0x301C, 6, 6)
TRUNCATE = Field("CLIP_TRUNCATE", 0x301C, 4, 0)
TRUNCATE_WINDOWS = Field("QD_TRUNCATE", 0x3024, 9, 5)
"""Of designs that have it: the shift of the features' sums, which is that of the products; of pictures it may be one more."""

WITHOUT_EFFECT: Mapping[int, int] = {
    0x3004: 0xFFFFFFFF,  # S_POINTER
    0x3010: 0x00000001,  # QD_EN: sums of features for zero points of weights, which the output stage asks for itself
}
_PATCH = 1 << 21  # elements of patches that are laid out at a time
_MOST_MACS = 1 << 33
_GROUP = 32  # products that are added exactly before they are rounded to fp32


@dataclass(frozen=True)
class Sums:
    """Accumulators.

    Attributes:
        values: (H, W, OC); float64 that hold integers, or float32.
        windows: (H, W, 1), of a depthwise convolution (H, W, OC): sums of the features alone, of integers.
        zero: what is added to every weight, where not each has a number of its own.
        pooled: they are the largest numbers of windows.
    """

    values: n.Values
    windows: Optional[n.Values]
    macs: int
    zero: int = 0
    pooled: bool = False


def accumulate(r: UnitRegisters, fetched: Fetched) -> Sums:
    """All sums of a convolution; channels that weights do not reach are 0.

    Integers are exact. Floats are as measured on RK3588: of 32 products that follow each other the sum is exact, rounded once to
    fp32, and sums are added in their order in fp32.
    """
    r.need(PROC_PRECISION, fetched.precision, why="differs from the precision of the CNA")
    weights = fetched.weights
    r.need(DEPTHWISE, int(weights.depthwise), why="differs from the mode of the CNA")
    r.need(TRUNCATE_ROUND, 0)
    height, width = (r[OUT_HEIGHT] + 1, r[OUT_WIDTH] + 1) if r.design.core else fetched.out
    _ = r[OUT_CHANNEL]
    check_size(r.unit, r.task, height, width, weights.channels)
    macs = height * width * weights.values.size
    if macs > _MOST_MACS:
        r.refuse(OUT_HEIGHT, f"{macs} products in one task; those of files have far fewer")
    padded = _padded(r, fetched, height, width)
    values, windows = (_depthwise if weights.depthwise else _dense)(fetched, padded, height, width)
    shift = r[TRUNCATE]
    if shift:
        values = n.shifted(values, shift)
    if r.has(TRUNCATE_WINDOWS):
        r.need(TRUNCATE_WINDOWS, shift, shift + 1, why="differs from CLIP_TRUNCATE")
        windows = windows if windows is None or not shift else n.shifted(windows, shift)
    r.finish(WITHOUT_EFFECT)
    return Sums(values, windows, macs, 0 if weights.depthwise else fetched.added)


def _padded(r: UnitRegisters, fetched: Fetched, height: int, width: int) -> n.Values:
    """The features with as many pad values around as the windows reach."""
    reach = [
        (size - 1) * step + spread * (taps - 1) + 1
        for size, step, spread, taps in zip(
            (height, width), fetched.stride, fetched.dilation, fetched.weights.kernel
        )
    ]
    features, (top, left) = fetched.features, fetched.before
    extent = features.shape[0] + top, features.shape[1] + left
    if (top, left) == (0, 0) and all(a >= b for a, b in zip(extent, reach)):
        return np.ascontiguousarray(features)
    shape = (max(extent[0], reach[0]), max(extent[1], reach[1]), features.shape[2])
    check_size(r.unit, r.task, *shape)
    out = np.full(shape, fetched.pad, features.dtype)
    out[top : extent[0], left : extent[1]] = features
    return out


def _windows(fetched: Fetched, padded: n.Values, height: int, width: int, taps: tuple[int, int]) -> n.Values:
    """A view (H, W, kh, kw, C) of what each position of the output sees."""
    rows, columns, lanes = padded.strides
    (dy, dx), (sy, sx) = fetched.dilation, fetched.stride
    shape = (height, width, *taps, padded.shape[2])
    return as_strided(
        padded, shape, (rows * sy, columns * sx, rows * dy, columns * dx, lanes), writeable=False
    )


def _bands(height: int, row: int) -> Iterator[slice]:
    """Rows of the output whose patches are laid out together."""
    step = max(1, _PATCH // max(1, row))
    for first in range(0, height, step):
        yield slice(first, min(height, first + step))


def _dense(
    fetched: Fetched, padded: n.Values, height: int, width: int
) -> tuple[n.Values, Optional[n.Values]]:
    weights, channels = fetched.weights, padded.shape[2]
    view = _windows(fetched, padded, height, width, weights.kernel)
    if n.is_float(fetched.precision):
        return _float_sums(view, weights.blocks), None
    matrix, parts = weights.matrix(channels)
    products, kernels = len(matrix), weights.channels
    values = np.empty((height, width, kernels), np.float64)
    windows = np.empty((height, width, 1), np.float64)
    for band in _bands(height, width * products):
        patches = view[band].reshape(-1, products)
        total = np.matmul(patches[:, parts[0]], matrix[parts[0]])
        for part in parts[1:]:  # each is exact in float32, their sum in float64
            total = total + np.matmul(patches[:, part], matrix[part]).astype(np.float64)
        total = total.reshape(-1, width, kernels + 1)
        values[band], windows[band] = total[..., :kernels], total[..., kernels:]
    return values, windows


def _float_sums(view: n.Values, blocks: n.Values) -> n.Values:
    """Products in the order of blocks of input channels, rows and columns of the kernel."""
    height, width, taps_y, taps_x, channels = view.shape
    values = np.zeros((height, width, blocks.shape[-1]), np.float32)
    for band in _bands(height, width * channels):
        total = values[band]
        for first in range(0, channels, _GROUP):
            lanes = slice(first, min(channels, first + _GROUP))
            for y in range(taps_y):
                for x in range(taps_x):
                    patch = view[band, :, y, x, lanes].astype(np.float64)
                    with np.errstate(over="ignore", invalid="ignore"):
                        total += np.matmul(patch, blocks[lanes, y, x]).astype(np.float32)
    return values


def _depthwise(
    fetched: Fetched, padded: n.Values, height: int, width: int
) -> tuple[n.Values, Optional[n.Values]]:
    taps_y, taps_x = fetched.weights.kernel
    channels = padded.shape[2]
    weights = fetched.weights.values[..., :channels]
    view = _windows(fetched, padded, height, width, (taps_y, taps_x))
    exact = np.float32 if n.is_float(fetched.precision) else np.float64
    values = np.zeros((height, width, channels), exact)
    windows = np.zeros((height, width, channels), exact)
    with np.errstate(over="ignore", invalid="ignore"):
        for y in range(taps_y):
            for x in range(taps_x):
                patch = view[:, :, y, x]
                values += patch * weights[y, x]
                windows += patch
    no_windows = n.is_float(fetched.precision) or fetched.weights.zeros_added
    return values, None if no_windows else windows
