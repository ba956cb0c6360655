"""Keypoints of the one person that fills the picture: each is where the numbers of its map, or of its two axes, are largest."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import TensorAttr

from ..results import Detections
from .head import Head, Limits, Task
from .seen import Map, Seen
from .stored import Stored

__all__ = ["HeatMaps", "SimCC", "heat_maps", "simcc"]

Array = NDArray[Any]
_PEOPLE = 17
_STRIDE = 4
_FINEST = 4
"""Cells of an axis for one pixel, at most."""


class _OnePerson(Head):
    """Keypoints, and as the score of the person the mean of theirs."""

    task, classes = Task.POSE, 1

    @abc.abstractmethod
    def _points(self, outputs: Sequence[Array]) -> tuple[Array, Array]:
        """Places [k, 2] in pixels and scores [k]; those of unknown points are not finite."""

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Detections:
        places, scores = self._points(outputs)
        points = np.concatenate([places, scores[:, None]], axis=1)
        points[~np.isfinite(scores)] = 0
        score = points[:, 2].mean()
        kept = slice(0, int(score >= limits.score and limits.most > 0))
        box = np.array([[0, 0, *self.size]], np.float32)
        return Detections(box, np.array([score]), np.zeros(1, np.int64), points[None])[kept]


class HeatMaps(_OnePerson):
    """The largest cell of each map, and a quarter of a cell towards the larger of its neighbours, as mmpose decodes them.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> picture = TensorAttr(0, "image", (1, 256, 192, 3), DType.UINT8, Layout.NHWC)
        >>> maps = TensorAttr(0, "maps", (1, 17, 64, 48), DType.FLOAT32, Layout.NCHW)
        >>> heat_maps(Seen([picture], [maps])).family
        'heat maps, 17 keypoints of one person'
    """

    def __init__(self, seen: Seen, points: Map) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size, self._map, self._stored = seen.size, points, Stored(points.attr)
        self.family = f"heat maps, {points.channels} keypoints of one person"

    def _points(self, outputs: Sequence[Array]) -> tuple[Array, Array]:
        m = self._map
        best, scores, maps = _largest(m.cells(outputs), self._stored)
        y, x = np.divmod(best, m.width)
        grid = maps.reshape(m.channels, m.height, m.width)
        places = np.stack([x + _towards(grid, y, x, 1), y + _towards(grid, y, x, 0)], axis=1) * m.stride
        return places, scores


class SimCC(_OnePerson):
    """Two outputs, [1, points, cells] across and down: the largest cell of each. The score is the mean of both, as in rtmlib.

    What RTMPose gives.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> picture = TensorAttr(0, "image", (1, 256, 192, 3), DType.UINT8, Layout.NHWC)
        >>> shapes = {"simcc_x": (1, 17, 384), "simcc_y": (1, 17, 512)}
        >>> axes = [TensorAttr(n, k, d, DType.FLOAT32, Layout.UNDEFINED) for n, (k, d) in enumerate(shapes.items())]
        >>> head = simcc(Seen([picture], axes))
        >>> x, y = (np.zeros(dims, np.float32) for dims in shapes.values())
        >>> x[..., 50], y[..., 101] = 0.75, 0.25
        >>> head.family, head.decode([x, y])[0].keypoints[0, 16].tolist()
        ('SimCC, 17 keypoints of one person', [25.0, 50.5, 0.5])
    """

    def __init__(self, seen: Seen, x: TensorAttr, y: TensorAttr) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size = seen.size
        self._axes = [
            (seen.index(attr), Stored(attr), attr.dims[2] / n) for attr, n in zip((x, y), self.size)
        ]
        self.family = f"SimCC, {x.dims[1]} keypoints of one person"

    def _points(self, outputs: Sequence[Array]) -> tuple[Array, Array]:
        places, scores = [], []
        for index, stored, cells in self._axes:
            best, score, _ = _largest(outputs[index][0], stored)
            places.append(best / cells)
            scores.append(score)
        return np.stack(places, axis=1), (scores[0] + scores[1]) / 2


def _largest(table: Array, stored: Stored) -> tuple[Array, Array, Array]:
    """Of [k, cells] as stored the largest cell of each row, its real number, and the rows as they compare."""
    table = stored.ordered(table)
    if table.dtype.kind == "f":
        table = np.where(np.isfinite(table), table, np.array(-np.inf, table.dtype))
    best = table.argmax(axis=1)
    return best, stored.real(table[np.arange(len(best)), best]), table


def _towards(grid: Array, y: Array, x: Array, across: int) -> Array:
    """A quarter towards the larger neighbour: left or right where ``across``, else above or below.

    0 at the edges of the map, and next to those on the left and top.
    """
    at, other, size = (x, y, grid.shape[2]) if across else (y, x, grid.shape[1])
    inside = (at > 1) & (at < size - 1) & (other > 0)
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


def simcc(seen: Seen) -> Optional[SimCC]:
    """Two outputs with a row for each point: of as many cells as the picture is wide and high, or a multiple of both.

    Of a square picture the first is the one across, as networks give them, unless names end in y and x.
    """
    attrs = seen.outputs
    if len(attrs) != 2 or 0 in seen.size or attrs[0].dims[:2] != attrs[1].dims[:2]:
        return None
    if any(len(a.dims) != 3 for a in attrs):
        return None
    fitting = [(x, y) for x, y in (attrs, attrs[::-1]) if _multiple(seen.size, x, y)]
    if len(fitting) == 2 and [a.name[-1:] for a in attrs] == ["y", "x"]:
        fitting.reverse()
    return SimCC(seen, *fitting[0]) if fitting else None


def _multiple(size: tuple[int, int], x: TensorAttr, y: TensorAttr) -> bool:
    times = range(1, _FINEST + 1)
    return any((x.dims[2], y.dims[2]) == (size[0] * n, size[1] * n) for n in times)
