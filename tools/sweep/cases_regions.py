"""Operators on regions, unpooling, and quantisation written into the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from graph import Case, Net
from judge import Judge

__all__ = ["cases"]

_MAP = (1, 5, 11, 15)
_BOXES = [[2.0, 3.0, 17.0, 21.0], [0.0, 0.0, 29.0, 21.0], [5.3, 1.7, 9.2, 18.6], [11.0, 12.0, 12.0, 13.0],
          [-4.0, -3.0, 8.0, 9.0], [20.0, 10.0, 35.0, 30.0]]  # fmt: skip
"""Corners x, y, x, y in a picture of twice the size of the map: inside, whole, odd, tiny, over two edges."""


def _roi_align(live: bool = False, **attributes: Any) -> Callable[[Net], str]:
    """``live``: the boxes are an input, too."""

    def build(n: Net) -> str:
        x = n.x(*_MAP)
        rois = n.x(6, 4, low=1.0, high=20.0) if live else n.const(_BOXES)
        attributes.setdefault("spatial_scale", 0.5)
        return n.op("RoiAlign", x, rois, n.const([0] * 6, "int64"), **attributes)

    return build


def _max_roi(scale: float, *pooled: int) -> Callable[[Net], str]:
    rois = np.concatenate([np.zeros((6, 1)), np.clip(_BOXES, 0, 28)], 1)
    return lambda n: n.op("MaxRoiPool", n.x(*_MAP), n.const(rois), pooled_shape=pooled, spatial_scale=scale)


def _unpool(
    kernel: tuple[int, int], strides: tuple[int, int], size: tuple[int, int], given: bool = False
) -> Callable[[Net], str]:
    """SegNet's pair: the places of the maxima go from the pooling to the unpooling."""

    def build(n: Net) -> str:
        x = n.x(1, 5, *size)
        small, places = n.ops("MaxPool", 2, x, kernel_shape=kernel, strides=strides)
        operands = (small, places, n.ints(1, 5, *size)) if given else (small, places)
        return n.op("MaxUnpool", *operands, kernel_shape=kernel, strides=strides)

    return build


def _unpool_segnet(n: Net) -> str:
    x = n.op("Relu", n.conv(n.x(1, 3, 12, 16), 3, 10))
    small, places = n.ops("MaxPool", 2, x, kernel_shape=[2, 2], strides=[2, 2])
    y = n.op("Relu", n.conv(small, 10, 10))
    y = n.op("MaxUnpool", y, places, kernel_shape=[2, 2], strides=[2, 2])
    return n.conv(y, 10, 7)


def _there_and_back(scale: float, zero: int, dtype: str) -> Callable[[Net], str]:
    """QuantizeLinear and DequantizeLinear of one tensor."""

    def build(n: Net) -> str:
        steps = (n.const(scale), n.const(zero, dtype))
        return n.op("DequantizeLinear", n.op("QuantizeLinear", n.x(1, 10, 9, 7), *steps), *steps)

    return build


def _there_and_back_channels(n: Net) -> str:
    steps = (n.const(n.rng.uniform(0.01, 0.05, 10)), n.const([0] * 10, "int8"))
    return n.op("DequantizeLinear", n.op("QuantizeLinear", n.x(1, 10, 9, 7), *steps, axis=1), *steps, axis=1)


def _quantize(dtype: str) -> Callable[[Net], str]:
    return lambda n: n.op("QuantizeLinear", n.x(1, 10, 9, 7), n.const(0.03), n.const(3, dtype))


def _dequantize(dtype: str) -> Callable[[Net], str]:
    """Of a stored picture."""

    def build(n: Net) -> str:
        low, high = (0, 255) if dtype == "uint8" else (-127, 127)
        stored = n.const(n.rng.integers(low, high, (1, 10, 9, 7)), dtype)
        return n.op(
            "Add", n.x(1, 10, 9, 7), n.op("DequantizeLinear", stored, n.const(0.02), n.const(5, dtype))
        )

    return build


def _qdq(n: Net, x: str, scale: float, zero: int = 0) -> str:
    steps = (n.const(scale), n.const(zero, "int8"))
    return n.op("DequantizeLinear", n.op("QuantizeLinear", x, *steps), *steps)


def _qdq_network(per_channel: bool) -> Callable[[Net], str]:
    """A network quantised by another tool: every tensor between QuantizeLinear and DequantizeLinear."""

    def build(n: Net) -> str:
        x = _qdq(n, n.x(1, 3, 12, 10), 3.5 / 127)
        for inputs, outputs in ((3, 12), (12, 10)):
            weight = n.rng.standard_normal((outputs, inputs, 3, 3)) / np.sqrt(9 * inputs)
            peak = np.abs(weight).max(axis=(1, 2, 3)) if per_channel else np.abs(weight).max()
            step = np.broadcast_to(peak / 127, outputs) if per_channel else peak / 127
            stored = np.rint(weight / np.reshape(step, (-1, 1, 1, 1))).astype(np.int8)
            zeros = n.const(np.zeros(np.shape(step)), "int8")
            kernel = n.op("DequantizeLinear", n.const(stored, "int8"), n.const(step), zeros, axis=0)
            y = n.op("Conv", x, kernel, n.weight(outputs), pads=[1] * 4)
            x = _qdq(n, n.op("Relu", y), 3.0 / 255, -128)
        return x

    return build


def cases() -> Iterator[Case]:
    """All cases of this family."""
    size = {"output_height": 5, "output_width": 3}
    yield Case("roi_align", _roi_align(**size, sampling_ratio=2))
    yield Case("roi_align_adaptive", _roi_align(**size, sampling_ratio=0))
    yield Case("roi_align_max", _roi_align(**size, sampling_ratio=2, mode="max"))
    yield Case(
        "roi_align_ratio3", _roi_align(output_height=4, output_width=6, sampling_ratio=3, spatial_scale=0.4)
    )
    for way in ("half_pixel", "output_half_pixel"):
        yield Case(
            f"roi_align_{way}", _roi_align(**size, sampling_ratio=2, coordinate_transformation_mode=way), 16
        )
    yield Case("roi_align_live", _roi_align(live=True, **size, sampling_ratio=2))
    yield Case("roi_align_default", _roi_align(live=True))
    yield Case("max_roi_pool", _max_roi(0.5, 5, 3))
    yield Case("max_roi_pool_whole", _max_roi(0.37, 2, 4))
    yield Case("unpool_2", _unpool((2, 2), (2, 2), (8, 12)))
    yield Case("unpool_2x3", _unpool((2, 3), (2, 3), (8, 12)))
    yield Case("unpool_overlap", _unpool((3, 3), (2, 2), (9, 13)))
    yield Case("unpool_shape", _unpool((2, 2), (2, 2), (9, 13), given=True))
    yield Case("unpool_segnet", _unpool_segnet, 13, Judge.FUSED)
    yield Case("qdq_int8", _there_and_back(0.02, 3, "int8"))
    yield Case("qdq_uint8", _there_and_back(0.02, 117, "uint8"))
    yield Case("qdq_channels", _there_and_back_channels)
    for dtype in ("int8", "uint8"):
        yield Case(f"quantize_{dtype}", _quantize(dtype))
        yield Case(f"dequantize_{dtype}", _dequantize(dtype))
    yield Case("qdq_network", _qdq_network(False), 13, Judge.FUSED)
    yield Case("qdq_network_channels", _qdq_network(True), 13, Judge.FUSED)
