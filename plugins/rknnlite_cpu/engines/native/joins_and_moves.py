"""Nodes without weights as ops: sums and products of two tensors, tables, pooling, what moves channels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np
from rknnlite_graph.graph import Activation, Tensor
from rknnlite_graph.node_view import NodeView, StepsOfSum
from rknnlite_graph.resize_coordinates import Linear, resize_steps

from ...ops import builder_of
from ...ops.norm import scale_and_offset
from ...registry import stored_operand
from ...values import Array, centred_range, decode, encode
from .attention import write_attention, write_norm
from .kinds import Flag, Op, padding_of
from .packing import padded_to
from .planes import write_gather, write_linear_resize, write_nearest_resize, write_pad, write_stored
from .shuffles import write_part, write_reshape, write_slice, write_transpose
from .writer import (
    Write,
    Writer,
    demand,
    demand_bytes,
    demand_finite,
    in_bytes,
    in_halves,
    output_numbers,
    sides_of,
)

__all__ = ["MOVES", "WRITERS", "write_table"]


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.quant == b.quant and a.dtype is b.dtype


def _whole(view: NodeView, count: int) -> None:
    """Demand ``count`` operands of 8 bits and as many axes as the result, none of them stored."""
    y = view.outputs[0]
    demand(len(view.inputs) == count, f"{len(view.inputs)} operands")
    for position in range(count):
        demand(view.has(position) and not view.is_const(position), f"operand {position}")
        demand(in_bytes(view.tensor(position)), f"operand {position} is not of 8 bits")
    demand(in_bytes(y), "its result is not of 8 bits")


def _movable(*tensors: Tensor) -> None:
    """Demand values of 8 bits or of float16."""
    demand(all(in_bytes(each) or in_halves(each) for each in tensors), "its values are not of 8 bits")


def _join(code: str, rectify: bool, writer: Writer, view: NodeView) -> None:
    """The second operand may be one value per channel; ``rectify``: nothing below zero is left."""
    x, other, y = view.tensor(0), view.tensor(1), view.outputs[0]
    if view.is_const(1) and in_bytes(other) and len(view.inputs) == 2:
        demand_bytes(x, y)
        demand(not view.is_const(0) and other.zero_first == x.zero_first, "its operands")
        write_stored(writer, other, encode(view.constant(1), other))
    else:
        _whole(view, 2)
    if x.shape != y.shape:
        x, other = other, x
    one_each = len(y.shape) == 4 and other.shape == (y.shape[0], y.shape[1], 1, 1)
    demand(x.shape == y.shape and (other.shape == y.shape or one_each), f"operands {x.shape}, {other.shape}")
    assert x.quant is not None and other.quant is not None
    op = Op(code, y=writer.plane(y), x=writer.plane(x), other=writer.plane(other))
    op.numbers = {"unit": x.quant.scale, "other_unit": other.quant.scale}
    op.flags = Flag.RECTIFY if rectify else 0
    output_numbers(writer, op, y)
    if view.steps_of_sum is not None:
        _sum_in_steps(writer, op, y, view.steps_of_sum, x is not view.tensor(0), rectify)
    writer.ops.append(op)


def _sum_in_steps(writer: Writer, op: Op, y: Tensor, steps: StepsOfSum, turned: bool, rectify: bool) -> None:
    """``turned``: x is the second operand."""
    first, second, start, factor, zero = map(float, steps)
    low, high = (float(limit) for limit in centred_range(y))
    op.place = writer.zero(y) - int(zero)
    op.numbers = {
        "unit": second if turned else first, "other_unit": first if turned else second, "step": factor,
        "first_low": 0.0 if turned else start, "first_high": start if turned else 0.0,
        "low": (max(low, 0.0) if rectify else low) + zero, "high": high + zero,
    }  # fmt: skip


def write_table(writer: Writer, view: NodeView) -> None:
    """A function of one operand: its numpy kernel tells the result of every byte."""
    x, y = view.tensor(0), view.outputs[0]
    demand_bytes(x, y)
    demand(x.shape == y.shape, "its values")
    demand(view.live == [x.index], "more than one operand")
    others = [tensor for tensor in view.inputs[1:] if tensor is not None]
    demand(all(prod(tensor.shape) == 1 for tensor in others), "an operand of several values")
    builder = builder_of(view.node.op)
    demand(builder is not None, "no kernel")
    assert builder is not None
    kernel = builder(view)
    table = writer.table(x, y, lambda values: kernel([values])[0])
    writer.ops.append(Op("TABLE", y=writer.plane(y), x=writer.plane(x), arrays={"table": table}))


def _scale(writer: Writer, view: NodeView) -> None:
    """BatchNormalization: a factor and an offset per channel."""
    fused = view.node.fused
    demand(view.is_const(1) and view.is_const(2), "numbers that are computed")
    rectify = fused is not None and fused.after is Activation.RELU
    _per_channel(writer, view, *scale_and_offset(view), Flag.RECTIFY if rectify else 0)


def _prelu(writer: Writer, view: NodeView) -> None:
    demand(view.is_const(1), "slopes that are computed")
    slope = stored_operand(view, 1).astype(np.float32).reshape(-1)
    _per_channel(writer, view, slope, np.zeros(1, np.float32), Flag.SLOPED)


def _per_channel(writer: Writer, view: NodeView, factor: Array, added: Array, flags: int) -> None:
    x, y = view.tensor(0), view.outputs[0]
    demand_bytes(x, y)
    demand(x.shape == y.shape and view.live == [x.index], "its operands")
    demand_finite(factor, added)
    count = x.shape[1]
    demand({factor.size, added.size} <= {1, count}, "numbers that differ by position")
    op = Op("SCALE", y=writer.plane(y), x=writer.plane(x), flags=flags)
    for name, numbers in (("slope", factor), ("factor", added)):
        op.arrays[name] = padded_to(np.broadcast_to(numbers, count).astype(np.float32), op.y.room)
    assert x.quant is not None
    op.numbers = {"unit": x.quant.scale}
    output_numbers(writer, op, y)
    writer.ops.append(op)


def _max_pool(writer: Writer, view: NodeView) -> None:
    x, y = view.tensor(0), view.outputs[0]
    demand(in_bytes(x) and in_bytes(y) and _alike(x, y) and len(view.outputs) == 1, "its values")
    demand(len(x.shape) == len(y.shape) == 4, "its planes are none")
    sizes = {
        name: tuple(view.attrs.get(name) or [1, 1])[:2] for name in ("kernel_shape", "strides", "dilations")
    }
    pads = tuple(view.attrs.get("pads") or [0, 0])[:2]
    op = Op(
        "MAX_POOL", y=writer.plane(y), x=writer.plane(x), kernel=sizes["kernel_shape"], strides=sizes["strides"],
        dilations=sizes["dilations"], pads=pads,
    )  # fmt: skip
    reach = zip(padding_of(op), (*op.kernel, *op.kernel), (*op.dilations, *op.dilations))
    demand(all(-4096 < pad <= dilation * (kernel - 1) for pad, kernel, dilation in reach), "its padding")
    writer.ops.append(op)


def _copy(writer: Writer, source: Tensor, target: Tensor, place: int, depth: int, channels: int) -> None:
    op = Op(
        "COPY", y=writer.plane(target), x=writer.plane(source), channels=channels, place=place, depth=depth
    )
    if not _alike(source, target):
        demand_bytes(source, target)
        function = lambda values: encode(decode(values, source), target)  # noqa: E731
        op.arrays["table"] = writer.table(source, target, function)
    writer.ops.append(op)


def _axis_is_channels(view: NodeView, rank: int) -> bool:
    axis = view.attrs.get("axis", 0)
    return isinstance(axis, int) and axis in (1, 1 - rank)


def _concat(writer: Writer, view: NodeView) -> None:
    y, unit = view.outputs[0], Writer.unit(view.outputs[0])
    tensors = [tensor for tensor in view.inputs if tensor is not None]
    rank = len(y.shape)
    if not _axis_is_channels(view, rank) or any(view.is_const(i) for i in range(len(view.inputs))):
        _concat_elsewhere(writer, view, tensors, view.attrs.get("axis", 0) % rank)
        return
    demand(len(tensors) == len(view.inputs), "operands that are not there")
    _movable(y, *tensors)
    place = 0
    while tensors:
        count = _placed(writer, tensors, y, place)
        if not count:
            count = 1
            _copy(writer, tensors[0], y, place, 0, unit * tensors[0].shape[1])
        place += unit * sum(tensor.shape[1] for tensor in tensors[:count])
        del tensors[:count]


def _concat_elsewhere(writer: Writer, view: NodeView, tensors: list[Tensor], axis: int) -> None:
    """Along any axis, also with what the file stores."""
    y = view.outputs[0]
    demand_bytes(y, *tensors)
    first = 0
    for i, tensor in enumerate(tensors):
        part = tensor
        if view.is_const(i):
            part = replace(tensor, quant=y.quant, dtype=y.dtype)
            write_stored(writer, part, encode(view.constant(i), y))
        demand(_alike(part, y), "parts of other steps")
        write_part(writer, part, y, axis, first)
        first += tensor.shape[axis]
    demand(first == y.shape[axis], f"{first} parts of {y.shape}")


def _placed(writer: Writer, tensors: list[Tensor], target: Tensor, place: int) -> int:
    """How many of the first tensors lie in the target from now on: one, or all parts of one; 0: they are to be copied."""
    for count in range(len(tensors), 0, -1):
        planes = [writer.plane(tensor) for tensor in tensors[:count]]
        found = planes[0] if count == 1 else writer.parts.entire(planes)
        alike = all(_alike(tensor, target) for tensor in tensors[:count])
        if found is not None and alike and place % 16 == 0 and writer.may_lie_in(found):
            writer.parts.add(found, writer.plane(target), place)
            return count
    return 0


def _split(writer: Writer, view: NodeView) -> None:
    x, unit = view.tensor(0), Writer.unit(view.tensor(0))
    _movable(x, *view.outputs)
    demand(_axis_is_channels(view, len(x.shape)), "another axis than channels")
    depth = 0
    for tensor in view.outputs:
        if _alike(x, tensor) and depth % 16 == 0 and writer.plane(x).pitch % 16 == 0:
            writer.part(tensor, x, depth)
        else:
            _copy(writer, x, tensor, 0, depth, unit * tensor.shape[1])
        depth += unit * tensor.shape[1]


def _reshape(writer: Writer, view: NodeView) -> None:
    """Where the bytes stay as they are, and where axes are parts or products of axes."""
    x, y = view.tensor(0), view.outputs[0]
    _movable(x, y)
    demand(_alike(x, y), "its values")
    before, after = sides_of(x), sides_of(y)
    if before == after or (prod(before[2:]) == prod(after[2:]) == 1 and before[:2] == after[:2]):
        writer.alias(y, x)
    else:
        write_reshape(writer, x, y)


def _resize(writer: Writer, view: NodeView) -> None:
    """Nearest by whole numbers is a copy, any other a choice of rows and columns."""
    x, y = view.tensor(0), view.outputs[0]
    _movable(x, y)
    demand(len(x.shape) == len(y.shape) == 4, "its values")
    demand(not (view.has(1) and not view.is_const(1)), "sizes that are computed")
    steps = resize_steps(view)
    if isinstance(steps, Linear):
        write_linear_resize(writer, view)
        return
    by = [1, 1]
    for axis, index in steps.items():
        times = y.shape[axis] // x.shape[axis]
        if axis < 2 or not np.array_equal(index, np.arange(y.shape[axis]) // max(times, 1)):
            write_nearest_resize(writer, view, steps)
            return
        by[axis - 2] = times
    _copy(writer, x, y, 0, 0, Writer.unit(x) * x.shape[1])
    writer.ops[-1].strides = (by[0], by[1])


def _identity(writer: Writer, view: NodeView) -> None:
    x, y = view.tensor(0), view.outputs[0]
    _movable(x, y)
    demand(_alike(x, y) and x.shape == y.shape, "its values")
    writer.alias(y, x)


MOVES: dict[str, Write] = {
    "Identity": _identity,
    "Concat": _concat,
    "Split": _split,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
}
"""Of 8 bits and of float16."""
WRITERS: dict[str, Write] = {
    "Add": partial(_join, "ADD", False),
    "BatchNormalization": _scale,
    "BatchNormalizationRelu": _scale,
    "PRelu": _prelu,
    "AddRelu": partial(_join, "ADD", True),
    "Mul": partial(_join, "MULTIPLY", False),
    "MulRelu": partial(_join, "MULTIPLY", True),
    "MaxPool": _max_pool,
    "Gather": write_gather,
    "LayerNormalization": write_norm,
    "Pad": write_pad,
    "Slice": write_slice,
    "Transpose": write_transpose,
    "exNorm": write_norm,
    "exSDPAttention": write_attention,
    **MOVES,
}
