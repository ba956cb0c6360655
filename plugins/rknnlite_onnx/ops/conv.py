"""Convolutions: what fills the accumulator. ``output_stage`` writes what follows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import ConvParams, FusedOp
from rknnlite_graph.lowering import Form
from rknnlite_graph.operators import convolution_types

from rknnlite.quant import largest_sum, split_for_exactness
from rknnlite.tensor import DType

from ..lowered_values import Rep, centred_range, element_zero
from ..qdq import stored_weights
from ..registry import LoweredNode, lowers
from ..windows import far_padding
from .im2col import fits_int8, product, product_pays
from .output_stage import Sums, in_elements, integer_limits, write_stage

__all__ = ["Geometry"]

Array = NDArray[Any]
_EXACT = 1 << 24
_BYTE = 256
_MOST_PARTS = 32
"""Of a sum that is put together in double."""


@dataclass(frozen=True)
class Geometry:
    """Attributes of an ONNX convolution, and what has to be cut off its input first (negative padding)."""

    attrs: dict[str, Any]
    crop: tuple[int, int, int, int]
    """(top, left, bottom, right), not negative; what is too little for one more window needs none."""
    weight: Array

    @classmethod
    def of(cls, node: LoweredNode, conv: ConvParams, weight: Array) -> Geometry:
        """Transposed convolutions are written as such; the file has their kernels flipped, as forward ones."""
        (ih, iw), (oh, ow) = node.view.tensor(0).shape[2:], node.outputs[0].shape[2:]
        (kh, kw), (sy, sx), (dy, dx), (top, left) = weight.shape[2:], conv.strides, conv.dilations, conv.pads
        group = weight.shape[0] if conv.depthwise else 1
        attrs: dict[str, Any] = {
            "strides": [sy, sx],
            "dilations": [dy, dx],
            "kernel_shape": [kh, kw],
            "group": group,
        }
        if conv.transposed:
            bottom, right = far_padding((oh, ow), (ih, iw), (kh, kw), (sy, sx), (dy, dx), (top, left))
            more = [max(0, -bottom), max(0, -right)]
            attrs.update(pads=[top, left, bottom + more[0], right + more[1]], output_padding=more)
            flipped = weight[:, :, ::-1, ::-1]
            return cls(
                attrs,
                (0, 0, 0, 0),
                np.ascontiguousarray(flipped if conv.depthwise else flipped.swapaxes(0, 1)),
            )
        bottom, right = far_padding((ih, iw), (oh, ow), (kh, kw), (sy, sx), (dy, dx), (top, left))
        pads = [top, left, bottom, right]
        attrs["pads"] = [max(0, p) for p in pads]
        below, beside = (0 if -pad < stride else -pad for pad, stride in ((bottom, sy), (right, sx)))
        return cls(attrs, (max(0, -top), max(0, -left), below, beside), weight)


@lowers(*convolution_types())
def convolution(node: LoweredNode) -> None:
    """Accumulator, bias and output stage of one node."""
    conv, stage, fused = node.view.node.conv, node.view.node.stage, node.view.node.fused
    if conv is None or stage is None or fused is None:
        raise node.refuse("it has no decoded parameters")
    x = node.view.tensor(0)
    if len(x.shape) != 4 or (conv.transposed and min(conv.pads) < 0):
        raise node.refuse(f"a convolution of {list(x.shape)} with padding {list(conv.pads)}")
    if conv.computed:
        write_stage(node, fused, conv, stage, Sums(_computed_sum(node, conv)))
        return
    if not conv.quantised:
        write_stage(node, fused, conv, stage, Sums(_float_sum(node, conv)))
        return
    if x.quant is None or conv.zero_point is None or conv.multiplier is None:
        raise node.refuse("quantised weights on an input that is not quantised")
    stored = conv.weight().astype(np.float32)
    weight = stored - conv.zero_point.reshape(-1, 1, 1, 1)
    bias = np.zeros(len(weight)) if conv.bias is None else conv.bias.astype(np.float64)
    bias = bias + x.quant.zero_point * weight.sum(axis=(1, 2, 3), dtype=np.float64)
    if in_elements(node, fused) and _in_bytes(node, conv, fused, stored, bias):
        return
    if product_pays(node, conv, stored, weight, bias):
        sums = product(node, conv, stored, bias)
    else:
        sums = Sums((_wide_sum if x.dtype is DType.INT16 else _sum)(node, conv, weight, bias))
    write_stage(node, fused, conv, stage, sums)


def _cropped(node: LoweredNode, name: str, geometry: Geometry) -> str:
    """Rows and columns cut off that the convolution does not see."""
    if not any(geometry.crop):
        return name
    (h, w), (top, left, bottom, right) = node.view.tensor(0).shape[2:], geometry.crop
    return node.emit("Slice", name, node.ints(top, left), node.ints(h - bottom, w - right), node.ints(2, 3))


def _kind(conv: ConvParams) -> str:
    return "ConvTranspose" if conv.transposed else "Conv"


def _conv(node: LoweredNode, conv: ConvParams, data: str, weight: Array, bias: Optional[Array]) -> str:
    geometry = Geometry.of(node, conv, weight)
    names = [_cropped(node, data, geometry), node.const(geometry.weight)]
    if bias is not None and bias.any():
        names.append(node.const(bias))
    return node.emit(_kind(conv), *names, **geometry.attrs)


def _float_sum(node: LoweredNode, conv: ConvParams) -> str:
    weight = conv.weight().astype(np.float32)
    if node.form is Form.QDQ and (stored := _stored_weights(node, conv)):
        geometry = Geometry.of(node, conv, weight)
        names = [_cropped(node, node.real(0), geometry), stored]
        if conv.bias is not None and conv.bias.any():
            names.append(node.const(conv.bias))
        return node.emit(_kind(conv), *names, **geometry.attrs)
    return _conv(node, conv, node.real(0), weight, conv.bias)


def _computed_sum(node: LoweredNode, conv: ConvParams) -> str:
    """The second operand as weights; integers are added in as many parts as float32 takes to hold every sum."""
    x, w = node.view.tensor(0), node.view.tensor(1)
    bias = np.zeros(conv.weight_shape[0]) if conv.bias is None else conv.bias.astype(np.float64)
    if not conv.quantised:
        return _convolved(node, conv, (node.real(0), node.real(1)), bias)
    if x.quant is None or w.quant is None or x.dtype is DType.INT16:
        raise node.refuse("computed weights of 16 bits")
    taps, channels = prod(w.shape[2:]), 1 if conv.depthwise else conv.weight_shape[1]
    largest = taps * prod(max(abs(limit) for limit in centred_range(tensor)) for tensor in (x, w))
    most = min(channels, int((_EXACT - 1 - np.abs(bias).max(initial=0)) // largest))
    if most < 1 or -(-channels // most) > _MOST_PARTS:
        raise node.refuse(f"sums of {channels * largest:.0f} of computed weights")
    data, weight = node.centred(0), node.centred(1)
    if most == channels:
        return _convolved(node, conv, (data, weight), bias)
    sums = []
    for start in range(0, channels, most):
        ends = node.ints(start), node.ints(min(start + most, channels))
        axes = node.ints(1), node.ints(0 if conv.transposed else 1)
        cut = (node.emit("Slice", data, *ends, axes[0]), node.emit("Slice", weight, *ends, axes[1]))
        sums.append(_convolved(node, conv, cut, np.zeros(1)))
    return _added(node, sums, bias)


def _convolved(node: LoweredNode, conv: ConvParams, names: tuple[str, str], bias: Array) -> str:
    """A convolution of values with values; transposed ones are written as such, with weights as they are."""
    weights = node.view.tensor(1).shape
    like = np.broadcast_to(
        np.float32(0),
        weights if not conv.transposed or conv.depthwise else (weights[1], weights[0], *weights[2:]),
    )
    geometry = Geometry.of(node, conv, like)
    operands = [_cropped(node, names[0], geometry), names[1]]
    if bias.any():
        operands.append(node.const(bias))
    return node.emit(_kind(conv), *operands, **geometry.attrs)


def _stored_weights(node: LoweredNode, conv: ConvParams) -> Optional[str]:
    """The file's own 8 bits."""
    graph = node.values.stored
    origin = next(each for each in graph.nodes if each.index == node.view.node.index)
    axis = 1 if conv.transposed and not conv.depthwise else 0
    return stored_weights(
        node.emitter, origin, graph, lambda whole: Geometry.of(node, conv, whole).weight, axis
    )


