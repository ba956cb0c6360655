"""Resize and grid sampling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.resize_coordinates import Linear, resize_steps

from ..registry import LoweredNode, lowers

__all__: list[str] = []

Places = NDArray[np.intp]


@lowers("Resize", "Upsample")
def resize(node: LoweredNode) -> None:
    """With stored places, where the bytes count: engines differ in how they compute those."""
    steps = resize_steps(node.view)
    if not node.exact and node.attrs.get("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        node.store(_as_it_is(node))
    elif isinstance(steps, Linear):
        node.store((_bilinear if steps.corners else _linear)(node, node.real(0), steps))
    else:
        value, rep = node.moving()
        node.moved(_nearest(node, value, steps), rep)


def _as_it_is(node: LoweredNode) -> str:
    """With the scales of the file, where those give its shape, else with sizes."""
    source, target = node.view.tensor(0).shape, node.outputs[0].shape
    stored = node.view.constant(2).reshape(-1) if node.has(2) and node.view.is_const(2) else np.zeros(0)
    scaled = len(stored) == len(source) and tuple(int(n * s) for n, s in zip(source, stored)) == target
    sizes = ["", node.const(stored)] if scaled else ["", "", node.ints(*target)]
    nearest = str(node.attrs.get("mode") or "nearest") == "nearest"
    how = {
        "mode": "nearest" if nearest else "linear",
        "coordinate_transformation_mode": str(
            node.attrs.get("coordinate_transformation_mode") or "half_pixel"
        ),
        "nearest_mode": str(node.attrs.get("nearest_mode") or "round_prefer_floor") if nearest else None,
    }
    return node.emit("Resize", node.real(0), *sizes, **how)


def _bilinear(node: LoweredNode, value: str, steps: Linear) -> str:
    """Four corners, added in the order of the reference."""
    rows, columns = steps.ends[2], steps.ends[3]
    total = ""
    for row, down in ((rows.low, rows.before), (rows.high, rows.after)):
        line = _gathered(node, value, row, 2)
        for column, across in ((columns.low, columns.before), (columns.high, columns.after)):
            corner = node.emit("Mul", _gathered(node, line, column, 3), node.const(across * down[:, None]))
            total = node.emit("Add", total, corner) if total else corner
    return total


def _linear(node: LoweredNode, value: str, steps: Linear) -> str:
    rank = len(node.outputs[0].shape)
    for axis, ends in steps.ends.items():
        shape = [-1 if i == axis else 1 for i in range(rank)]
        parts = [
            node.emit("Mul", _gathered(node, value, index, axis), node.const(weight.reshape(shape)))
            for index, weight in ((ends.low, ends.before), (ends.high, ends.after))
        ]
        value = node.emit("Add", *parts)
    return value


def _nearest(node: LoweredNode, value: str, steps: Mapping[int, Places]) -> str:
    """Whole factors as one Resize, which engines are fast with."""
    source, target = node.view.tensor(0).shape, node.outputs[0].shape
    repeated = all(
        np.array_equal(low, np.repeat(np.arange(source[axis]), target[axis] // source[axis]))
        for axis, low in steps.items()
    )
    if steps and repeated and len(source) == 4 and source[:2] == target[:2]:
        scales = node.const([b // a for a, b in zip(source, target)])
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
        return node.emit("Resize", value, "", scales, **how)
    for axis, low in steps.items():
        value = _gathered(node, value, low, axis)
    return value if steps else node.emit("Identity", value)


def _gathered(node: LoweredNode, value: str, places: Places, axis: int) -> str:
    """Along the last axis by way of the one before: single elements take engines 2 to 6 times as long as whole rows."""
    rank = len(node.outputs[0].shape)
    if axis < rank - 1 or rank < 2:
        return node.emit("Gather", value, node.const(places, np.int64), axis=axis)
    turn = [*range(rank - 2), rank - 1, rank - 2]
    turned = node.emit(
        "Gather", node.emit("Transpose", value, perm=turn), node.const(places, np.int64), axis=rank - 2
    )
    return node.emit("Transpose", turned, perm=turn)


_MODES = {"bicubic": "bicubic", "cubic": "bicubic", "nearest": "nearest"}


@lowers("GridSample")
def grid_sample(node: LoweredNode) -> None:
    how = {
        "align_corners": int(bool(node.attrs.get("align_corners", 0))),
        "mode": _MODES.get(str(node.attrs.get("mode")), "bilinear"),
        "padding_mode": str(node.attrs.get("padding_mode") or "zeros"),
    }
    if len(node.view.tensor(0).shape) != 4:
        raise node.refuse(f"rank {len(node.view.tensor(0).shape)}")
    node.store(node.emit("GridSample", node.real(0), node.real(1), **how))
