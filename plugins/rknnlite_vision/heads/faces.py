"""Faces with five points: RetinaFace, SCRFD, YuNet."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.tensor import TensorAttr

from ..results import Detections
from .candidates import plausible
from .head import Head, Limits, Task
from .logits import SIGMOID, are_logits
from .seen import Seen
from .stored import Stored, logit, sigmoid
from .suppression import best_upright

__all__ = ["RetinaFace", "Scrfd", "YuNet", "retinaface", "scrfd", "yunet"]

Array = NDArray[Any]
_STRIDES = (8, 16, 32)
_SIDES = ((16, 32), (64, 128), (256, 512))
"""Pixels of RetinaFace's priors of each stride, as it is published."""


class _Faces(Head):
    """Tables with one row per place; ``order`` are the places of the outputs by what they hold, then by stride.

    Scores are probabilities, as the published exports have them, unless the file or the hint says otherwise (``are_logits``).
    """

    classes = 1

    def __init__(
        self, seen: Seen, name: str, order: Sequence[Sequence[int]], scores: Sequence[int], points: bool
    ) -> None:
        super().__init__(seen.inputs, seen.outputs)
        scored = {number for kind in scores for number in order[kind]}
        self._stored = [
            Stored(attr, n in scored and are_logits(attr, seen.activation))
            for n, attr in enumerate(self.outputs)
        ]
        self.size, self._order, self._points = seen.size, order, points
        self.task = Task.POSE if points else Task.DETECT
        self.family = f"{name}, {len(seen.outputs)} outputs, faces" + (" with 5 points" if points else "")
        if any(stored.logits for stored in self._stored):
            self.family += SIGMOID if len(scored) > 1 else ", softmax to come"

    @abc.abstractmethod
    def _scored(self, outputs: Sequence[Array], least: float) -> tuple[Array, Array]:
        """Places in rising order that may have a score of ``least``, and their scores: found in the numbers as they are stored."""

    @abc.abstractmethod
    def _places(self, outputs: Sequence[Array], rows: Array) -> tuple[Array, Array]:
        """Boxes [n, 4] and points [n, 5, 2] of some places, in pixels."""

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Detections:
        with np.errstate(invalid="ignore", over="ignore"):  # numbers that are none take their boxes with them
            rows, scores = self._scored(outputs, limits.score)
            passed = scores >= np.float32(limits.score)
            rows, scores = rows[passed], scores[passed]
            boxes, points = self._places(outputs, rows)
            right = (
                np.isfinite(boxes).all(axis=1) & np.isfinite(points).all(axis=(1, 2)) & np.isfinite(scores)
            )
            boxes, points, scores = boxes[right], points[right], scores[right]
            plausible(scores, self.family)
            kinds = np.zeros(len(scores), np.int64)
            kept = best_upright(boxes, scores, kinds, limits)
        marked = np.concatenate([points, np.repeat(scores[:, None, None], points.shape[1], axis=1)], axis=2)
        return Detections(boxes[kept], scores[kept], kinds[kept], marked[kept] if self._points else None)

    def _joined(self, outputs: Sequence[Array], what: int, rows: Array) -> Array:
        """Real numbers of one kind, [rows, numbers], of some places in rising order."""
        taken, first = [], 0
        for n in self._order[what]:
            table = outputs[n][0]
            own = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(table))]
            taken.append(self._stored[n].real(table[own - first]))
            first += len(table)
        joined: Array = np.concatenate(taken)
        return joined