def _sum(node: LoweredNode, conv: ConvParams, weight: Array, bias: Array) -> str:
    """Exact sums in float32. Input channels are cut so that every partial sum is exact."""
    low, high = centred_range(node.view.tensor(0))
    limit = float((largest_sum(weight, (1, 2, 3), low, high) + np.abs(bias)).max(initial=0))
    data = node.centred(0)
    if limit < _EXACT:
        return _conv(node, conv, data, weight, bias)
    if conv.depthwise:
        raise node.refuse(f"sums of {limit:.0f} in a depthwise convolution")
    parts = split_for_exactness(weight, low, high)
    sums = []
    for part in parts:
        cut = node.emit("Slice", data, node.ints(part.start), node.ints(part.stop), node.ints(1))
        sums.append(_conv(node, conv, cut if len(parts) > 1 else data, weight[:, part], None))
    return _added(node, sums, bias)


def _added(node: LoweredNode, sums: list[str], bias: Array) -> str:
    """Sums and bias added in double, rounded to float32 once."""
    e = node.emitter
    total = e.cast(sums[0], np.float64)
    for each in sums[1:]:
        total = e.node("Add", total, e.cast(each, np.float64))
    if bias.any():
        total = e.node("Add", total, e.constant(bias.reshape(1, -1, 1, 1), np.float64))
    return e.cast(total, np.float32)


