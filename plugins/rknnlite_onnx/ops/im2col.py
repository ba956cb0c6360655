"""A convolution of 8 bits as a matrix product over copied windows (im2col): exact sums in int32, channels last.

QLinearConv has such sums, too, but rounds them at once. Where a further operand or a function comes before the rounding,
this is the fast way to them: float32 convolutions take two to six times as long on layers with many channels.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import ConvParams

from rknnlite.quant import largest_sum

from ..lowered_values import Rep, centred_range, element_zero
from ..registry import LoweredNode
from ..windows import far_padding
from .output_stage import Sums

__all__ = ["fits_int8", "product", "product_pays"]

Array = NDArray[Any]
_LARGEST = 2**31
_MOST_TAPS = 121  # windows of more are rare, and many copies

# Nanoseconds, measured with onnxruntime 1.31 on one core with VNNI; only their ratios matter.
_FLOAT_MAC, _FLOAT_OUT = 0.014, 1.5
_BYTE_MAC, _BYTE_OUT, _COPY = 0.0025, 2.6, 0.25


def product_pays(node: LoweredNode, conv: ConvParams, stored: Array, weight: Array, bias: Array) -> bool:
    """Whether a node can be written so, and is faster for it; ``weight`` are the stored weights less their zero points."""
    x, y = node.view.tensor(0), node.outputs[0]
    if (
        conv.depthwise
        or conv.transposed
        or not (node.values.in_bytes(x.index) and node.values.in_bytes(y.index))
    ):
        return False
    if (
        not fits_int8(conv, stored)
        or prod(stored.shape[2:]) > _MOST_TAPS
        or min(_padding(node, conv)) < 0
        or (bias != np.rint(bias)).any()
    ):
        return False
    if (largest_sum(weight, (1, 2, 3), *centred_range(x)) + np.abs(bias)).max(initial=0) >= _LARGEST:
        return False
    outputs, depth = prod(y.shape), prod(stored.shape[1:])
    windows = prod(y.shape[2:]) * depth if stored.shape[2:] != (1, 1) else 0
    floating = outputs * (depth * _FLOAT_MAC + _FLOAT_OUT)
    return outputs * (depth * _BYTE_MAC + _BYTE_OUT) + windows * _COPY < floating


def fits_int8(conv: ConvParams, stored: Array) -> bool:
    """Whether weights and their zero points are what engines take as signed bytes."""
    assert conv.zero_point is not None
    return all(-128 <= edge <= 127 for each in (stored, conv.zero_point) for edge in (each.min(), each.max()))


def product(node: LoweredNode, conv: ConvParams, stored: Array, bias: Array) -> Sums:
    """Sums with the bias in them, as float32 [N, OH, OW, OC], each rounded once where it passes 2**24."""
    e = node.emitter
    assert conv.zero_point is not None
    matrix = stored.transpose(2, 3, 1, 0).reshape(-1, len(stored))
    zero = e.constant(element_zero(node.view.tensor(0)), np.uint8)
    sums = e.node(
        "MatMulInteger",
        _windows(node, conv, zero),
        e.constant(matrix, np.int8),
        zero,
        e.constant(conv.zero_point, np.int8, shared=False),
    )
    sums = e.node("Add", sums, e.constant(np.rint(bias), np.int32))
    return Sums(e.cast(sums, np.float32), last=True)


def _padding(node: LoweredNode, conv: ConvParams) -> tuple[int, int, int, int]:
    """(top, left, bottom, right); the last two follow from the size of the result."""
    (ih, iw), (oh, ow) = node.view.tensor(0).shape[2:], node.outputs[0].shape[2:]
    (kh, kw), (sy, sx), (dy, dx), (top, left) = conv.weight_shape[2:], conv.strides, conv.dilations, conv.pads
    return (top, left, *far_padding((ih, iw), (oh, ow), (kh, kw), (sy, sx), (dy, dx), (top, left)))


def _windows(node: LoweredNode, conv: ConvParams, zero: str) -> str:
    """[N, OH, OW, kh * kw * IC]: what every sum sees, tap by tap."""
    e, data = node.emitter, node.values.get(node.index(0), Rep.LAST)
    top, left, bottom, right = _padding(node, conv)
    if any((top, left, bottom, right)):
        data = e.node("Pad", data, e.ints([0, top, left, 0, 0, bottom, right, 0]), zero)
    (kh, kw), (oh, ow) = conv.weight_shape[2:], node.outputs[0].shape[2:]
    (sy, sx), (dy, dx) = conv.strides, conv.dilations
    if (kh, kw, sy, sx) == (1, 1, 1, 1):
        return data
    taps = []
    for y in range(0, kh * dy, dy):
        for x in range(0, kw * dx, dx):
            ends = e.ints([y + (oh - 1) * sy + 1, x + (ow - 1) * sx + 1])
            taps.append(e.node("Slice", data, e.ints([y, x]), ends, e.ints([1, 2]), e.ints([sy, sx])))
    return e.node("Concat", *taps, axis=3) if len(taps) > 1 else taps[0]
