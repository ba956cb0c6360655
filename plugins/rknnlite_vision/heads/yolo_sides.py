"""Heads with distances to the four sides, of each stride: YOLOv6, v8, v9, v10, 11, 12, 26 and World, as Rockchip's zoo cuts them.

Each stride has a map of sides (4 numbers, or a distribution of each over bins), one of scores, maybe their sum; of networks
for masks also coefficients. Networks for poses and turned boxes have sides and scores in one map, and the rest in a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from .candidates import Candidates, every, passing, plausible
from .extras import Extra, Reader
from .head import Limits, Task
from .logits import refuse_logits
from .seen import Map, Seen
from .stored import Stored
from .yolo import Boxes, Yolo

__all__ = ["Sides", "Stride", "corners", "distances", "turned"]

Array = NDArray[Any]


@dataclass
class Stride:
    """The maps of one stride.

    Attributes:
        sides: [4 * bins, cells].
        scores: [classes, cells].
        total: the sum of the scores; None where there is none.
        coefficients: of masks; None where there are none.
        logits: the scores lack their sigmoid.
        corner: the sides are told from the corner of a cell, not from its middle.
    """

    sides: Map
    scores: Map
    total: Optional[Map] = None
    coefficients: Optional[Map] = None
    logits: bool = False
    corner: bool = False

    def __post_init__(self) -> None:
        self.sides_stored = Stored(self.sides.attr)
        self.scores_stored = Stored(self.scores.attr, self.logits)
        self.total_stored = None if self.total is None else Stored(self.total.attr)
        self.centres = self.sides.centres() - np.float32(0.5 if self.corner else 0)

    def passing(self, outputs: Sequence[Array], limits: Limits, one: bool = True) -> Candidates:
        """Cells whose score passes, with ``one`` class each."""
        table = self.scores.cells(outputs)
        refuse_logits(table[0], self.scores_stored)
        if self.logits or not one:
            return (passing if one else every)(table, self.scores_stored, limits)
        sums = None if self.total is None else self.total.cells(outputs)[0]
        return passing(table, self.scores_stored, limits, sums, self.total_stored, self.slack)

    @property
    def slack(self) -> float:
        """How much less than the best score a sum may be: both are rounded, to steps of their own."""
        return 0.0 if self.total_stored is None else 0.5 * (self.total_stored.step + self.scores_stored.step)


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


def turned(centres: Array, sides: Array, strides: Array, angles: Array) -> Array:
    """Turned boxes [n, 5] in pixels; distances are along the box's own axes."""
    x, y = (sides[2:] - sides[:2]) / 2
    cos, sin = np.cos(angles), np.sin(angles)
    middle = centres + np.stack([x * cos - y * sin, x * sin + y * cos])
    boxes: Array = np.concatenate([middle * strides, (sides[:2] + sides[2:]) * strides, angles[None]]).T
    return boxes.astype(np.float32)


class _Compiled(Protocol):
    """What computes the best boxes with something else than numpy; None where it cannot."""

    def best(self, outputs: Sequence[Array], limits: Limits) -> Optional[Array]: ...


class Sides(Yolo):
    """Sides and scores of each stride; with ``angles``, boxes are turned.

    Attributes:
        compiled: computes the same faster; None for numpy alone.
    """

    def __init__(
        self,
        seen: Seen,
        strides: Sequence[Stride],
        name: str,
        extra: Optional[Extra] = None,
        suppressed: bool = True,
        angles: Optional[Reader] = None,
    ) -> None:
        logits = any(s.logits for s in strides)
        super().__init__(seen, name, strides[0].scores.channels, extra, suppressed, logits)
        self.strides, self.angles = list(strides), angles
        self.starts = np.cumsum([0, *(s.sides.height * s.sides.width for s in strides)])
        self.compiled: Optional[_Compiled] = None
        if angles is not None:
            self.task = Task.ROTATED
            self.family += ", turned boxes"

    def _best(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        rows = None if self.compiled is None else self.compiled.best(outputs, limits)
        if rows is None:
            return super()._best(outputs, limits)
        plausible(rows[:, 4], self.family)
        kinds, places = rows.view(np.int32)[:, 5:].T
        return Boxes(rows[:, :4], rows[:, 4], kinds, places)

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        found = [(stride, stride.passing(outputs, limits, self.suppressed)) for stride in self.strides]
        counts = [len(f.cells) for _, f in found]
        if not sum(counts):
            return Boxes.none(4 if self.angles is None else 5)
        places = np.concatenate([f.cells + start for (_, f), start in zip(found, self.starts)])
        found = [(stride, f) for stride, f in found if len(f.cells)]
        bins = [s.sides_stored.real(s.sides.cells(outputs).take(f.cells, axis=1)) for s, f in found]
        centres = np.concatenate([s.centres.take(f.cells, axis=1) for s, f in found], axis=1)
        pixels = np.repeat(np.array([s.sides.stride for s in self.strides], np.float32), counts)
        sides = distances(np.concatenate(bins, axis=1))
        if self.angles is None:
            boxes = corners(centres, sides, pixels)
        else:
            angles = (self.angles(outputs, places)[0] - np.float32(0.25)) * np.float32(np.pi)
            boxes = turned(centres, sides, pixels, angles)
        scores = np.concatenate([f.scores for _, f in found])
        return Boxes(boxes, scores, np.concatenate([f.classes for _, f in found]), places)