def _wide_sum(node: LoweredNode, conv: ConvParams, weight: Array, bias: Array) -> str:
    """int16 data as 256 * high + low, each of which has exact sums; put together in double."""
    e, data = node.emitter, node.centred(0)
    high = e.node("Floor", e.node("Div", data, e.constant(float(_BYTE))))
    low = e.node("Sub", data, e.node("Mul", high, e.constant(float(_BYTE))))
    whole: Optional[str] = None
    for half, bounds, unit in ((high, (-128.0, 127.0), _BYTE), (low, (0.0, 255.0), 1)):
        if conv.depthwise:
            parts = [slice(0, 1)]
        else:
            parts = split_for_exactness(weight, *bounds)
        for part in parts:
            several = len(parts) > 1
            cut = (
                e.node("Slice", half, e.ints([part.start]), e.ints([part.stop]), e.ints([1]))
                if several
                else half
            )
            made = e.cast(_conv(node, conv, cut, weight[:, part], None), np.float64)
            if unit != 1:
                made = e.node("Mul", made, e.constant(float(unit), np.float64))
            whole = made if whole is None else e.node("Add", whole, made)
    assert whole is not None
    if bias.any():
        whole = e.node("Add", whole, e.constant(bias.reshape(1, -1, 1, 1), np.float64))
    return e.cast(whole, np.float32)


def _in_bytes(node: LoweredNode, conv: ConvParams, fused: FusedOp, stored: Array, bias: Array) -> bool:
    """The whole node as one QLinearConv, which adds in int32 and rounds as the NPU does; False where it cannot be.

    Engines are slow with depthwise weights that have zero points; those go the way of float32.
    """
    x, y, stage = node.view.tensor(0), node.outputs[0], node.view.node.stage
    assert conv.zero_point is not None and conv.multiplier is not None and stage is not None
    zeros = conv.zero_point.astype(np.float64)
    if (
        not fits_int8(conv, stored)
        or conv.transposed
        or (conv.depthwise and zeros.any())
        or np.abs(bias).max(initial=0) >= 2**31
        or (bias != np.rint(bias)).any()
    ):
        return False
    geometry, e, values = Geometry.of(node, conv, stored), node.emitter, node.values
    if any(geometry.crop):
        return False
    factor = np.asarray(conv.multiplier * stage.scale * stage.second_scale, np.float64).astype(np.float32)
    one, kind = e.constant(1.0), np.int8
    names = [
        values.get(x.index, Rep.ELEMENTS),
        one,
        e.constant(element_zero(x), np.uint8),
        e.constant(stored, kind),
        e.constant(factor),
        e.constant(zeros, kind, shared=False),
        one,
        e.constant(element_zero(y), np.uint8),
        e.constant(np.rint(bias), np.int32),
    ]
    found = e.node("QLinearConv", *names, **geometry.attrs)
    limits, zero = integer_limits(node, fused, stage), element_zero(y)
    if limits != centred_range(y):
        low, high = (e.constant(limit + zero, np.uint8) for limit in limits)
        found = e.node("Clip", found, low, high)
    values.put(y.index, Rep.ELEMENTS, found)
    return True
