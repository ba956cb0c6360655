"""Nodes with weights as ops; ``ops/conv.py`` and ``ops/requantise.py`` define them."""

from __future__ import annotations

from typing import Any

import numpy as np
from rknnlite_graph.graph import Activation, ConvParams
from rknnlite_graph.node_view import NodeView

from ...ops.requantise import IntegerStage
from ...values import Array
from .kinds import Flag, Op, Plane, padding_of
from .output_functions import check_function, write_function
from .packing import dense_weights, depthwise_order, depthwise_weights, eight_bits, padded_to
from .writer import Writer, demand, demand_bytes, demand_finite, in_bytes

__all__ = ["check_convolution", "convolution_op", "write_convolution"]

_LARGEST_SUM = 1 << 31


def check_convolution(view: NodeView) -> None:
    """Raise NotLowered for a node that the kernels do not compute."""
    fused, conv, stage = view.node.fused, view.node.conv, view.node.stage
    demand(fused is not None and conv is not None and stage is not None, "it has no decoded parameters")
    assert fused is not None and conv is not None and stage is not None
    x, y = view.tensor(0), view.outputs[0]
    demand(conv.quantised, "it is of floats")
    demand_bytes(x, y)
    demand(len(x.shape) == len(y.shape) == 4, "its planes are none")
    if fused.after is Activation.TABLE:
        check_function(view)
    demand(not stage.precise and conv.multiplier is not None and conv.zero_point is not None, "its numbers")
    channels = conv.weight_shape[0] if conv.depthwise else conv.weight_shape[1]
    demand(channels == x.shape[1] and conv.weight_shape[0] == y.shape[1], "its weights")
    demand(conv.slope is None or conv.slope.ndim == 1, "slopes that differ by position")
    if view.has(1):
        other = view.tensor(1)
        demand(not view.is_const(1) and in_bytes(other), "its operand")
        whole = other.shape == y.shape
        demand(
            whole or (y.shape[0] == 1 and other.shape == (1, y.shape[1], 1, 1)), f"an operand {other.shape}"
        )
    else:
        demand(fused.join is None, "no operand")


def convolution_op(writer: Writer, view: NodeView, conv: ConvParams, kind: str) -> Op:
    """An op with the operands and the geometry of a convolution; its weights are still missing."""
    x, strides, pads = writer.plane(view.tensor(0)), conv.strides, conv.pads
    y = writer.plane(view.outputs[0])
    if conv.transposed:
        x, strides, pads = _spread(writer, x, conv)
    op = Op(
        kind,
        y=y,
        x=x,
        other=writer.plane(view.tensor(1)) if view.has(1) else None,
        kernel=conv.weight_shape[2:],
        strides=strides,
        dilations=conv.dilations,
        pads=pads,
    )
    demand(max(padding_of(op)) <= 4096 and min(padding_of(op)) >= -4096, "its padding")
    return op


def write_convolution(writer: Writer, view: NodeView) -> None:
    """One op for all of it."""
    check_convolution(view)
    fused, conv, stage = view.node.fused, view.node.conv, view.node.stage
    assert fused is not None and conv is not None and stage is not None
    op = convolution_op(writer, view, conv, "DEPTHWISE" if conv.depthwise else "CONVOLVE")
    weight, zeros = _weights(conv)
    if fused.after is Activation.TABLE:
        write_function(writer, view, op)
    else:
        _output_stage(op, IntegerStage.of(view, fused, conv, stage), op.other is not None)
    op.arrays |= {"bias": _bias(view, conv, weight, zeros, op.x)}
    if zeros.any():
        op.flags |= Flag.ZEROS
    op.arrays["zeros"] = zeros.astype(np.int32)
    if conv.depthwise:
        _by_channel(op, writer, weight)
    else:
        _dense(op, writer, weight)
    writer.ops.append(op)


def _spread(writer: Writer, x: Plane, conv: ConvParams) -> tuple[Plane, tuple[int, int], tuple[int, int]]:
    """Zeros between the pixels of x, and the stride and pads with which the stored kernel goes over them."""
    if conv.strides != (1, 1):
        height, width = ((side - 1) * step + 1 for side, step in zip((x.height, x.width), conv.strides))
        wide = Plane(x.items, height, width, x.channels, x.room, x.zero)
        writer.ops.append(Op("SPREAD", y=wide, x=x, strides=conv.strides))
        x = wide
    top, left = (d * (k - 1) - pad for d, k, pad in zip(conv.dilations, conv.weight_shape[2:], conv.pads))
    return x, (1, 1), (top, left)


