"""Pure layout conversions between NCHW, NHWC and the NPU's NC1HWC2 (RKNN user guide, section 5.1).


In NC1HWC2 the channels are cut into C1 groups of C2 lanes; lanes past the last channel are padding.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .errors import ParamInvalid

__all__ = [
    "copy_pixels",
    "nc1hwc2_to_nchw",
    "nchw_to_nc1hwc2",
    "nchw_to_nhwc",
    "nchw_to_nhwc_shape",
    "nhwc_to_nchw",
    "nhwc_to_nchw_shape",
    "opencv_merge",
]

Array = NDArray[Any]
Shape = tuple[int, ...]
_FEW = 16  # channels; with more of them numpy's inner loop is long enough
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.float64}
"""Bytes of an element -> a type that OpenCV moves; bits are moved, never computed with."""


def nchw_to_nhwc_shape(shape: Shape) -> Shape:
    """(N, C, H, W) -> (N, H, W, C); shapes of other ranks have no such order and stay as they are."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else shape


def nhwc_to_nchw_shape(shape: Shape) -> Shape:
    """(N, H, W, C) -> (N, C, H, W); shapes of other ranks stay as they are."""
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


def _need_rank(array: Array, rank: int, layout: str) -> None:
    if array.ndim != rank:
        raise ParamInvalid(f"{layout} data needs rank {rank}, got shape {array.shape}")


def nchw_to_nhwc(array: Array) -> Array:
    """(N, C, H, W) -> (N, H, W, C); a view, not a copy."""
    _need_rank(array, 4, "NCHW")
    view: Array = array.transpose(0, 2, 3, 1)
    return view


def nhwc_to_nchw(array: Array) -> Array:
    """(N, H, W, C) -> (N, C, H, W); a view, not a copy."""
    _need_rank(array, 4, "NHWC")
    view: Array = array.transpose(0, 3, 1, 2)
    return view


def nchw_to_nc1hwc2(array: Array, c2: int, fill: int = 0) -> Array:
    """(N, C, H, W) -> (N, ceil(C / c2), H, W, c2), padding lanes set to ``fill``; always a copy."""
    _need_rank(array, 4, "NCHW")
    if c2 < 1:
        raise ParamInvalid(f"C2 must be at least 1, got {c2}")
    n, c, h, w = array.shape
    c1 = -(-c // c2)
    padded = np.full((n, c1 * c2, h, w), fill, array.dtype)
    padded[:, :c] = array
    return np.ascontiguousarray(padded.reshape(n, c1, c2, h, w).transpose(0, 1, 3, 4, 2))


def nc1hwc2_to_nchw(array: Array, channels: int, size: Optional[tuple[int, int]] = None) -> Array:
    """(N, C1, H, W, C2) -> (N, channels, H, W), padding lanes dropped; always a copy.

    Args:
        size: (height, width) of the tensor. Where they do not make up a multiple of 4, the NPU pads the positions of
            a group, and the runtime reports (N, C1, 1, positions, C2): rows follow each other without gaps, and the
            last positions are padding. Without it such an array stays one row of all positions.
    """
    _need_rank(array, 5, "NC1HWC2")
    n, c1, h, w, c2 = array.shape
    if not 0 < channels <= c1 * c2:
        raise ParamInvalid(f"{channels} channels do not fit C1={c1} groups of C2={c2} lanes")
    flat = array.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c2, h, w)[:, :channels]
    if size is None or size == (h, w):
        return np.ascontiguousarray(flat)
    rows, columns = size
    if h == 1 and min(size) > 0 and rows * columns <= w:
        return np.ascontiguousarray(flat[:, :, 0, : rows * columns].reshape(n, channels, rows, columns))
    if 0 < rows <= h and 0 < columns <= w:
        return np.ascontiguousarray(flat[:, :, :rows, :columns])
    raise ParamInvalid(
        f"{rows} x {columns} positions do not fit the {h} x {w} of NC1HWC2 {list(array.shape)}"
    )


@functools.cache
def opencv_merge() -> Any:
    """OpenCV's interleaving of planes (imported when it is first asked for); None where it is not installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2.merge


def copy_pixels(source: Array, out: Array) -> None:
    """Copy (N, H, W, C) into ``out``, which is contiguous, converting the element type where it is another.

    For a view on NCHW data numpy's copy walks from pixel to pixel, an inner loop of C elements. Channel by channel
    takes a seventh of the instructions, OpenCV's interleaving a seventieth; nothing in numpy takes fewer than the former
    (``benchmarks/rknnrt_overhead.py`` has what was tried).
    """
    planes = source.transpose(0, 3, 1, 2)
    channels = planes.shape[1]
    if not 1 < channels <= _FEW or source.strides[3] <= source.strides[2]:
        np.copyto(out, source, casting="unsafe")
        return
    word = _WORDS.get(out.itemsize)
    if source.dtype == out.dtype and planes.flags.c_contiguous and word is not None:
        merge = opencv_merge()
        if merge is not None:
            for image, target in zip(planes.view(word), out.view(word)):
                merge(list(image), target)
            return
    for channel in range(channels):
        np.copyto(out[..., channel], source[..., channel], casting="unsafe")