class RetinaFace(_Faces):
    """Offsets from priors: two of each cell, three strides. Two scores, background and face: logits or probabilities.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 32, 32, 3), DType.UINT8, Layout.NHWC)
        >>> tables = [TensorAttr(n, "", (1, 42, k), DType.FLOAT32, Layout.UNDEFINED) for n, k in enumerate((4, 2, 10))]
        >>> recognise([image], tables).family
        'RetinaFace, 3 outputs, faces with 5 points'
    """

    def __init__(self, seen: Seen, order: Sequence[Sequence[int]]) -> None:
        super().__init__(seen, "RetinaFace", order, (1,), points=True)
        cells = [_corners(self.size, s, 2) + np.float32(s / 2) for s in _STRIDES]
        self._middles = np.concatenate(cells)
        sides = [np.tile(np.array(two, np.float32), len(c) // 2) for two, c in zip(_SIDES, cells)]
        self._sides = np.concatenate(sides)[:, None]

    def _scored(self, outputs: Sequence[Array], least: float) -> tuple[Array, Array]:
        number = self._order[1][0]
        stored, table = self._stored[number], self._stored[number].ordered(outputs[number][0])
        if not stored.logits:
            rows = np.flatnonzero(table[:, 1] >= stored.least(least, table.dtype))
            return rows, stored.real(table[rows, 1])
        margin = logit(least)  # a softmax over two is the sigmoid of their difference
        if table.dtype.kind in "iu":
            margin, wide = margin / float(stored.scale), table.astype(np.int32)
        else:
            wide = table.astype(np.float32, copy=False)
        rows = np.flatnonzero(wide[:, 1] - wide[:, 0] >= margin)
        both = stored.real(table[rows])
        return rows, sigmoid(both[:, 1] - both[:, 0])

    def _places(self, outputs: Sequence[Array], rows: Array) -> tuple[Array, Array]:
        middles, sides = self._middles[rows], self._sides[rows]
        moved = self._joined(outputs, 0, rows)
        middle = middles + moved[:, :2] * np.float32(0.1) * sides
        half = sides * np.exp(moved[:, 2:] * np.float32(0.2)) / 2
        points = self._joined(outputs, 2, rows).reshape(-1, 5, 2)
        return (
            np.concatenate([middle - half, middle + half], axis=1),
            middles[:, None] + points * np.float32(0.1) * sides[:, None],
        )


class _OfStrides(_Faces):
    """Outputs of each stride, in units of it."""

    def __init__(
        self,
        seen: Seen,
        name: str,
        order: Sequence[Sequence[int]],
        scores: Sequence[int],
        points: bool,
        anchors: int,
    ) -> None:
        super().__init__(seen, name, order, scores, points)
        corners = [_corners(self.size, s, anchors) for s in _STRIDES]
        self._corners = np.concatenate(corners)
        strides = [np.full(len(c), s, np.float32) for s, c in zip(_STRIDES, corners)]
        self._strides = np.concatenate(strides)[:, None]

    def decode(self, outputs: Sequence[Array], limits: Limits = Limits()) -> list[Any]:
        if all(len(attr.dims) == 3 for attr in self.outputs):
            return super().decode(outputs, limits)
        self._checked(outputs)
        return [self._picture([array.reshape(1, -1, array.shape[-1]) for array in outputs], limits)]

    def _checked(self, outputs: Sequence[Array]) -> None:
        """Exports without a batch: their first dimension is that of places."""
        wanted = [tuple(attr.dims) for attr in self.outputs]
        if [array.shape for array in outputs] != wanted:
            raise InputInvalid(f"{self.family}: outputs are {[a.shape for a in outputs]}, must be {wanted}")

    def _passing(self, outputs: Sequence[Array], what: int, least: float) -> Array:
        """bool [places]: which numbers of one kind mean a score of ``least``, compared as they are stored."""
        found = []
        for n in self._order[what]:
            stored = self._stored[n]
            table = stored.ordered(outputs[n][0])[:, 0]
            found.append(table >= stored.least(least, table.dtype))
        return np.concatenate(found)

    def _real_scores(self, outputs: Sequence[Array], what: int, rows: Array) -> Array:
        values = self._joined(outputs, what, rows)[:, 0]
        return sigmoid(values) if self._stored[self._order[what][0]].logits else values

    def _marks(self, outputs: Sequence[Array], what: int, rows: Array) -> Array:
        if not self._points:
            return np.zeros((len(rows), 0, 2), np.float32)
        points = self._joined(outputs, what, rows).reshape(-1, 5, 2)
        marks: Array = self._corners[rows][:, None] + points * self._strides[rows][:, None]
        return marks


class Scrfd(_OfStrides):
    """Distances to the sides from the corner of the cell, two anchors of each.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 32, 32, 3), DType.UINT8, Layout.NHWC)
        >>> shapes = [(1, 2 * cells, k) for k in (1, 4, 10) for cells in (16, 4, 1)]
        >>> tables = [TensorAttr(n, "", s, DType.FLOAT32, Layout.UNDEFINED) for n, s in enumerate(shapes)]
        >>> recognise([image], tables).family
        'SCRFD, 9 outputs, faces with 5 points'
    """

    def _scored(self, outputs: Sequence[Array], least: float) -> tuple[Array, Array]:
        rows = np.flatnonzero(self._passing(outputs, 0, least))
        return rows, self._real_scores(outputs, 0, rows)

    def _places(self, outputs: Sequence[Array], rows: Array) -> tuple[Array, Array]:
        sides = self._joined(outputs, 1, rows) * self._strides[rows]
        corner = self._corners[rows]
        boxes = np.concatenate([corner - sides[:, :2], corner + sides[:, 2:]], axis=1)
        return boxes, self._marks(outputs, 2, rows)


class YuNet(_OfStrides):
    """Middle and size of each cell; the score is the geometric mean of class and objectness.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> from rknnlite_vision.heads.recognise import recognise
        >>> image = TensorAttr(0, "image", (1, 32, 32, 3), DType.UINT8, Layout.NHWC)
        >>> shapes = [(1, cells, k) for k in (1, 1, 4, 10) for cells in (16, 4, 1)]
        >>> tables = [TensorAttr(n, "", s, DType.FLOAT32, Layout.UNDEFINED) for n, s in enumerate(shapes)]
        >>> recognise([image], tables).family
        'YuNet, 12 outputs, faces with 5 points'
    """

    def _scored(self, outputs: Sequence[Array], least: float) -> tuple[Array, Array]:
        each = least**2 * (1 - 1e-6)  # neither counts for more than 1, so both reach the square
        rows = np.flatnonzero(self._passing(outputs, 0, each) & self._passing(outputs, 1, each))
        kind, thing = (self._real_scores(outputs, n, rows).clip(0, 1) for n in (0, 1))
        return rows, np.sqrt(kind * thing)

    def _places(self, outputs: Sequence[Array], rows: Array) -> tuple[Array, Array]:
        moved, strides = self._joined(outputs, 2, rows), self._strides[rows]
        middle, half = self._corners[rows] + moved[:, :2] * strides, np.exp(moved[:, 2:]) * strides / 2
        return np.concatenate([middle - half, middle + half], axis=1), self._marks(outputs, 3, rows)


def retinaface(seen: Seen) -> Optional[Head]:
    """Three tables of all priors: 4, 2 and 10 numbers."""
    if len(seen.outputs) != 3 or 0 in seen.size or any(len(attr.dims) != 3 for attr in seen.outputs):
        return None
    places = sum(_cells(seen.size, 2))
    order = [
        [n for n, a in enumerate(seen.outputs) if tuple(a.dims[1:]) == (places, count)]
        for count in (4, 2, 10)
    ]
    return RetinaFace(seen, order) if all(len(found) == 1 for found in order) else None


def scrfd(seen: Seen) -> Optional[Head]:
    """Of three strides 1, 4 and mostly 10 numbers of two anchors per cell."""
    for points in (True, False):
        order = _by_stride(seen, (1, 4, 10) if points else (1, 4), 2)
        if order:
            return Scrfd(seen, "SCRFD", order, (0,), points, 2)
    return None


def yunet(seen: Seen) -> Optional[Head]:
    """Of three strides 1, 1, 4 and 10 numbers per cell."""
    order = _by_stride(seen, (1, 1, 4, 10), 1)
    return YuNet(seen, "YuNet", order, (0, 1), True, 1) if order else None


def _by_stride(seen: Seen, counts: Sequence[int], anchors: int) -> Optional[list[list[int]]]:
    """Places of the outputs, a list for each kind; None where an output is missing or over."""
    if 0 in seen.size or len(seen.outputs) != len(counts) * len(_STRIDES):
        return None
    left = list(range(len(seen.outputs)))
    order: list[list[int]] = []
    for count in counts:
        order.append([])
        for cells in _cells(seen.size, anchors):
            found = next((n for n in left if _is_table(seen.outputs[n], cells, count)), None)
            if found is None:
                return None
            left.remove(found)
            order[-1].append(found)
    return order


def _is_table(attr: TensorAttr, rows: int, count: int) -> bool:
    return tuple(attr.dims[-2:]) == (rows, count) and len(attr.dims) in (2, 3)


def _cells(size: tuple[int, int], anchors: int) -> list[int]:
    return [-(-size[0] // s) * -(-size[1] // s) * anchors for s in _STRIDES]


def _corners(size: tuple[int, int], stride: int, anchors: int) -> Array:
    """float32 [cells * anchors, 2]: x and y of the corner of each cell in pixels, row by row."""
    x, y = np.meshgrid(np.arange(-(-size[0] // stride)), np.arange(-(-size[1] // stride)))
    corners = np.stack([x.ravel(), y.ravel()], axis=1).repeat(anchors, axis=0) * stride
    return corners.astype(np.float32)
