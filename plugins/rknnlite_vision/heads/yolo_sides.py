"""Heads with distances to the four sides: YOLOv6, v8, v9, v10, 11, 12, 26 and World, as Rockchip's model zoo cuts them.

Each stride has a map of sides (4 numbers, or a distribution of each over bins), one of scores, maybe their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..results import Detections
from .candidates import Candidates, passing, plausible
from .head import Head, Limits, Task
from .seen import Map, Seen
from .stored import Stored
from .suppression import best_upright

__all__ = ["Sides", "Stride", "corners", "distances", "sides"]

Array = NDArray[Any]
_NEVER_SUPPRESSED = ("yolov10", "yolo26")


@dataclass
class Stride:
    """The maps of one stride.

    Attributes:
        sides: [4 * bins, cells].
        scores: [classes, cells].
        total: the sum of the scores; None where there is none.
        coefficients: of masks; None where there are none.
        logits: the scores lack their sigmoid; None where only the numbers tell.
    """

    sides: Map
    scores: Map
    total: Optional[Map] = None
    coefficients: Optional[Map] = None
    logits: Optional[bool] = False

    def __post_init__(self) -> None:
        self.sides_stored = Stored(self.sides.attr)
        self.scores_stored = Stored(self.scores.attr)
        self.logits_stored = Stored(self.scores.attr, logits=True)
        self.total_stored = None if self.total is None else Stored(self.total.attr)
        self.centres = self.sides.centres()

    def passing(self, outputs: Sequence[Array], limits: Limits) -> Candidates:
        """Cells whose score passes."""
        table = self.scores.cells(outputs)
        logits = self.logits
        if logits is None:
            logits = are_logits(table)
        if logits:
            return passing(table, self.logits_stored, limits)
        sums = None if self.total is None else self.total.cells(outputs)[0]
        return passing(table, self.scores_stored, limits, sums, self.total_stored)


def are_logits(table: Array) -> bool:
    """Whether float scores are those before the sigmoid: behind it none is below zero, but what rounding of 8 bits left."""
    return bool(len(table) and table[0].min(initial=0) < -0.05)


def distances(bins: Array) -> Array:
    """[4 * bins, n] to the mean bin of each side [4, n]; four numbers are the distances themselves."""
    if len(bins) == 4:
        return bins
    bins = bins.reshape(4, len(bins) // 4, -1)
    with np.errstate(invalid="ignore"):
        weights = np.exp(bins - bins.max(axis=1, keepdims=True))
        means: Array = np.einsum("sbn,b->sn", weights, np.arange(bins.shape[1], dtype=np.float32))
        means /= weights.sum(axis=1)
    return means


def corners(centres: Array, sides: Array, strides: Array) -> Array:
    """Boxes [n, 4] in pixels, from centres [2, n] and distances [4, n] in cells of ``strides`` pixels."""
    boxes = np.empty((len(strides), 4), np.float32)
    np.multiply((centres - sides[:2]), strides, out=boxes[:, :2].T)
    np.multiply((centres + sides[2:]), strides, out=boxes[:, 2:].T)
    return boxes


class Sides(Head):
    """Boxes and scores of each stride in maps of their own."""

    task = Task.DETECT

    def __init__(self, seen: Seen, strides: Sequence[Stride], name: str, suppressed: bool = True) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size, self.strides, self.suppressed = seen.size, list(strides), suppressed
        self.classes = self.strides[0].scores.channels
        self.family = f"{name}, {len(seen.outputs)} outputs, {self.classes} classes"

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Detections:
        return self._rows(outputs, limits)[0]

    def _rows(self, outputs: Sequence[Array], limits: Limits) -> tuple[Detections, Array]:
        """What stays, and for each row the stride's number and the cell: [2, n]."""
        found = [stride.passing(outputs, limits) for stride in self.strides]
        counts = [len(f.cells) for f in found]
        if not sum(counts):
            return _NOTHING, np.zeros((2, 0), np.intp)
        parts = [(s, f) for s, f in zip(self.strides, found) if len(f.cells)]
        bins = [s.sides_stored.real(s.sides.cells(outputs).take(f.cells, axis=1)) for s, f in parts]
        centres = np.concatenate([s.centres.take(f.cells, axis=1) for s, f in parts], axis=1)
        pixels = np.repeat(np.array([s.sides.stride for s in self.strides], np.float32), counts)
        boxes = corners(centres, distances(np.concatenate(bins, axis=1)), pixels)
        scores = np.concatenate([f.scores for _, f in parts])
        classes = np.concatenate([f.classes for _, f in parts])
        places = np.stack(
            [np.repeat(np.arange(len(counts)), counts), np.concatenate([f.cells for f in found])]
        )
        numbers = np.isfinite(boxes).all(axis=1) & np.isfinite(scores)
        if not numbers.all():
            boxes, scores, classes, places = (
                boxes[numbers],
                scores[numbers],
                classes[numbers],
                places[:, numbers],
            )
        plausible(scores, self.family)
        if self.suppressed:
            kept = best_upright(boxes, scores, classes, limits)
        else:
            kept = np.argsort(-scores, kind="stable")[: limits.most]
        return Detections(boxes[kept], scores[kept], classes[kept]), places[:, kept]


