"""Depthwise convolution by OpenCV's dnn module, several times faster than numpy's; optional.

OpenCV takes layers only as files, so a one-layer ONNX model is written in memory. Its weights are an input: layers
that differ in nothing else share one, and a large layer is computed in blocks of channels by one that is small. Sums
of integers below 2**24 are exact there as well; this is checked once per geometry before it is relied on.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite import config

from .buffers import maker
from .conv import ConvSpec, depthwise2d, pad2d

__all__ = ["depthwise_layer", "module"]

Array = NDArray[Any]
_LANES = 8  # channels that OpenCV 5 computes together: fewer take as long
_BLOCK_ELEMENTS = 1 << 17  # of input and output, where so many channels are not more
_KEPT_ELEMENTS = 1 << 18  # 1 MiB of values; making a net takes 0.1 to 0.2 ms
_FLOAT, _INTS, _INT = 1, 7, 2  # ONNX: element type float; attribute types ints and int


@functools.cache
def module() -> Any:
    """``cv2``, or None when it is missing or switched off (``RKNNLITE_OPENCV=0``)."""
    if config.get("opencv") == "0":
        return None
    try:
        import cv2
    except ImportError:
        return None
    return cv2 if hasattr(cv2, "dnn") else None


def depthwise_layer(weight: Array, spec: ConvSpec, batch: int) -> Optional[Callable[[Array], Array]]:
    """weight [C, kh, kw] -> function [N, C, H, W] -> [N, C, OH * OW], or None when OpenCV cannot serve."""
    if module() is None or not _trusted(spec.kernel, spec.strides, spec.dilations):
        return None
    return _layer(weight, spec, batch)


@functools.cache
def _trusted(kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]) -> bool:
    """Whether OpenCV's result for this geometry is exact on integers of full range."""
    size = tuple(d * (k - 1) + 1 + 3 * s for k, s, d in zip(kernel, strides, dilations))
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(size, kernel, strides, dilations))
    spec = ConvSpec(kernel, strides, dilations, (0, 0), (size[0], size[1]), (out[0], out[1]))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1, 9, *size)).astype(np.float32)
    weights = [rng.integers(-255, 256, (9, *kernel)).astype(np.float32) for _ in range(2)]
    try:
        layers = [_layer(weight, spec, 1) for weight in weights]  # of one net, which must not keep weights
        found = [layer(x) for layer in layers]
    except Exception:  # cv2.error, or a message of a version that reads the model differently
        return False
    return all(np.array_equal(one, depthwise2d(x, weight, spec)) for one, weight in zip(found, weights))


