"""YOLOv5 and v7 as Rockchip's model zoo cuts them: of each stride one map of boxes about anchors; with masks for v5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .candidates import objects
from .extras import Cells, Extra, Masks
from .head import Limits
from .logits import are_logits, refuse_logits
from .seen import Map, Seen
from .stored import Stored
from .yolo import Boxes, Yolo
from .yolo_zoo import prototypes_of

__all__ = ["ANCHORS", "Anchored", "anchored", "anchored_masks"]

Array = NDArray[Any]
ANCHORS = {
    "yolov5": (
        ((10, 13), (16, 30), (33, 23)),
        ((30, 61), (62, 45), (59, 119)),
        ((116, 90), (156, 198), (373, 326)),
    ),
    "yolov7": (
        ((12, 16), (19, 36), (40, 28)),
        ((36, 75), (76, 55), (72, 146)),
        ((142, 110), (192, 243), (459, 401)),
    ),
}
"""Width and height in pixels, of each stride three: those that the networks for COCO were trained with."""


class Anchored(Yolo):
    """Centre, size, objectness and scores of each anchor in each cell."""

    def __init__(
        self, seen: Seen, maps: Sequence[Map], anchors: Array, name: str, extra: Optional[Extra] = None
    ) -> None:
        each = anchors.shape[1]
        logits = any(are_logits(m.attr, seen.activation) for m in maps)
        super().__init__(seen, name, maps[0].channels // each - 5, extra, logits=logits)
        self.maps, self.anchors = list(maps), anchors
        self.stored = [Stored(m.attr, logits) for m in maps]

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        start, parts = 0, []
        for number, m in enumerate(self.maps):
            parts.append(self._stride(number, m, outputs, limits, start))
            start += m.height * m.width * self.anchors.shape[1]
        return Boxes(*(np.concatenate([getattr(p, name) for p in parts]) for name in Boxes.__annotations__))

    def _stride(self, number: int, m: Map, outputs: Sequence[Array], limits: Limits, start: int) -> Boxes:
        table = m.cells(outputs).reshape(self.anchors.shape[1], self.classes + 5, -1)
        stored = self.stored[number]
        refuse_logits(table[0, 4], stored)
        found = objects(table, stored, limits)
        anchor, cell = np.divmod(found.cells, table.shape[2])
        x, y, w, h = stored.scores(table[anchor, :4, cell]).T * 2
        column, row = cell % m.width, cell // m.width
        centre = np.stack([x - 0.5 + column, y - 0.5 + row]).astype(np.float32) * np.float32(m.stride)
        half = np.stack([w, h]) ** 2 * self.anchors[number][anchor].T / 2
        boxes = np.concatenate([centre - half, centre + half]).T
        return Boxes(boxes, found.scores, found.classes, found.cells + start)


def anchored(family: str, seen: Seen) -> Optional[Anchored]:
    """The head of ``family`` for what is seen, or None."""
    table = _anchors(family, seen)
    same = (
        seen.anchors is not None and not seen.hint and family != "yolov5"
    )  # with given anchors there is no difference
    if seen.rows or same:
        return None
    maps = _maps(seen.grids(), table)
    return Anchored(seen, maps, table, _name(family, seen)) if maps else None


def anchored_masks(seen: Seen) -> Optional[Anchored]:
    """YOLOv5 with coefficients of masks in a second map of each stride, and prototypes."""
    found, table = prototypes_of(seen), _anchors("yolov5", seen)
    if found is None or seen.rows:
        return None
    prototypes, maps = found
    wanted = prototypes.channels * table.shape[1]
    weights = [m for m in maps if m.channels == wanted]
    boxes = _maps(seen.grids([m for m in maps if m.channels != wanted]), table)
    if len(weights) != len(boxes) or not boxes:
        return None
    weights.sort(key=lambda m: m.stride)
    return Anchored(
        seen, boxes, table, _name("yolov5", seen), Masks(Cells(weights, table.shape[1]), prototypes)
    )


def _anchors(family: str, seen: Seen) -> Array:
    return np.array(ANCHORS[family] if seen.anchors is None else seen.anchors, np.float32)


def _name(family: str, seen: Seen) -> str:
    if seen.anchors is not None:
        return "YOLOv5 form (5, 7), given anchors"
    return {"yolov5": "YOLOv5, its anchors for COCO", "yolov7": "YOLOv7, its anchors for COCO"}[family]


def _maps(grids: Sequence[Sequence[Map]], anchors: Array) -> list[Map]:
    """One map of each stride, with room for the anchors; empty where they are not."""
    maps = [grid[0] for grid in grids if len(grid) == 1]
    if len(maps) != len(grids) or anchors.ndim != 3 or len(maps) != len(anchors) or not maps:
        return []
    (channels, *other) = {m.channels for m in maps}
    each, left = divmod(channels, anchors.shape[1])
    return maps if not other and not left and each > 5 else []
