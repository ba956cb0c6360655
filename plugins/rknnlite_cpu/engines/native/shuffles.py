"""Values in another order as ops: axes that are parts or products of axes, other orders of them, cut-outs."""

from __future__ import annotations

from math import prod
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.node_view import NodeView

from .kinds import AXES, Op, Plane
from .writer import Writer, demand, demand_bytes, in_bytes, in_halves

__all__ = ["steps_of", "write_part", "write_reshape", "write_slice", "write_transpose"]

_Axis = tuple[int, int, int]
"""How many values, and the bytes between them in x and in y."""


def steps_of(plane: Plane, rank: int, unit: int = 1) -> list[int]:
    """Bytes from value to value along each axis of a tensor whose values have ``unit`` bytes."""
    return [plane.height * plane.width * plane.pitch, unit, plane.width * plane.pitch, plane.pitch][:rank]


def write_reshape(writer: Writer, x: Tensor, y: Tensor, read: Optional[Plane] = None) -> None:
    """Each axis of one shape is part of an axis of the other, or some of them; ``read`` is where x lies, if elsewhere."""
    _movable(x, y)
    source, target, unit = read or writer.plane(x), writer.plane(y), writer.unit(x)
    ahead = [
        list(zip(t.shape, steps_of(plane, len(t.shape), unit))) for t, plane in ((x, source), (y, target))
    ]
    axes: list[_Axis] = []
    while ahead[0] and ahead[1]:
        (n, across), (m, down) = ahead[0].pop(), ahead[1].pop()
        common = min(n, m)
        demand(n % common == 0 and m % common == 0, f"{x.shape} to {y.shape}")
        axes.insert(0, (common, across, down))
        if n > common:
            ahead[0].append((n // common, across * common))
        if m > common:
            ahead[1].append((m // common, down * common))
    demand(prod(n for n, _, _ in axes) == prod(x.shape) == prod(y.shape), f"{x.shape} to {y.shape}")
    _shuffle(writer, source, target, axes, unit)


def write_transpose(writer: Writer, view: NodeView, read: Optional[Plane] = None) -> None:
    """Any order of the axes; see ``write_reshape``."""
    x, y = view.tensor(0), view.outputs[0]
    _movable(x, y)
    demand(x.quant == y.quant and x.dtype is y.dtype, "its values")
    rank = len(x.shape)
    order = view.attrs.get("perm") or list(range(rank))[::-1]
    demand(sorted(order) == list(range(rank)), f"perm {order}")
    demand(tuple(x.shape[axis] for axis in order) == y.shape, f"{x.shape} to {y.shape}")
    source, target, unit = read or writer.plane(x), writer.plane(y), writer.unit(x)
    across = steps_of(source, rank, unit)
    axes = [(x.shape[axis], across[axis], down) for axis, down in zip(order, steps_of(target, rank, unit))]
    _shuffle(writer, source, target, axes, unit)


def write_slice(writer: Writer, view: NodeView) -> None:
    """Forwards, by numbers of the file."""
    x, y = view.tensor(0), view.outputs[0]
    demand_bytes(x, y)
    demand(x.quant == y.quant and x.dtype is y.dtype, "its values")
    starts, ends = view.ints(1, "starts"), view.ints(2, "ends")
    demand(starts is not None and ends is not None, "its places are not stored")
    assert starts is not None and ends is not None
    axes = view.ints(3, "axes") or list(range(len(starts)))
    steps = view.ints(4, "steps") or [1] * len(starts)
    demand(all(step > 0 for step in steps), "backwards")
    parts = [range(n) for n in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps):
        parts[axis] = range(x.shape[axis])[start:end:step]
    demand(tuple(map(len, parts)) == y.shape, f"{x.shape} to {y.shape}")
    source, target = writer.plane(x), writer.plane(y)
    across, down = (steps_of(plane, len(x.shape)) for plane in (source, target))
    first = sum(part.start * step for part, step in zip(parts, across))
    found = [(len(part), step * part.step, to) for part, step, to in zip(parts, across, down)]
    _shuffle(writer, source, target, found, first=first)


def write_part(writer: Writer, part: Tensor, y: Tensor, axis: int, first: int) -> None:
    """A tensor as a part of another one, from place ``first`` of an axis on."""
    rank = len(y.shape)
    expected = tuple(part.shape[i] if i == axis else n for i, n in enumerate(y.shape))
    demand(part.shape == expected, f"a part {part.shape}")
    source, target = writer.plane(part), writer.plane(y)
    across, down = steps_of(source, rank), steps_of(target, rank)
    _shuffle(writer, source, target, list(zip(part.shape, across, down)), place=first * down[axis])


def _movable(x: Tensor, y: Tensor) -> None:
    demand((in_bytes(x) and in_bytes(y)) or (in_halves(x) and in_halves(y)), "its values are not of 8 bits")


def _shuffle(
    writer: Writer, x: Plane, y: Plane, axes: list[_Axis], unit: int = 1, first: int = 0, place: int = 0
) -> None:
    """The innermost axis is one of bytes side by side in both where there is one, else the one that lies closest in y.

    Values have ``unit`` bytes, which are such an axis.
    """
    merged: list[_Axis] = []
    for n, across, down in sorted(
        (axis for axis in (*axes, (unit, 1, 1)) if axis[0] > 1), key=lambda axis: (-axis[2], -axis[1])
    ):
        if merged and (merged[-1][1], merged[-1][2]) == (across * n, down * n):
            merged[-1] = (merged[-1][0] * n, across, down)
        else:
            merged.append((n, across, down))
    demand(len(merged) <= AXES, f"{len(merged)} axes")
    padded = [(1, 0, 0)] * (AXES - len(merged)) + merged
    sizes = np.array(padded, np.int64).T.reshape(-1)
    writer.ops.append(Op("SHUFFLE", y=y, x=x, depth=first, place=place, arrays={"sizes": sizes}))