_NOTHING = Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))


def strides_of(grids: Sequence[Sequence[Map]], extra: int = 0) -> Optional[list[Stride]]:
    """Which map of each grid is which; None where they are not those of such a head. ``extra``: coefficients per cell."""
    found = [_stride(maps, extra) for maps in grids]
    strides = [stride for stride in found if stride is not None]
    forms = {(s.sides.channels, s.scores.channels, s.total is None) for s in strides}
    return strides if len(strides) == len(grids) and len(forms) == 1 else None


def _stride(maps: Sequence[Map], extra: int) -> Optional[Stride]:
    left = list(maps)
    coefficients = None
    if extra:
        coefficients = next((m for m in reversed(left) if m.channels == extra), None)
        if coefficients is None:
            return None
        left.remove(coefficients)
    sides_map = _sides_map(left)
    if sides_map is None or len(left) not in (2, 3):
        return None
    left.remove(sides_map)
    total = next((m for m in reversed(left) if m.channels == 1), None) if len(left) == 2 else None
    if total is not None:
        left.remove(total)
    if len(left) != 1:
        return None
    return Stride(sides_map, left[0], total, coefficients, _logits(left[0]))


def _sides_map(maps: Sequence[Map]) -> Optional[Map]:
    """The one with 4 numbers, or 4 distributions over 16 or 17 bins; where the scores have as many, the first."""
    fitting = [m for m in maps if m.channels in (4, 64, 68)]
    ranged = [m for m in fitting if Stored(m.attr).range[1] > 2]
    return (ranged or fitting or [None])[0]


def _logits(scores: Map) -> Optional[bool]:
    """Whether scores lack their sigmoid: integers tell by what they can mean, floats only by their numbers (None)."""
    low, _ = Stored(scores.attr).range
    return None if low == -np.inf else low < -0.1


def sides(seen: Seen) -> Optional[Sides]:
    """The head for what is seen, or None."""
    if seen.rows or not seen.maps:
        return None
    strides = strides_of(seen.grids())
    if strides is None:
        return None
    bins = strides[0].sides.channels // 4
    named = _NAMES.get(seen.hint, "")
    if seen.hint in _NEVER_SUPPRESSED:
        return Sides(seen, strides, f"{named}, not suppressed", suppressed=False)
    form = named or (
        "YOLOv6 form (or 26, by hint)"
        if bins in (1, 17)
        else "YOLOv8 form (8, 9, 11, 12, World; or v10, by hint)"
    )
    return Sides(seen, strides, form)


_NAMES = {
    "yolov6": "YOLOv6",
    "yolov8": "YOLOv8",
    "yolov9": "YOLOv9",
    "yolov10": "YOLOv10",
    "yolo11": "YOLO11",
    "yolo12": "YOLO12",
    "yolo26": "YOLO26",
    "yoloworld": "YOLO-World",
}