def _layer(weight: Array, spec: ConvSpec, batch: int) -> Callable[[Array], Array]:
    """The layer, in blocks of channels so that OpenCV's copies of the values stay in the cache."""
    count, plane = len(weight), batch * (prod(spec.in_size) + prod(spec.out_size))
    most = max(1, _BLOCK_ELEMENTS // (plane * _LANES)) * _LANES
    step = min(count, _even(count, most))
    nets = _nets_of(spec, step, batch)
    starts = [min(at, count - step) for at in range(0, count, step)]  # the last block may overlap
    parts = [(slice(at, at + step), np.ascontiguousarray(weight[at : at + step, None])) for at in starts]
    if step == count:
        return partial(nets.run, weight=parts[0][1])
    return partial(nets.run_parts, parts=parts, new=maker((batch, count, prod(spec.out_size))))


def _even(count: int, most: int) -> int:
    """Channels of a block, in whole lanes, when there are as few blocks as can be."""
    blocks = -(-count // most)
    return -(-count // (blocks * _LANES)) * _LANES


class _Nets:
    """Nets of one layer each, alike but for their weights: one for every caller at the same time."""

    def __init__(self, spec: ConvSpec, channels: int, batch: int) -> None:
        top, left, bottom, right = self._padding = spec.padding
        self._inside = _pads_itself(spec)
        (h, w), pads = spec.in_size, (top, left, top, left)
        if not self._inside:
            (h, w), pads = (h + top + bottom, w + left + right), (0, 0, 0, 0)
        self._model = np.frombuffer(_onnx_conv(spec, pads, (batch, channels, h, w)), np.uint8)
        self._shape = (batch, channels, prod(spec.out_size))
        # A net keeps its input and output alive: small ones are kept, others made anew.
        self._keeps = batch * channels * h * w + prod(self._shape) <= _KEPT_ELEMENTS
        self._idle: list[Any] = []

    def run(self, x: Array, weight: Array, net: Any = None) -> Array:
        """x [N, C, H, W] and weight [C, 1, kh, kw] -> [N, C, OH * OW], by a net that nobody uses."""
        used = net or self._take()
        used.setInput(np.ascontiguousarray(x if self._inside else pad2d(x, self._padding)), "x")
        used.setInput(weight, "w")
        result: Array = used.forward().reshape(self._shape)
        if net is None and self._keeps:
            self._idle.append(used)
        return result

    def run_parts(self, x: Array, parts: Sequence[tuple[slice, Array]], new: Callable[[], Array]) -> Array:
        """The same for blocks of channels and their weights, by one net."""
        out, net = new(), self._take()
        for channels, weight in parts:
            out[:, channels] = self.run(x[:, channels], weight, net)
        if self._keeps:
            self._idle.append(net)
        return out

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return module().dnn.readNetFromONNX(self._model)


_nets: weakref.WeakValueDictionary[tuple[ConvSpec, int, int], _Nets] = weakref.WeakValueDictionary()


def _nets_of(spec: ConvSpec, channels: int, batch: int) -> _Nets:
    """What all layers of this geometry share while one of them lives."""
    nets = _nets.get((spec, channels, batch))
    if nets is None:
        nets = _nets[spec, channels, batch] = _Nets(spec, channels, batch)
    return nets


def _pads_itself(spec: ConvSpec) -> bool:
    """Whether the same padding on both sides gives the output size; rows that no window reaches do no harm."""
    sizes = zip(spec.pads, spec.kernel, spec.strides, spec.dilations, spec.in_size, spec.out_size)
    return all(p >= 0 and (n + 2 * p - d * (k - 1) - 1) // s + 1 == out for p, k, s, d, n, out in sizes)


# -- a one-layer ONNX model, in protobuf's wire format -------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, values: tuple[int, ...] | int) -> bytes:
    if isinstance(values, int):
        body = _number(3, values) + _number(20, _INT)
    else:
        body = b"".join(_number(8, value) for value in values) + _number(20, _INTS)
    return _bytes(5, _bytes(1, name.encode()) + body)


def _value_info(name: str, shape: tuple[int, ...]) -> bytes:
    dims = b"".join(_bytes(1, _number(1, dim)) for dim in shape)
    kind = _bytes(1, _number(1, _FLOAT) + _bytes(2, dims))
    return _bytes(1, name.encode()) + _bytes(2, kind)


def _onnx_conv(spec: ConvSpec, pads: tuple[int, int, int, int], shape: tuple[int, ...]) -> bytes:
    """ModelProto with one depthwise Conv of x and w; field numbers are those of onnx.proto."""
    batch, channels = shape[:2]
    node = _bytes(1, b"x") + _bytes(1, b"w") + _bytes(2, b"y") + _bytes(3, b"conv") + _bytes(4, b"Conv")
    node += _attribute("kernel_shape", spec.kernel) + _attribute("strides", spec.strides)
    node += _attribute("dilations", spec.dilations) + _attribute("pads", pads) + _attribute("group", channels)
    graph = _bytes(1, node) + _bytes(2, b"g")
    graph += _bytes(11, _value_info("x", shape)) + _bytes(11, _value_info("w", (channels, 1, *spec.kernel)))
    graph += _bytes(12, _value_info("y", (batch, channels, *spec.out_size)))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, 13))
