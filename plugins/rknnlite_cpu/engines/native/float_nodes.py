"""Nodes of float16 as ops; ``ops/conv.py``, ``ops/requantise.py`` and the kernels of ``ops`` define them.

Values lie as float32 that float16 holds, four bytes each, so that planes are those of bytes with four times the channels.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

import numpy as np
from rknnlite_graph.graph import Activation, ConvParams, Join, Node
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import TABLE_FUNCTIONS, Shape, convolution_types, operator_of

from ...ops import builder_of
from ...ops.requantise import line_of, real_function
from ...values import Array
from .convolutions import convolution_op
from .float_places import PLACES, write_linear
from .float_tokens import TOKENS
from .joins_and_moves import MOVES
from .kinds import Flag, Op, padding_of
from .packing import float_weights, padded_to, selected_channels
from .writer import Write, Writer, demand, demand_finite, demand_halves, demand_rounded, in_halves

__all__ = ["check_float_node", "compute_what_is_read", "float_writer"]

_LIMITED = (Activation.RELU, Activation.CLIP)
_SLOPED = (Activation.LEAKY_RELU, Activation.PRELU)
_COMPUTED = {"Sigmoid": "SIGMOID", "exSwish": "SWISH", "HardSwish": "HARD_SWISH"}
_CONVOLUTIONS = frozenset(convolution_types())


def float_writer(node: Node) -> Optional[Write]:
    """What writes a node of float16, None where nothing does."""
    if node.op in _CONVOLUTIONS:
        return _convolution
    row = operator_of(node.op)
    return _WRITERS.get(node.op) or (_table if row is not None and row.shape is Shape.UNARY else None)


def check_float_node(view: NodeView) -> None:
    """Raise NotLowered for a node that no writer takes, before weights are read."""
    demand(not view.floats_behind_bytes, "bytes hang on its floats")
    if view.node.op in _CONVOLUTIONS:
        _check_convolution(view)


def compute_what_is_read(writer: Writer) -> None:
    """A dense convolution of which one of 1x1 with strides reads every second position, say: the others are not computed.

    The converter makes large strides so.
    """
    for reader in writer.ops:
        sides = (reader.kernel, reader.dilations, reader.pads)
        if reader.kind != "FLOAT_DEPTHWISE" or sides != ((1, 1), (1, 1), (0, 0)) or reader.strides == (1, 1):
            continue
        plane = reader.x
        users = [op for op in writer.ops if any(each is plane for each in op.planes)]
        if len(users) != 2 or users[0].kind != "FLOAT_CONVOLVE" or users[0].other is not None:
            continue
        if plane in writer.parts or writer.parts.of(plane) or reader.other is plane:
            continue
        if (users[0].kernel, users[0].strides, users[0].dilations) == ((3, 3), (1, 1), (1, 1)):
            continue  # it may be computed after Winograd, with other last bits
        plane.height, plane.width = reader.y.height, reader.y.width
        (down, across), maker = reader.strides, users[0]
        maker.strides, reader.strides = (maker.strides[0] * down, maker.strides[1] * across), (1, 1)


# -- convolutions ----------------------------------------------------------------------------------------------


def _check_convolution(view: NodeView) -> None:
    fused, conv, stage = view.node.fused, view.node.conv, view.node.stage
    demand(fused is not None and conv is not None and stage is not None, "it has no decoded parameters")
    assert fused is not None and conv is not None and stage is not None
    demand(not conv.quantised and not conv.computed, "its weights are not of float16")
    joined = view.has(1)
    demand_halves(view, 2 if joined else 1)
    x, y = view.tensor(0), view.outputs[0]
    demand(len(x.shape) == len(y.shape) == 4, "its planes are none")
    channels = conv.weight_shape[0] if conv.depthwise else conv.weight_shape[1]
    demand(channels == x.shape[1] and conv.weight_shape[0] == y.shape[1], "its weights")
    demand(conv.slope is None or conv.slope.ndim == 1, "slopes that differ by position")
    if joined:
        other = view.tensor(1).shape
        one_each = y.shape[0] == 1 and other == (1, y.shape[1], 1, 1)
        demand(other == y.shape or one_each, f"an operand {other}")
    else:
        demand(fused.join is None, "no operand")
    table = fused.after is Activation.TABLE
    demand(not table or not (joined or fused.before), "more than a function of sums")
    for activation in (fused.before, fused.after):
        demand(activation is not Activation.CLIP or stage.clip is not None, "no limits")


def _convolution(writer: Writer, view: NodeView) -> None:
    check_float_node(view)
    fused, conv, stage = view.node.fused, view.node.conv, view.node.stage
    assert fused is not None and conv is not None and stage is not None
    op = convolution_op(writer, view, conv, "FLOAT_DEPTHWISE" if conv.depthwise else "FLOAT_CONVOLVE")
    early, late = fused.before in _SLOPED, fused.after in _SLOPED
    flags = {
        Flag.STORED: not (fused.join is None and fused.after in (None, *_LIMITED)),
        Flag.LIMITED: fused.before in _LIMITED,
        Flag.SLOPED: early,
        Flag.JOIN_ADD: op.other is not None and fused.join is not Join.MUL,
        Flag.JOIN_MULTIPLY: op.other is not None and fused.join is Join.MUL,
        Flag.RECTIFY: fused.after in _LIMITED,
        Flag.LATE_SLOPED: late,
        Flag.FUNCTION: fused.after is Activation.TABLE,
    }
    op.flags |= sum(flag for flag, holds in flags.items() if holds)
    (first_low, first_high), (low, high) = (_limits(each, stage.clip) for each in (fused.before, fused.after))
    op.numbers = {"first_low": first_low, "first_high": first_high, "low": low, "high": high}
    lanes, count = writer.lanes, -(-conv.weight_shape[0] // writer.lanes) * writer.lanes
    bias = np.zeros(1, np.float32) if conv.bias is None else conv.bias
    bias = np.broadcast_to(bias, conv.weight_shape[0]).astype(np.float32)
    slope: Any = 0 if not (early or late) else conv.slope if conv.slope is not None else stage.slope
    demand(slope is not None, "no slope")
    slope = np.broadcast_to(slope, conv.weight_shape[0]).astype(np.float32)
    demand_finite(bias, slope)
    op.arrays |= {"factor": padded_to(bias, count), "slope": padded_to(slope, count)}
    if fused.after is Activation.TABLE:
        _function(writer, op, view)
    weight = _half_weights(conv)
    if not conv.depthwise and _selects(op, weight):
        op.kind = "FLOAT_SELECT"
        op.arrays |= selected_channels(weight[:, :, 0, 0], lanes)
    else:
        op.arrays["weights"] = float_weights(weight, lanes)
    writer.ops.append(op)


def _selects(op: Op, weight: Array) -> bool:
    """Whether each result is one channel of x: so the converter moves channels."""
    sides = (op.kernel, op.strides, padding_of(op))
    return sides == ((1, 1), (1, 1), (0, 0, 0, 0)) and bool((np.count_nonzero(weight, axis=1) <= 1).all())


def _function(writer: Writer, op: Op, view: NodeView) -> None:
    """What is cheap to compute is computed, else the numpy kernels tell the result for every float16."""
    fused, stage = view.node.fused, view.node.stage
    assert fused is not None and stage is not None
    row = TABLE_FUNCTIONS[fused.function]
    parameters = row.table_parameters(stage)
    op.function = _COMPUTED.get(row.name, "") if set(parameters) <= {1.0} else ""
    if row.line:
        slope, offset = line_of(view, fused, stage)
        op.function = "HARD_SIGMOID"
        op.numbers |= {"unit": float(np.float32(slope)), "other_unit": float(np.float32(offset))}
    if not op.function:
        op.function = "TABLE_OF_INDICES"
        key = (fused.function, stage.float_line, parameters)
        op.arrays["table"] = writer.halves_table(key, real_function(view, fused, stage))


def _half_weights(conv: ConvParams) -> Array:
    weight = conv.weight()
    halves = weight.astype(np.float16)
    demand(
        bool((halves.astype(np.float32) == weight.astype(np.float32)).all()),
        "weights that float16 does not hold",
    )
    return halves


def _limits(activation: Optional[Activation], clip: Optional[tuple[float, float]]) -> tuple[float, float]:
    if activation is Activation.CLIP and clip is not None:
        return float(np.float32(clip[0])), float(np.float32(clip[1]))
    return 0.0, float("inf")


# -- others ----------------------------------------------------------------------------------------------------


def _join(kind: str, rectify: bool, writer: Writer, view: NodeView) -> None:
    """Two operands, the second may be one value per channel; ``rectify``: nothing below zero is left."""
    demand_halves(view, 2)
    demand(len(view.inputs) == 2, f"{len(view.inputs)} operands")
    x, other, y = view.tensor(0), view.tensor(1), view.outputs[0]
    if x.shape != y.shape and kind != "FLOAT_SUBTRACT":
        x, other = other, x
    one_each = len(y.shape) == 4 and other.shape == (y.shape[0], y.shape[1], 1, 1)
    demand(x.shape == y.shape and (other.shape == y.shape or one_each), f"operands {x.shape}, {other.shape}")
    op = Op(kind, y=writer.plane(y), x=writer.plane(x), other=writer.plane(other))
    op.flags = Flag.RECTIFY if rectify else 0
    writer.ops.append(op)


def _table(writer: Writer, view: NodeView) -> None:
    """A function of one operand: its numpy kernel tells the result for every float16."""
    demand_halves(view, 1)
    demand_rounded(view)
    x, y = view.tensor(0), view.outputs[0]
    demand(x.shape == y.shape and view.live == [x.index], "more than one operand")
    others = [tensor for tensor in view.inputs[1:] if tensor is not None]
    demand(all(np.prod(tensor.shape) == 1 for tensor in others), "an operand of several values")
    builder = builder_of(view.node.op)
    assert builder is not None
    kernel = builder(view)
    constants = [view.constant(i).tobytes() for i in range(1, len(view.inputs)) if view.has(i)]
    table = writer.halves_table((view.node.op, str(view.attrs), str(view.parameters), *constants),
                                lambda values: kernel([values])[0])  # fmt: skip
    writer.ops.append(Op("FLOAT_TABLE", y=writer.plane(y), x=writer.plane(x), arrays={"table": table}))


def _max_pool(writer: Writer, view: NodeView) -> None:
    demand_halves(view, 1)
    x, y = view.tensor(0), view.outputs[0]
    demand(len(view.outputs) == 1 and len(x.shape) == len(y.shape) == 4, "its planes are none")
    sizes = {
        name: tuple(view.attrs.get(name) or [1, 1])[:2] for name in ("kernel_shape", "strides", "dilations")
    }
    op = Op(
        "FLOAT_MAX_POOL", y=writer.plane(y), x=writer.plane(x), kernel=sizes["kernel_shape"], strides=sizes["strides"],
        dilations=sizes["dilations"], pads=tuple(view.attrs.get("pads") or [0, 0])[:2],
    )  # fmt: skip
    reach = zip(padding_of(op), (*op.kernel, *op.kernel), (*op.dilations, *op.dilations))
    demand(all(-4096 < pad <= dilation * (kernel - 1) for pad, kernel, dilation in reach), "its padding")
    writer.ops.append(op)


def _scale(writer: Writer, view: NodeView) -> None:
    """BatchNormalization: a factor and an offset per channel."""
    demand_halves(view, 1)
    x, y, fused = view.tensor(0), view.outputs[0], view.node.fused
    demand(x.shape == y.shape and len(view.live) == 1, "its operands")
    gamma, beta = (np.asarray(view.constant(i), np.float32).reshape(-1) for i in (1, 2))
    demand(gamma.size == beta.size == x.shape[1], "its numbers")
    op = _per_channel(writer, view, gamma, beta)
    op.flags = Flag.RECTIFY if fused is not None and fused.after is Activation.RELU else 0


def _prelu(writer: Writer, view: NodeView) -> None:
    demand_halves(view, 1)
    demand(view.tensor(0).shape == view.outputs[0].shape and view.is_const(1), "its operands")
    slope = np.asarray(view.constant(1), np.float32).reshape(-1)
    demand(slope.size in (1, view.tensor(0).shape[1]), "slopes that differ by position")
    slope = np.broadcast_to(slope, view.tensor(0).shape[1])
    _per_channel(writer, view, slope, np.zeros_like(slope)).flags = Flag.SLOPED


def _per_channel(writer: Writer, view: NodeView, factor: Array, added: Array) -> Op:
    demand_finite(factor, added)
    count = -(-len(factor) // writer.lanes) * writer.lanes
    arrays = {"slope": padded_to(factor, count), "factor": padded_to(added, count)}
    op = Op("FLOAT_SCALE", y=writer.plane(view.outputs[0]), x=writer.plane(view.tensor(0)), arrays=arrays)
    writer.ops.append(op)
    return op


def _moved(write: Write, writer: Writer, view: NodeView) -> None:
    """What moves bytes moves floats."""
    demand_rounded(view)
    demand(all(map(in_halves, view.outputs)) and in_halves(view.tensor(0)), "its values are not of float16")
    write(writer, view)


def _resize(writer: Writer, view: NodeView) -> None:
    write_linear(writer, view, partial(_moved, MOVES["Resize"]))


_WRITERS: dict[str, Write] = {
    "Add": partial(_join, "FLOAT_ADD", False),
    "AddRelu": partial(_join, "FLOAT_ADD", True),
    "Sub": partial(_join, "FLOAT_SUBTRACT", False),
    "SubRelu": partial(_join, "FLOAT_SUBTRACT", True),
    "Mul": partial(_join, "FLOAT_MULTIPLY", False),
    "MulRelu": partial(_join, "FLOAT_MULTIPLY", True),
    "MaxPool": _max_pool,
    "BatchNormalization": _scale,
    "BatchNormalizationRelu": _scale,
    "PRelu": _prelu,
    **{name: partial(_moved, write) for name, write in MOVES.items()},
    **TOKENS,
    **PLACES,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
}