def _weights(conv: ConvParams) -> tuple[Array, Array]:
    assert conv.zero_point is not None
    stored, zeros = conv.weight(), conv.zero_point
    demand(
        stored.dtype.kind in "iu" and bool((zeros == np.rint(zeros)).all()), "weights that are no integers"
    )
    try:
        return eight_bits(stored, zeros)
    except ValueError as error:
        demand(False, str(error))
        raise


def _bias(view: NodeView, conv: ConvParams, weight: Array, zeros: Array, x: Plane) -> Array:
    """What is added to sums of stored values times stored weights; demands that no sum passes 32 bits."""
    quant = view.tensor(0).quant
    assert quant is not None
    shape = (-1, *[1] * (weight.ndim - 1))
    sums = (weight.astype(np.int64) - zeros.reshape(shape)).sum(axis=(1, 2, 3))
    bias: Any = np.zeros(len(sums)) if conv.bias is None else conv.bias.astype(np.float64)
    demand(bool((bias == np.rint(bias)).all()), "a bias that is no integer")
    found = bias.astype(np.int64) + (quant.zero_point - x.zero) * sums
    size = int(np.prod(weight.shape[1:]))
    largest = size * 128 * 256 * 2 + int(np.abs(found).max(initial=0)) + int(np.abs(bias).max(initial=0))
    demand(largest < _LARGEST_SUM, "sums of more than 32 bits")
    return found.astype(np.int32)


def _output_stage(op: Op, stage: IntegerStage, joined: bool) -> None:
    count = op.y.channels
    slope = np.zeros(count, np.float32) if stage.slope is None else stage.slope.reshape(-1)
    demand(slope.size == count, "slopes that differ by position")
    factor = np.broadcast_to(stage.factor, count)
    demand_finite(factor, slope)
    flags = {
        Flag.LIMITED: stage.limited,
        Flag.SLOPED: stage.early and not stage.limited,
        Flag.JOIN_ADD: joined and not stage.multiplies,
        Flag.JOIN_MULTIPLY: joined and stage.multiplies,
        Flag.LATE_SLOPED: stage.late,
        Flag.GENTLE: stage.gentle,
    }
    op.flags |= sum(flag for flag, holds in flags.items() if holds)
    op.arrays |= {"factor": factor.astype(np.float32), "slope": slope.astype(np.float32)}
    op.numbers = {
        "unit": float(stage.operand_unit),
        "first_low": float(stage.first_low),
        "first_high": float(stage.first_high),
        "low": float(stage.low),
        "high": float(stage.high),
    }


def _by_channel(op: Op, writer: Writer, weight: Array) -> None:
    chunk = 4 * writer.lanes
    planes = [plane for plane in (op.x, op.y, op.other) if plane is not None]
    alone = all(plane.pitch == plane.room == op.x.room for plane in planes) and (
        op.other is None or (op.other.height, op.other.width) == (op.y.height, op.y.width)
    )
    op.depth = chunk // op.x.pitch if op.strides[1] == 1 and chunk % op.x.pitch == 0 and alone else 1
    for name in ("bias", "zeros", "factor", "slope"):
        op.arrays[name] = depthwise_order(_folded(op.arrays[name], op), writer.lanes)
    op.arrays["weights"] = depthwise_weights(_folded(weight, op), writer.lanes)


def _folded(values: Array, op: Op) -> Array:
    """The same for each of the pixels that make a vector."""
    return np.concatenate([padded_to(values, op.x.pitch)] * op.depth) if op.depth > 1 else values


def _dense(op: Op, writer: Writer, weight: Array) -> None:
    lanes, across = writer.lanes, writer.across
    padded = -(-op.y.channels // (lanes * across)) * lanes * across
    for name in ("bias", "zeros", "factor", "slope"):
        op.arrays[name] = padded_to(op.arrays[name], padded)
    fours = -(-op.x.channels // 4) * 4
    used = np.arange(fours) < op.x.channels
    op.depth = fours
    if op.x.pitch == fours and op.x.channels <= 4 and op.dilations[1] == 1:
        op.depth, used = fours * op.kernel[1], np.tile(used, op.kernel[1])  # taps of a row lie side by side
    op.arrays["ones"] = padded_to(used.astype(np.int8), -(-len(used) // (4 * lanes)) * 4 * lanes)
    op.arrays["weights"] = dense_weights(weight, lanes, across)
