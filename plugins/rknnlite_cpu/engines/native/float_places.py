"""Nodes of float16 that take pixels from elsewhere, as ops: parts, padding, rows and columns by numbers, linear sizes."""

from __future__ import annotations

import numpy as np
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.resize_coordinates import Ends, Linear, resize_steps

from ...ops import builder_of
from ...values import Array
from .kinds import Op
from .writer import Write, Writer, demand, demand_halves, demand_rounded

__all__ = ["PLACES", "write_linear"]

_LARGEST = 2000
"""Numbers up to here are float16."""


def _picked(writer: Writer, view: NodeView) -> None:
    """The numpy kernel tells which row and column comes where, and nothing else may change; 0 is what is outside."""
    demand_halves(view, 1)
    demand_rounded(view)
    x, y = view.tensor(0), view.outputs[0]
    demand(len(x.shape) == len(y.shape) == 4 and x.shape[:2] == y.shape[:2], "more than rows and columns")
    demand(view.live == [x.index] and max(x.shape) <= _LARGEST, "its operands")
    builder = builder_of(view.node.op)
    assert builder is not None
    kernel, found = builder(view), []
    for axis in range(4):
        numbers = np.arange(1, x.shape[axis] + 1, dtype=np.float32).reshape(
            [-1 if i == axis else 1 for i in range(4)]
        )
        moved = np.asarray(kernel([np.ascontiguousarray(np.broadcast_to(numbers, x.shape))])[0]).reshape(
            y.shape
        )
        line = moved[tuple(slice(None) if i == axis else slice(0, 1) for i in range(4))]
        found.append(moved.max(axis=tuple(i for i in range(4) if i != axis)) - 1)
        outside = moved == 0
        demand(
            bool(((moved == found[-1].reshape(line.shape) + 1) | outside).all()),
            "values that change their order",
        )
        demand(axis >= 2 or bool((found[-1] == np.arange(x.shape[axis])).all()), "other channels")
    rows, columns = (each.astype(np.int32) for each in found[2:])
    kept = (rows[:, None] >= 0) & (columns >= 0)
    demand(
        bool((kept == (moved[0, 0] > 0)).all() and (outside == outside[:1, :1]).all()),
        "padding that is no frame",
    )
    demand(bool(rows.max() < x.shape[2] and columns.max() < x.shape[3]), "another value around it")
    numbers = np.concatenate([rows, rows, columns, columns])
    writer.ops.append(Op("FLOAT_PICK", y=writer.plane(y), x=writer.plane(x), arrays={"bias": numbers}))


def write_linear(writer: Writer, view: NodeView, other: Write) -> None:
    """A linear Resize of rows and columns; ``other`` writes whatever else one is."""
    demand_halves(view, 1)
    x, y = view.tensor(0), view.outputs[0]
    demand(len(x.shape) == len(y.shape) == 4, "its planes are none")
    demand(not (view.has(1) and not view.is_const(1)), "sizes that are computed")
    steps = resize_steps(view)
    if not isinstance(steps, Linear):
        other(writer, view)
        return
    demand(set(steps.ends) <= {2, 3}, "other axes")
    ends = [steps.ends.get(axis) or _same(x.shape[axis]) for axis in (2, 3)]
    numbers = [part for each in ends for part in (each.low, each.high)]
    weights = [part for each in ends for part in (each.before, each.after)]
    arrays: dict[str, Array] = {
        "bias": np.concatenate(numbers).astype(np.int32),
        "factor": np.concatenate(weights).astype(np.float32),
    }
    writer.ops.append(Op("FLOAT_MIX", y=writer.plane(y), x=writer.plane(x), arrays=arrays))


def _same(count: int) -> Ends:
    places = np.arange(count)
    return Ends(places, places, np.ones(count, np.float32), np.zeros(count, np.float32))


PLACES: dict[str, Write] = dict.fromkeys(("Gather", "Pad", "Slice"), _picked)
