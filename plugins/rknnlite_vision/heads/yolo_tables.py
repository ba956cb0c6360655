"""YOLO with its boxes decoded in the network, in one table: what ultralytics exports, and the exports of YOLOv5 and v6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.tensor import TensorAttr

from .candidates import objects, passing
from .extras import Columns, Extra, Keypoints, Masks, RowColumns, Scaled
from .head import Limits, Task, UnknownHead
from .logits import are_logits, refuse_logits
from .seen import Seen
from .stored import Stored
from .yolo import Boxes, Yolo
from .yolo_zoo import prototypes_of

__all__ = [
    "SHARES",
    "Rows",
    "Table",
    "WithObjectness",
    "about_centres",
    "numbered",
    "precise",
    "rows",
    "table",
    "table_pose",
    "table_rotated",
    "with_objectness",
]

Array = NDArray[Any]
_PEOPLE, _AERIAL = 4 + 1 + 17 * 3, 4 + 15 + 1
"""Numbers of a box that public networks for poses and turned boxes have, and hardly any for boxes alone."""

_MOST_CLASSES = 1e6

_FIRST = 16
"""Pixels that integers of places must reach; what shares one scale with shares of the picture is smaller: angles, coefficients."""

_EXPORT = "export the network with its places in pixels, as for ONNX"

_ROWS = 300
"""Rows that such networks give unless they were exported for another number."""


def about_centres(boxes: Array) -> Array:
    """Centres and sizes [4, n] as corners [n, 4]."""
    half = boxes[2:] / 2
    return np.concatenate([boxes[:2] - half, boxes[:2] + half]).T


class Table(Yolo):
    """[1, 4 + classes + more, boxes]: centre, size, scores.

    Places are pixels, but integers that cannot mean any but the first ones are shares of the picture: ultralytics divides by its
    size where it exports for RKNN with ``quantize=8``, so that scores keep fine steps.
    """

    def __init__(
        self, seen: Seen, attr: TensorAttr, classes: int, extra: Optional[Extra], turned: bool = False
    ) -> None:
        logits = are_logits(attr, seen.activation, alone=False)
        super().__init__(
            seen, "YOLOv8 form (8, 9, 11, 12, 26, World), decoded", classes, extra, logits=logits
        )
        self.index, self.stored, self.turned = seen.index(attr), Stored(attr, logits), turned
        self._pixels = _pixels(attr, self.size)
        if self._pixels != (1, 1):
            self.family += ", shares of the picture"
        if turned:
            self.task = Task.ROTATED
            self.family += ", turned boxes"

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        table = outputs[self.index][0]
        refuse_logits(table[4], self.stored)
        found = passing(table[4 : 4 + self.classes], self.stored, limits)
        boxes = self.stored.real(table[:4].take(found.cells, axis=1))
        if self._pixels != (1, 1):
            boxes *= np.array(self._pixels * 2, np.float32)[:, None]
        else:
            refuse_shares(boxes.T, self.family, _EXPORT)
        if self.turned:
            angle = self.stored.real(table[-1:].take(found.cells, axis=1))
            return Boxes(np.concatenate([boxes, angle]).T, found.scores, found.classes, found.cells)
        return Boxes(about_centres(boxes), found.scores, found.classes, found.cells)


class WithObjectness(Yolo):
    """[1, boxes, 4 + 1 + classes + more]: centre, size, objectness, scores."""

    def __init__(
        self, seen: Seen, attr: TensorAttr, name: str, classes: int, extra: Optional[Extra] = None
    ) -> None:
        logits = are_logits(attr, seen.activation, alone=False)
        super().__init__(seen, name, classes, extra, logits=logits)
        self.index, self.stored = seen.index(attr), Stored(attr, logits)

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        table = outputs[self.index][0].T[None]
        refuse_logits(table[0, 4], self.stored)
        found = objects(table[:, : 5 + self.classes], self.stored, limits)
        boxes = self.stored.real(table[0, :4].take(found.cells, axis=1))
        refuse_shares(boxes.T, self.family, _EXPORT)
        return Boxes(about_centres(boxes), found.scores, found.classes, found.cells)


SHARES = 1.5
"""Places of which none is further from the corner are shares of the picture: no network finds things of one pixel alone."""


class Rows(Yolo):
    """[1, boxes, 6 + more]: corners, score, class; suppressed in the network, or trained to need none."""

    def __init__(self, seen: Seen, attr: TensorAttr, extra: Optional[Extra], turned: bool = False) -> None:
        super().__init__(seen, "YOLOv10 form (10, 26), rows, not suppressed", 0, extra, suppressed=False)
        self.index, self.stored, self.turned = seen.index(attr), Stored(attr), turned
        self.family = self.family.replace(", 0 classes", "")
        if turned:
            self.task = Task.ROTATED
            self.family += ", turned boxes"

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        table = self.stored.ordered(outputs[self.index][0])
        places = np.flatnonzero(table[:, 4] >= self.stored.least(limits.score, table.dtype))
        found = self.stored.real(table[places])
        numbers = np.isfinite(found[:, :6]).all(axis=1)
        places, found = places[numbers], found[numbers]
        refuse_shares(found[:, :4], self.family, "rows of RT-DETR have the hint rtdetr")
        boxes = found[:, [0, 1, 2, 3, 6]] if self.turned else found[:, :4]
        return Boxes(boxes, found[:, 4], numbered(found[:, 5], self.stored, self.family), places)


def refuse_shares(places: Array, family: str, remedy: str) -> None:
    """Raise InputInvalid where what was taken for pixels of boxes, [n, 4], are shares of the picture."""
    finite = np.abs(places[np.isfinite(places).all(axis=1)])
    if len(finite) and finite.max() <= SHARES:
        raise InputInvalid(
            f"{family}: all {len(finite)} boxes lie within {finite.max():.3g} pixels of the corner; these are shares of the "
            f"picture and no pixels: {remedy}"
        )


def numbered(
    values: Array, stored: Stored, family: str, remedy: str = "the outputs are of another family"
) -> Array:
    """Numbers of classes as integers; raise InputInvalid where some are none."""
    whole = values.round()
    right = (np.abs(values - whole) <= max(0.01, stored.step)) & (whole >= 0) & (whole <= _MOST_CLASSES)
    if not right.all():
        raise InputInvalid(
            f"{family}: a class is {values[~right][0]:.6g}, must be a whole number from 0 on; {remedy}"
        )
    return whole.astype(np.intp)


def table(seen: Seen) -> Optional[Table]:
    """Boxes, with masks where there are prototypes."""
    attr = _table(seen)
    if attr is None:
        return None
    found = prototypes_of(seen)
    if found is None:
        return None if seen.maps or attr.dims[1] < 5 else Table(seen, attr, attr.dims[1] - 4, None)
    prototypes, others = found
    classes = attr.dims[1] - 4 - prototypes.channels
    if others or classes < 1:
        return None
    weights = Columns(seen.index(attr), attr, 4 + classes, prototypes.channels)
    return Table(seen, attr, classes, Masks(weights, prototypes))


def table_pose(seen: Seen) -> Optional[Table]:
    """Boxes of one class with keypoints: by hint, or as many numbers as networks for COCO's people have."""
    attr = _table(seen)
    if attr is None or seen.maps or not (seen.hint or attr.dims[1] == _PEOPLE):
        return None
    numbers = attr.dims[1] - 5
    each = 3 if numbers % 3 == 0 else 2
    if numbers < 2 or numbers % each:
        return None
    factors = np.array([*_pixels(attr, seen.size), 1][:each] * (numbers // each))
    read = Scaled(Columns(seen.index(attr), attr, 5, numbers), factors)
    return Table(seen, attr, 1, Keypoints(read, each))


def table_rotated(seen: Seen) -> Optional[Table]:
    """Turned boxes: by hint, or as many numbers as public networks for aerial pictures have."""
    attr = _table(seen)
    if attr is None or seen.maps or attr.dims[1] < 6 or not (seen.hint or attr.dims[1] == _AERIAL):
        return None
    return Table(seen, attr, attr.dims[1] - 5, None, turned=True)


def with_objectness(name: str, anchors: int, seen: Seen) -> Optional[WithObjectness]:
    """A table with objectness, with ``anchors`` boxes in each cell; with masks where there are prototypes."""
    if len(seen.rows) != 1 or len(seen.rows[0].dims) != 3:
        return None
    (attr,) = seen.rows
    if attr.dims[1] not in [anchors * cells for cells in seen.cells()]:
        return None
    found = prototypes_of(seen)
    if (found is None and seen.maps) or (found is not None and found[1]):
        return None
    weights = 0 if found is None else found[0].channels
    classes = attr.dims[2] - 5 - weights
    if classes < 1:
        return None
    precise(attr)
    extra = None if found is None else Masks(RowColumns(seen.index(attr), attr, weights), found[0])
    return WithObjectness(seen, attr, name, classes, extra)


def rows(seen: Seen) -> Optional[Rows]:
    """Rows that need no suppression: boxes, turned boxes, keypoints, or masks where there are prototypes."""
    if len(seen.rows) != 1 or len(seen.rows[0].dims) != 3 or not (seen.hint or seen.rows[0].dims[1] == _ROWS):
        return None
    (attr,) = seen.rows
    index, more = seen.index(attr), attr.dims[2] - 6
    found = prototypes_of(seen)
    head = None
    if found is not None and not found[1] and more == found[0].channels:
        head = Rows(seen, attr, Masks(RowColumns(index, attr, more), found[0]))
    elif not seen.maps and more in (0, 1):
        head = Rows(seen, attr, None, turned=more == 1)
    elif not seen.maps and more == 17 * 3:
        head = Rows(seen, attr, Keypoints(RowColumns(index, attr, more)))
    if head is not None:
        precise(attr)
    return head


def _pixels(attr: TensorAttr, size: tuple[int, int]) -> tuple[int, int]:
    """What places of a table are multiplied with, x and y: the picture's size where they are shares of it, else 1."""
    return (1, 1) if Stored(attr).range[1] >= _FIRST else size


def _table(seen: Seen) -> Optional[TensorAttr]:
    """The one output [1, numbers, boxes] with a box for each cell."""
    if len(seen.rows) != 1:
        return None
    (attr,) = seen.rows
    if len(attr.dims) != 3 or attr.dims[2] not in seen.cells():
        return None
    precise(attr)
    return attr


def precise(attr: TensorAttr, finest: float = 0.5) -> None:
    """Raise UnknownHead for integers with places and scores in one scale that is coarser than ``finest``."""
    step = Stored(attr).step
    if step > finest:
        raise UnknownHead(
            f"output {attr.name} {list(attr.dims)} is {attr.dtype.short} with steps of {step:.3g}: places and scores share "
            "them, so no score between 0 and 1 can be told; convert with this output in float16, or cut the network before "
            "boxes and scores are joined, as Rockchip's model zoo does"
        )
