"""Where a Resize takes its elements from: every coordinate mode of ONNX, nearest and linear, with the stored scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from .node_view import NodeView

__all__ = ["Ends", "Linear", "coordinates", "nearest", "resize_steps"]

Array = NDArray[Any]
_PLACES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_NEIGHBOURS = ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")


class Ends(NamedTuple):
    """Along an axis, per output: its two neighbours and how much of each it has."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    before: NDArray[np.float32]
    after: NDArray[np.float32]


@dataclass(frozen=True)
class Linear:
    """A linear Resize by axis. With ``corners`` it is one sum of four products over axes 2 and 3, both of which are there:
    element (row, column) times its two weights' product, in the order low-low, low-high, high-low, high-high.
    """

    ends: Mapping[int, Ends]
    corners: bool


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


def resize_steps(view: NodeView) -> Linear | dict[int, NDArray[np.intp]]:
    """How a Resize goes; of a nearest one which element is taken, for each axis whose size changes; raises ModelInvalid."""
    source, target = view.tensor(0).shape, view.outputs[0].shape
    mode = view.choice("mode", "nearest", "linear")
    where = view.choice("coordinate_transformation_mode", *_PLACES)
    neighbour = view.choice("nearest_mode", *_NEIGHBOURS)
    if len(source) != len(target) or 0 in source:
        raise view.fail(f"cannot resize {list(source)} to {list(target)}")
    stored = view.constant(2).reshape(-1).tolist() if view.has(2) and view.is_const(2) else []
    places: dict[int, Array] = {}
    for axis, (size, count) in enumerate(zip(source, target)):
        scale = stored[axis] if len(stored) == len(source) and stored[axis] > 0 else count / size
        if size != count or scale != 1:
            places[axis] = coordinates(where, count, size, scale)
    if mode == "nearest":
        return {
            axis: np.clip(nearest(at, neighbour), 0, source[axis] - 1).astype(np.intp)
            for axis, at in places.items()
        }
    corners = len(source) == 4 and bool(places) and min(places) >= 2
    axes = (2, 3) if corners else places
    return Linear({axis: _ends(places.get(axis), source[axis], target[axis]) for axis in axes}, corners)


def _ends(position: Optional[Array], size: int, count: int) -> Ends:
    at = np.arange(count, dtype=np.float32) if position is None else position.astype(np.float32)
    at = np.clip(at, np.float32(0), np.float32(size - 1))
    low = np.floor(at).astype(np.intp)
    high = np.minimum(low + 1, size - 1)
    half = np.where(low == high, np.float32(0.5), np.float32(0))  # the last one, twice
    return Ends(low, high, np.abs(at - high.astype(np.float32)) + half, at - low.astype(np.float32) + half)
