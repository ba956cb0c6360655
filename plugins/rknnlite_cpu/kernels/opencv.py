"""Depthwise convolution by OpenCV's dnn module, several times faster than numpy's; optional.

OpenCV takes layers only as files, so a one-layer ONNX model is written in memory. Sums of integers below 2**24
are exact there as well; this is checked once per geometry before it is relied on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite import config

from .conv import ConvSpec, depthwise2d, pad2d

__all__ = ["depthwise_layer", "module"]

Array = NDArray[Any]
_BLOCK_ELEMENTS = 1 << 19
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
    weight = rng.integers(-255, 256, (9, *kernel)).astype(np.float32)
    x = rng.integers(0, 256, (1, 9, *size)).astype(np.float32)
    try:
        found = _layer(weight, spec, 1)(x)
    except Exception:  # cv2.error, or a message of a version that reads the model differently
        return False
    return bool(np.array_equal(found, depthwise2d(x, weight, spec)))


def _layer(weight: Array, spec: ConvSpec, batch: int) -> Callable[[Array], Array]:
    """The layer, cut into blocks of channels so that OpenCV's copies stay small beside the values."""
    plane = batch * max(spec.in_size[0] * spec.in_size[1], spec.out_size[0] * spec.out_size[1])
    step = max(1, min(len(weight), _BLOCK_ELEMENTS // plane))
    blocks = [slice(start, start + step) for start in range(0, len(weight), step)]
    parts = [_block(weight[block], spec, batch) for block in blocks]
    if len(parts) == 1:
        return parts[0]

    def run(x: Array) -> Array:
        out = np.empty((batch, len(weight), spec.out_size[0] * spec.out_size[1]), np.float32)
        for block, part in zip(blocks, parts):
            out[:, block] = part(x[:, block])
        return out

    return run


def _block(weight: Array, spec: ConvSpec, batch: int) -> Callable[[Array], Array]:
    top, left, bottom, right = padding = spec.padding
    inside = _pads_itself(spec)
    pads = (top, left, top, left) if inside else (0, 0, 0, 0)
    size = spec.in_size if inside else (spec.in_size[0] + top + bottom, spec.in_size[1] + left + right)
    model = np.frombuffer(_onnx_conv(weight, spec, pads, (batch, len(weight), *size)), np.uint8)
    shape = (batch, len(weight), spec.out_size[0] * spec.out_size[1])

    # A net keeps its input and output alive: small ones are kept (one per caller at a time), others made anew.
    keep = batch * len(weight) * size[0] * size[1] + prod(shape) <= _KEPT_ELEMENTS
    idle: list[Any] = []

    def run(x: Array) -> Array:
        try:
            net = idle.pop()
        except IndexError:
            net = module().dnn.readNetFromONNX(model)
        net.setInput(np.ascontiguousarray(x if inside else pad2d(x, padding)))
        result: Array = net.forward().reshape(shape)
        if keep:
            idle.append(net)
        return result

    return run


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


def _onnx_conv(
    weight: Array, spec: ConvSpec, pads: tuple[int, int, int, int], shape: tuple[int, ...]
) -> bytes:
    """ModelProto with one grouped Conv, weight [C, kh, kw] inside; field numbers are those of onnx.proto."""
    channels = len(weight)
    node = _bytes(1, b"x") + _bytes(1, b"w") + _bytes(2, b"y") + _bytes(3, b"conv") + _bytes(4, b"Conv")
    node += _attribute("kernel_shape", spec.kernel) + _attribute("strides", spec.strides)
    node += _attribute("dilations", spec.dilations) + _attribute("pads", pads) + _attribute("group", channels)
    dims = (channels, 1, *spec.kernel)
    tensor = b"".join(_number(1, dim) for dim in dims) + _number(2, _FLOAT) + _bytes(8, b"w")
    tensor += _bytes(9, np.ascontiguousarray(weight, "<f4").tobytes())
    graph = _bytes(1, node) + _bytes(2, b"g") + _bytes(5, tensor)
    graph += _bytes(11, _value_info("x", shape))
    graph += _bytes(12, _value_info("y", (shape[0], channels, *spec.out_size)))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, 13))
