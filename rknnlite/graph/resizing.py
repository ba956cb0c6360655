"""Where a Resize takes its elements from: every coordinate mode of ONNX, nearest and linear, with the stored scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .view import NodeView

__all__ = ["AxisStep", "coordinates", "nearest", "resize_steps"]

Array = NDArray[Any]
_PLACES = (
    "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
_NEIGHBOURS = ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")


@dataclass(frozen=True)
class AxisStep:
    """One axis of a Resize: elements ``low``, or ``low + (high - low) * weight``, whose shape broadcasts."""

    axis: int
    low: NDArray[np.intp]
    high: Optional[NDArray[np.intp]] = None
    weight: Optional[NDArray[np.float32]] = None


def coordinates(mode: str, count: int, size: int, scale: float) -> Array:
    """Source coordinate of each of ``count`` outputs along an axis of ``size`` inputs."""
    i = np.arange(count, dtype=np.float32)
    step: Array = np.asarray(scale, np.float32)  # float32: 3 / 0.6 is 5, not 4.9999998
    if mode == "asymmetric":
        return i / step
    if mode == "align_corners":
        return i * np.float32(size - 1) / np.float32(count - 1) if count > 1 else np.zeros(count)
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(count)
    middle: Array = (i + np.float32(0.5)) / step
    return middle if mode == "tf_half_pixel_for_nn" else middle - np.float32(0.5)


def nearest(position: Array, mode: str) -> Array:
    """Which neighbour, by ONNX ``nearest_mode``."""
    if mode == "floor":
        return np.floor(position)
    if mode == "ceil":
        return np.ceil(position)
    if mode == "round_prefer_ceil":
        return np.floor(position + 0.5)
    return np.ceil(position - 0.5)


def resize_steps(view: NodeView) -> list[AxisStep]:
    """The axes whose size changes, in the order in which they are resized; raises ModelInvalid."""
    source, target = view.tensor(0), view.outputs[0]
    mode = view.choice("mode", "nearest", "linear")
    where = view.choice("coordinate_transformation_mode", *_PLACES)
    neighbour = view.choice("nearest_mode", *_NEIGHBOURS)
    if len(source.shape) != len(target.shape) or 0 in source.shape:
        raise view.fail(f"cannot resize {list(source.shape)} to {list(target.shape)}")
    stored = view.constant(2).reshape(-1).tolist() if view.has(2) and view.is_const(2) else []
    steps = []
    for axis, (size, count) in enumerate(zip(source.shape, target.shape)):
        scale = stored[axis] if len(stored) == len(source.shape) and stored[axis] > 0 else count / size
        if size == count and scale == 1:
            continue
        position = coordinates(where, count, size, scale)
        if mode == "nearest":
            index = nearest(position, neighbour)
            steps.append(AxisStep(axis, np.clip(index, 0, size - 1).astype(np.intp)))
            continue
        position = np.clip(position, 0, size - 1)
        low = np.floor(position).astype(np.intp)
        shape = [-1 if i == axis else 1 for i in range(len(source.shape))]
        weight = (position - low).astype(np.float32).reshape(shape)
        steps.append(AxisStep(axis, low, np.minimum(low + 1, size - 1), weight))
    return steps
