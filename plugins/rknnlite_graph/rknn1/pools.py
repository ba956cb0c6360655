"""Pools. Means of integers are sums times a weight of few bits, as in a convolution (measured with the chip maker's simulator)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknnlite.tensor import DType

from ..graph import ConvParams, Stage
from ..reading.fused_ops import fused_op
from .description import NodeEntry
from .graph import GraphBuilder, lowers
from .layers import numbers

__all__: list[str] = []

_LARGEST_WINDOW, _STRIDES = 15, ((1, 1), (2, 2))
"""Rows and columns; means of larger windows, and in other steps, are exact."""
_MOST_DIGITS, _MOST_WEIGHT = 12, 127
_BYTE = 255
"""The weight of uint8, in a step of float32 that is a little too large or too small: it decides halves."""


@lowers("POOL")
def pool(build: GraphBuilder, entry: NodeEntry) -> None:
    """MAX leaves out what lies outside; AVG divides by the full window, padding included."""
    x = build.input(entry)
    n, channels, height, width = build.shape(x)
    kw, kh = numbers(build, entry, "ksize", (1, 1), 1)
    sx, sy = numbers(build, entry, "stride", (1, 1), 1)
    left, right, top, bottom = numbers(build, entry, "pad", (0, 0, 0, 0))
    up = str(entry.attrs.get("round_type", "")).endswith("CEIL")
    rows = _steps(height + top + bottom - kh, sy, up)
    columns = _steps(width + left + right - kw, sx, up)
    kind = str(entry.attrs.get("type", ""))
    source, target = build.tensors[x], build.type_of(entry)
    weighed = max(kw, kh) <= _LARGEST_WINDOW and (sy, sx) in _STRIDES
    if kind.endswith("AVG") and weighed and None not in (source.quant, target.quant):
        sums(build, entry, x, (kh, kw), (sy, sx), (top, left), (rows, columns))
        return
    y = build.output(entry, (n, channels, rows, columns))
    rows, columns = build.shape(y)[2:]
    window = [top, left, (rows - 1) * sy + kh - height - top, (columns - 1) * sx + kw - width - left]
    attrs: dict[str, Any] = {
        "kernel_shape": [kh, kw],
        "strides": [sy, sx],
        "pads": [max(0, p) for p in window],
    }
    if kind.endswith("MAX"):
        build.emit("MaxPool", entry, [x], [y], **attrs)
    elif kind.endswith("AVG"):
        halves = source.dtype is DType.FLOAT16 and [kh, kw, sy, sx, top, left] == [2, 2, 2, 2, 0, 0]
        build.emit("AveragePool", entry, [x], [y], count_include_pad=1, cut_off=int(halves), **attrs)
    else:
        raise build.unsupported(entry, f"pooling of type {kind[:80]!r} is not known")


def _steps(room: int, stride: int, up: bool) -> int:
    return (-(-room // stride) if up else room // stride) + 1


def sums(
    build: GraphBuilder, entry: NodeEntry, x: int, window: tuple[int, int], *geometry: tuple[int, int]
) -> None:
    """A depthwise convolution by one weight; ``geometry``: strides, pads (top, left), size of the result."""
    strides, pads, size = geometry
    source, (n, channels) = build.tensors[x].quant, build.shape(x)[:2]
    last = build.relu_behind(entry)
    y = build.output(last, (n, channels, *size))
    target, count = build.tensors[y].quant, window[0] * window[1]
    assert source is not None
    weight, unit = _weight(count)
    if build.tensors[x].dtype is DType.UINT8:
        weight, unit = 1, _BYTE * float(np.float32(1 / (_BYTE * count)))
    stored = np.full((channels, 1, *window), weight, np.int8)
    params = ConvParams(
        lambda: stored,
        (channels, 1, *window),
        quantised=True,
        depthwise=True,
        transposed=False,
        strides=strides,
        dilations=(1, 1),
        pads=pads,
        bias=np.full(channels, -source.zero_point * weight * count, np.int64),
        zero_point=np.zeros(channels, np.float32),
        multiplier=np.full(
            channels, unit * source.scale / (1.0 if target is None else target.scale), np.float64
        ),
    )
    op = "Conv" if last is entry else "ConvRelu"
    node = build.emit(op, entry, [x], [y])
    node.conv, node.stage, node.fused = params, Stage(precise=True), fused_op(op)


def _weight(count: int) -> tuple[int, float]:
    """1 / count in at most 7 bits and at most 12 places behind the point: the whole number, and what one of it is."""
    digits = next(n for n in range(_MOST_DIGITS, -1, -1) if n == 0 or round(2**n / count) <= _MOST_WEIGHT)
    return min(round(2**digits / count), _MOST_WEIGHT), 2.0**-digits
