"""Convolution of float32 arrays in NCHW: readable numpy kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buffers import empty
from .parallel import channel_blocks, matmul, parts_of, run_blocks

__all__ = ["ConvSpec", "conv2d", "depthwise2d", "pad2d", "whole_plane", "windows"]

Array = NDArray[Any]
_WINDOW_ELEMENTS = 1 << 19  # 2 MiB of copied windows at a time: in the cache, and few calls


@dataclass(frozen=True)
class ConvSpec:
    """Geometry: sizes as (y, x); ``pads`` are top, left; bottom and right follow from ``out_size``."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    in_size: tuple[int, int]
    out_size: tuple[int, int]

    @cached_property
    def padding(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right); negative numbers crop."""
        (kh, kw), (sy, sx), (dy, dx) = self.kernel, self.strides, self.dilations
        top, left = self.pads
        bottom = (self.out_size[0] - 1) * sy + dy * (kh - 1) + 1 - self.in_size[0] - top
        right = (self.out_size[1] - 1) * sx + dx * (kw - 1) + 1 - self.in_size[1] - left
        return top, left, bottom, right

    @cached_property
    def pointwise(self) -> bool:
        """A 1x1 convolution without stride and padding: a plain matrix product."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and self.padding == (0, 0, 0, 0)


def pad2d(x: Array, padding: tuple[int, int, int, int], value: float = 0.0) -> Array:
    """Pad (positive) or crop (negative) the last two axes: (top, left, bottom, right)."""
    if padding == (0, 0, 0, 0):
        return x
    size, source, target = _placing(x.shape[-2:], padding)
    shape = (*x.shape[:-2], *size)
    out = empty(shape) if x.dtype == np.float32 else np.empty(shape, x.dtype)
    out.fill(value)
    out[target] = x[source]
    return out


@lru_cache(maxsize=1024)
def _placing(
    size: tuple[int, int], padding: tuple[int, int, int, int]
) -> tuple[tuple[int, int], tuple[Any, ...], tuple[Any, ...]]:
    """Size of a padded plane; which part of a plane goes there, and to which part."""
    (h, w), (top, left, bottom, right) = size, padding
    y_end, x_end = max(0, h - max(0, -bottom)), max(0, w - max(0, -right))
    y0, x0 = max(0, -top), max(0, -left)
    source = (..., slice(y0, y_end), slice(x0, x_end))
    top, left = max(0, top), max(0, left)
    target = (..., slice(top, top + max(0, y_end - y0)), slice(left, left + max(0, x_end - x0)))
    return (h + padding[0] + bottom, w + padding[1] + right), source, target


def windows(x: Array, spec: ConvSpec) -> Array:
    """Sliding windows of a padded array, which is contiguous: [N, C, kh, kw, OH, OW], a view that is read only."""
    n, c = x.shape[:2]
    s0, s1, sy, sx = x.strides
    (ty, tx), (dy, dx) = spec.strides, spec.dilations
    strides = (s0, s1, sy * dy, sx * dx, sy * ty, sx * tx)
    # numpy checks against the buffer that no window leaves it; its own as_strided does not, and takes ten times as long
    view: Array = np.ndarray((n, c, *spec.kernel, *spec.out_size), x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view


def conv2d(x: Array, weight: Array, spec: ConvSpec) -> Array:
    """x [N, IC, H, W] and weight [OC, IC * kh * kw] -> [N, OC, OH * OW], float32.

    The windows are copied for some output rows at a time, so that the copy stays in the cache and small.
    """
    n = x.shape[0]
    if spec.pointwise:
        return matmul(weight, x.reshape(n, x.shape[1], -1))
    view = windows(np.ascontiguousarray(pad2d(x, spec.padding)), spec)
    depth, (oh, ow) = weight.shape[1], spec.out_size
    rows = max(1, _WINDOW_ELEMENTS // (depth * ow))
    if rows >= oh and oh * ow <= len(weight):
        columns = empty((n, depth, oh * ow))
        columns.reshape(view.shape)[...] = view
        return matmul(weight, columns)
    out = empty((n, len(weight), oh * ow))

    def work(part: slice) -> None:
        columns = empty((depth, (part.stop - part.start) * ow))
        for item in range(n):
            source = view[item, ..., part, :]
            columns.reshape(source.shape)[...] = source
            np.matmul(weight, columns, out=out[item, :, part.start * ow : part.stop * ow])

    run_blocks(work, parts_of(oh, most=rows), out.size * depth // 16)
    return out


def depthwise2d(x: Array, weight: Array, spec: ConvSpec) -> Array:
    """x [N, C, H, W] and weight [C, kh, kw] -> [N, C, OH * OW], float32.

    Each tap is one multiply-add over whole planes laid flat: the padded plane is cut into stride x stride
    phases, in which a tap is a plain shift. The few positions computed in the padding are dropped at the end.
    Channels go in blocks that fit the cache.
    """
    n, c = x.shape[:2]
    oh, ow = spec.out_size
    out = empty((n, c, oh, ow))

    def work(channels: slice) -> None:
        for item in range(n):
            out[item, channels] = _depthwise_planes(x[item, channels], weight[channels], spec)

    run_blocks(work, channel_blocks(c, 2 * oh * ow), out.size * weight.shape[1] * weight.shape[2])
    return out.reshape(n, c, oh * ow)


def whole_plane(x: Array, weight: Array, spec: ConvSpec) -> Array:
    """Depthwise convolution to a single position (global pooling): one dot product per channel, in float64."""
    (kh, kw), (dy, dx) = spec.kernel, spec.dilations
    patch = pad2d(x, spec.padding)[:, :, : (kh - 1) * dy + 1 : dy, : (kw - 1) * dx + 1 : dx]
    total = np.einsum("nchw,chw->nc", patch, weight, dtype=np.float64)
    return total[:, :, None]


def _depthwise_planes(x: Array, weight: Array, spec: ConvSpec) -> Array:
    """x [C, H, W] -> view of [C, OH, OW]."""
    (ty, tx), (dy, dx), (oh, ow) = spec.strides, spec.dilations, spec.out_size
    padded = pad2d(x, spec.padding)
    rows, columns = -(-padded.shape[1] // ty), -(-padded.shape[2] // tx)
    length = (oh - 1) * columns + ow
    phases: dict[tuple[int, int], Array] = {}
    total = part = None
    for ky in range(weight.shape[1]):
        for kx in range(weight.shape[2]):
            y0, x0 = ky * dy, kx * dx
            key = (y0 % ty, x0 % tx)
            if key not in phases:
                phases[key] = _phase(padded, key, (ty, tx), (rows, columns))
            start = y0 // ty * columns + x0 // tx
            shifted = phases[key][:, start : start + length]
            factor = weight[:, ky, kx, None]
            if total is None or part is None:
                total = empty((len(x), oh * columns))
                part = empty((len(x), length))
                np.multiply(shifted, factor, out=total[:, :length])
            else:
                np.multiply(shifted, factor, out=part)
                total[:, :length] += part
    assert total is not None
    return total.reshape(len(x), oh, columns)[:, :, :ow]


def _phase(padded: Array, key: tuple[int, int], strides: tuple[int, int], size: tuple[int, int]) -> Array:
    """Every stride-th row and column from ``key``, laid flat as [C, rows * columns]."""
    if strides == (1, 1):
        return np.ascontiguousarray(padded).reshape(len(padded), -1)
    part = padded[:, key[0] :: strides[0], key[1] :: strides[1]]
    flat = np.zeros((len(padded), *size), np.float32)
    flat[:, : part.shape[1], : part.shape[2]] = part
    return flat.reshape(len(padded), -1)
