"""Resize and grid sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rknnlite.graph.resizing import AxisStep, resize_steps

from ..registry import LoweredNode, lowers

__all__: list[str] = []


@lowers("Resize", "Upsample")
def resize(node: LoweredNode) -> None:
    """Axis by axis, with stored places, where the bytes count: engines differ in how they compute those."""
    steps = resize_steps(node.view)
    if not node.exact and node.attrs.get("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        node.store(_as_it_is(node))
        return
    if all(step.weight is None for step in steps):
        value, rep = node.moving()
        node.moved(_nearest(node, value, steps), rep)
        return
    node.store(_along_axes(node, node.real(0), steps))


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


def _along_axes(node: LoweredNode, value: str, steps: list[AxisStep]) -> str:
    """Axis by axis; the last is turned to where whole rows are copied: single elements take engines 2 to 6 times as long."""
    rank = len(node.outputs[0].shape)
    turn = [*range(rank - 2), rank - 1, rank - 2]
    for step in steps:
        if step.axis < rank - 1 or rank < 2:
            value = _step(node, value, step, step.axis)
            continue
        turned = _step(node, node.emit("Transpose", value, perm=turn), step, rank - 2)
        value = node.emit("Transpose", turned, perm=turn)
    return value


def _step(node: LoweredNode, value: str, step: AxisStep, axis: int) -> str:
    """One axis, which lies at ``axis``."""
    below = _gathered(node, value, step.low, axis)
    if step.high is None or step.weight is None:
        return below
    rank = len(node.outputs[0].shape)
    weight = step.weight.reshape([-1 if i == axis else 1 for i in range(rank)])
    rise = node.emit("Sub", _gathered(node, value, step.high, axis), below)
    return node.emit("Add", below, node.emit("Mul", rise, node.const(weight)))


def _nearest(node: LoweredNode, value: str, steps: list[AxisStep]) -> str:
    """Whole factors as one Resize, which engines are fast with."""
    source, target = node.view.tensor(0).shape, node.outputs[0].shape
    repeated = all(
        np.array_equal(step.low, np.repeat(np.arange(source[step.axis]), target[step.axis] // source[step.axis]))
        for step in steps
    )  # fmt: skip
    if steps and repeated and len(source) == 4 and source[:2] == target[:2]:
        scales = node.const([b // a for a, b in zip(source, target)])
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
        return node.emit("Resize", value, "", scales, **how)
    return _along_axes(node, value, steps) if steps else node.emit("Identity", value)


def _gathered(node: LoweredNode, value: str, places: NDArray[np.intp], axis: int) -> str:
    return node.emit("Gather", value, node.const(places, np.int64), axis=axis)


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
