"""Planes made of other places of a plane as ops: padding, chosen rows and columns, Resize; and what the file stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.resize_coordinates import Linear, resize_steps

from ...values import Array, encode
from .kinds import Op
from .writer import Writer, demand, demand_bytes, output_numbers, sides_of

__all__ = ["write_gather", "write_linear_resize", "write_nearest_resize", "write_pad", "write_stored"]


def write_stored(writer: Writer, tensor: Tensor, centred: Array) -> None:
    """A tensor of the file, whose values are given less its zero point."""
    plane = writer.plane(tensor)
    items, channels, height, width = sides_of(tensor)
    lying = np.zeros((items, height, width, plane.room), np.uint8)
    stored = centred.reshape(items, channels, height, width).astype(np.int64) + plane.zero
    lying[..., :channels] = (stored & 255).transpose(0, 2, 3, 1)
    writer.ops.append(Op("PUT", y=plane, x=plane, arrays={"table": lying.reshape(-1)}))


def write_pad(writer: Writer, view: NodeView) -> None:
    """Zeros beside rows and columns, or fewer of them."""
    x, y = _alike(view)
    pads = view.ints(1, "pads")
    demand(
        pads is not None
        and len(pads) == 8
        and view.choice("mode", "constant", "reflect", "edge", "wrap") == "constant",
        "its form",
    )
    assert pads is not None
    demand(pads[0] == pads[1] == pads[4] == pads[5] == 0, "more items or channels")
    fill: Any = view.constant(2).reshape(-1)[0] if view.has(2) else view.attrs.get("value", 0)
    demand(not view.has(2) or view.is_const(2), "a value that is computed")
    value = int(encode(np.asarray(fill, np.float32), y))
    places = {}
    for axis in (2, 3):
        index = np.arange(-pads[axis], x.shape[axis] + pads[axis + 4])
        places[axis] = np.where(index < x.shape[axis], np.maximum(index, -1), -1)
    _pick(writer, x, y, places, value)


def write_gather(writer: Writer, view: NodeView) -> None:
    """Rows or columns whose numbers the file has."""
    x, y = _alike(view)
    axis = int(view.parameters["axis"]) % 4
    demand(axis in (2, 3) and view.is_const(1), "numbers that are computed, or of another axis")
    index = view.constant(1).reshape(-1).astype(np.int64)
    demand(bool((index >= -x.shape[axis]).all() and (index < x.shape[axis]).all()), "numbers outside")
    _pick(writer, x, y, {axis: index % x.shape[axis]}, 0)


def write_nearest_resize(writer: Writer, view: NodeView, steps: Mapping[int, Array]) -> None:
    """Any rows and columns."""
    x, y = _alike(view)
    demand(all(axis >= 2 for axis in steps), "more items or channels")
    _pick(writer, x, y, steps, 0)


def _alike(view: NodeView) -> tuple[Tensor, Tensor]:
    x, y = view.tensor(0), view.outputs[0]
    demand_bytes(x, y)
    demand(x.quant == y.quant and x.dtype is y.dtype, "its values")
    demand(len(x.shape) == len(y.shape) == 4 and view.live == [x.index], "its form")
    return x, y


def _pick(writer: Writer, x: Tensor, y: Tensor, places: Mapping[int, Array], value: int) -> None:
    whole = [np.asarray(places.get(axis, np.arange(x.shape[axis])), np.int64) for axis in (2, 3)]
    demand((*x.shape[:2], *map(len, whole)) == y.shape, f"{x.shape} to {y.shape}")
    op = Op("PICK", y=writer.plane(y), x=writer.plane(x), arrays={"sizes": np.concatenate(whole)})
    op.place = (value + op.y.zero) & 255
    writer.ops.append(op)


def write_linear_resize(writer: Writer, view: NodeView) -> None:
    """A sum of four corners."""
    x, y, steps = view.tensor(0), view.outputs[0], resize_steps(view)
    demand_bytes(x, y)
    demand(isinstance(steps, Linear) and steps.corners and view.live == [x.index], "its form")
    assert isinstance(steps, Linear) and x.quant is not None
    ends = [steps.ends[axis] for axis in (2, 3)]
    demand(x.shape[:2] == y.shape[:2], "other items or channels")
    op = Op("BILINEAR", y=writer.plane(y), x=writer.plane(x), numbers={"unit": x.quant.scale})
    op.arrays = {
        "sizes": np.concatenate([part for end in ends for part in (end.low, end.high)]).astype(np.int64),
        "numbers": np.concatenate([part for end in ends for part in (end.before, end.after)]).astype(
            np.float32
        ),
    }
    output_numbers(writer, op, y)
    writer.ops.append(op)
