"""Convolution of float32 arrays in NCHW: readable numpy kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buffers import empty, maker
from .parallel import PER_ELEMENT, SMALL_PRODUCT, channel_blocks, product, run_blocks, run_parts

__all__ = [
    "ConvSpec",
    "Convolve",
    "conv2d",
    "convolution",
    "depthwise2d",
    "pad2d",
    "whole_plane",
    "windows",
]

Array = NDArray[Any]
Convolve = Callable[[Array], Array]
"""[N, IC, H, W] -> [N, OC, OH * OW], an array of its own."""
_WINDOW_ELEMENTS = 1 << 17  # 512 KiB of copied windows at a time: in the cache, and few calls
_FLOAT_WINDOW_ELEMENTS = 1 << 19
"""How a BLAS adds floats may depend on the size of the product: parts stay as they are."""


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
    """Sliding windows of a padded array: [N, C, kh, kw, OH, OW], a view that is read only."""
    x = np.ascontiguousarray(x)
    n, c = x.shape[:2]
    s0, s1, sy, sx = x.strides
    (ty, tx), (dy, dx) = spec.strides, spec.dilations
    strides = (s0, s1, sy * dy, sx * dx, sy * ty, sx * tx)
    # numpy checks against the buffer that no window leaves it; its own as_strided does not, and takes ten times as long
    view: Array = np.ndarray((n, c, *spec.kernel, *spec.out_size), x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view


def _sliding(spec: ConvSpec, batch: int, channels: int) -> Callable[[Array], Array]:
    """Prepare ``windows(pad2d(x, spec.padding), spec)`` for float32 arrays of one shape."""
    (height, width), source, target = _placing(spec.in_size, spec.padding)
    new = maker((batch, channels, height, width))
    (ty, tx), (dy, dx), row, plane = spec.strides, spec.dilations, 4 * width, 4 * width * height
    strides = (channels * plane, plane, row * dy, 4 * dx, row * ty, 4 * tx)
    shape = (batch, channels, *spec.kernel, *spec.out_size)
    given, padded = (batch, channels, *spec.in_size), spec.padding != (0, 0, 0, 0)

    def run(x: Array) -> Array:
        if x.shape != given:  # assignment would repeat what is missing
            raise ValueError(f"values {list(x.shape)} for weights that take {list(given)}")
        if padded:
            out = new()
            out.fill(0)
            out[target] = x[source]
        else:
            out = np.ascontiguousarray(x, np.float32)
        view: Array = np.ndarray(shape, np.float32, out, 0, strides)  # checked, see above
        return view

    return run


def conv2d(x: Array, weight: Array, spec: ConvSpec) -> Array:
    """x [N, IC, H, W] and weight [OC, IC * kh * kw] -> [N, OC, OH * OW], float32."""
    return convolution(weight, spec, len(x))(x)


def convolution(weight: Array, spec: ConvSpec, batch: int, exact: bool = False) -> Convolve:
    """Prepare a convolution of float32 [N, IC, H, W] with weight [OC, IC * kh * kw].

    The windows are copied for some output rows at a time, so that the copy stays in the cache and small.

    Args:
        exact: sums are those of integers below 2**24, the same in any order.
    """
    (count, depth), (oh, ow) = weight.shape, spec.out_size
    flat = (batch, depth, oh * ow)
    if spec.pointwise:
        return product(weight, flat)
    channels = depth // prod(spec.kernel)
    view = _sliding(spec, batch, channels)
    rows = max(1, (_WINDOW_ELEMENTS if exact else _FLOAT_WINDOW_ELEMENTS) // (depth * ow))
    operations = batch * count * oh * ow * depth
    if rows >= oh and (oh * ow <= count or operations < SMALL_PRODUCT):
        multiply, new = product(weight, flat), maker((batch, channels, *spec.kernel, oh, ow))

        def at_once(x: Array) -> Array:
            columns = new()
            columns[...] = view(x)
            return multiply(columns)

        return at_once
    result = maker((batch, count, oh * ow))

    def work(source: Array, out: Array, parts: Sequence[slice]) -> None:
        memory = empty((depth * ow * (parts[0].stop - parts[0].start),))  # the first is the longest
        for part in parts:
            places = slice(part.start * ow, part.stop * ow)
            columns = memory[: depth * (places.stop - places.start)].reshape(depth, -1)
            for item in range(batch):
                some = source[item, ..., part, :]
                columns.reshape(some.shape)[...] = some
                np.matmul(weight, columns, out=out[item, :, places])

    def in_parts(x: Array) -> Array:
        out = result()
        run_parts(partial(work, view(x), out), oh, rows, operations // PER_ELEMENT)
        return out

    return in_parts


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
