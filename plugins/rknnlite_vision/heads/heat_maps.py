"""Keypoints of the one person that fills the picture: a map for each point, largest where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..results import Detections
from .head import Head, Limits, Task
from .seen import Map, Seen
from .stored import Stored

__all__ = ["HeatMaps", "heat_maps"]

Array = NDArray[Any]
_PEOPLE = 17
_STRIDE = 4


class HeatMaps(Head):
    """The largest cell of each map, and a quarter of a cell towards the larger of its neighbours where it has both.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> picture = TensorAttr(0, "image", (1, 256, 192, 3), DType.UINT8, Layout.NHWC)
        >>> maps = TensorAttr(0, "maps", (1, 17, 64, 48), DType.FLOAT32, Layout.NCHW)
        >>> heat_maps(Seen([picture], [maps])).family
        'heat maps, 17 keypoints of one person'
    """

    task, classes = Task.POSE, 1

    def __init__(self, seen: Seen, points: Map) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size, self._map, self._stored = seen.size, points, Stored(points.attr)
        self.family = f"heat maps, {points.channels} keypoints of one person"

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Detections:
        m = self._map
        maps = self._stored.ordered(m.cells(outputs))
        if maps.dtype.kind == "f":
            maps = np.where(np.isfinite(maps), maps, np.array(-np.inf, maps.dtype))
        best = maps.argmax(axis=1)
        scores = self._stored.real(maps[np.arange(m.channels), best])
        y, x = np.divmod(best, m.width)
        grid = maps.reshape(m.channels, m.height, m.width)
        places = np.stack([x + _towards(grid, y, x, 1), y + _towards(grid, y, x, 0)], axis=1) * m.stride
        known = np.isfinite(scores)
        points = np.concatenate([places, scores[:, None]], axis=1)
        points[~known] = 0
        score = points[:, 2].mean()
        kept = slice(0, int(score >= limits.score and limits.most > 0))
        box = np.array([[0, 0, *self.size]], np.float32)
        return Detections(box, np.array([score]), np.zeros(1, np.int64), points[None])[kept]


def _towards(grid: Array, y: Array, x: Array, across: int) -> Array:
    """A quarter towards the larger neighbour: left or right where ``across``, else above or below; 0 at the edge."""
    at, size = (x if across else y), grid.shape[1 + across]
    inside = (at > 0) & (at < size - 1)
    n = np.arange(len(grid))
    before, behind = np.clip(at - 1, 0, size - 1), np.clip(at + 1, 0, size - 1)
    less, more = (grid[n, y, p] if across else grid[n, p, x] for p in (before, behind))
    moved: Array = 0.25 * inside * ((more > less).astype(np.float32) - (more < less))
    return moved


def heat_maps(seen: Seen) -> Optional[HeatMaps]:
    """One map of a fourth of the sides: of 17 channels, or of any number by hint."""
    if len(seen.maps) != 1 or seen.rows or (not seen.hint and seen.maps[0].channels != _PEOPLE):
        return None
    return HeatMaps(seen, seen.maps[0]) if seen.maps[0].stride == _STRIDE else None
