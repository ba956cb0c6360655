"""RT-DETR: boxes as shares of the picture, each with a score for every class, or rows that are chosen; no suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.tensor import TensorAttr

from .candidates import every, passing
from .head import Limits
from .logits import are_logits
from .seen import Seen
from .stored import Stored
from .yolo import Boxes, Yolo
from .yolo_tables import SHARES, about_centres, numbered, precise

__all__ = ["RtDetr", "RtDetrRows", "rtdetr", "rtdetr_rows"]

Array = NDArray[Any]
_NAME = "RT-DETR, not suppressed"
_ROWS = 300
"""Queries of public networks."""

_OTHERS = (6, 7, 57)
"""Numbers of a row that YOLOv10 and 26 give: a table of 2, 3 or 53 classes needs a hint."""

_CHOSEN = 6
"""Numbers of a row that is chosen: centre, size, score, class."""

_TWO_CLASSES = "of a table with the scores of 2 classes the hint is rtdetr-probabilities or rtdetr-logits"

_FINEST = 1 / 64
"""Steps of integers that shares of a picture can have: coarser ones are no places."""


class RtDetr(Yolo):
    """[1, rows, 4 + classes], or boxes [1, rows, 4] and scores [1, rows, classes].

    One table has one class for a row, as ultralytics up to 8.4.46 decodes what it exports; of two outputs every class that
    passes is told, as transformers does.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> picture = TensorAttr(0, "image", (1, 640, 640, 3), DType.UINT8, Layout.NHWC)
        >>> rows = TensorAttr(0, "output0", (1, 300, 84), DType.FLOAT32, Layout.UNDEFINED)
        >>> rtdetr(Seen([picture], [rows])).family
        'RT-DETR, not suppressed, 1 output, 80 classes'
    """

    def __init__(self, seen: Seen, boxes: TensorAttr, scores: TensorAttr, logits: bool) -> None:
        self.joined = boxes is scores
        self._first = 4 if self.joined else 0
        super().__init__(seen, _NAME, scores.dims[2] - self._first, suppressed=False, logits=logits)
        self._at = seen.index(boxes), seen.index(scores)
        self._places, self._scores = Stored(boxes), Stored(scores, logits)

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        boxes, scores = (outputs[n][0] for n in self._at)
        found = (passing if self.joined else every)(scores[:, self._first :].T, self._scores, limits)
        corners = about_centres(self._places.real(boxes[found.cells, :4]).T)
        return Boxes(corners * np.array(self.size * 2, np.float32), found.scores, found.classes, found.cells)


class RtDetrRows(Yolo):
    """[1, rows, 6]: centre, size, score, class, chosen in the network, as ultralytics exports it from 8.4.47 on.

    YOLOv10's rows have the same shape, and corners in pixels; so the hint ``rtdetr`` or a file's name must say which, and
    numbers that are not such rows are refused.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> picture = TensorAttr(0, "image", (1, 640, 640, 3), DType.UINT8, Layout.NHWC)
        >>> table = TensorAttr(0, "output0", (1, 300, 6), DType.FLOAT32, Layout.UNDEFINED)
        >>> head = rtdetr_rows(Seen([picture], [table], "rtdetr"))
        >>> rows = np.zeros((1, 300, 6), np.float32)
        >>> rows[0, 0] = 0.5, 0.5, 0.25, 0.5, 0.9, 2
        >>> (found,) = head.decode([rows])
        >>> head.family, found.boxes.tolist(), found.classes.tolist()
        ('RT-DETR, not suppressed, 1 output, rows', [[240.0, 160.0, 400.0, 480.0]], [2])
    """

    def __init__(self, seen: Seen, attr: TensorAttr) -> None:
        super().__init__(seen, _NAME, 0, suppressed=False)
        self.family = self.family.replace("0 classes", "rows")
        self._stored = Stored(attr)

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        table = self._stored.ordered(outputs[0][0])
        places = np.flatnonzero(table[:, 4] >= self._stored.least(limits.score, table.dtype))
        found = self._stored.real(table[places])
        numbers = np.isfinite(found).all(axis=1)
        places, found = places[numbers], found[numbers]
        self._checked(found)
        corners = about_centres(found[:, :4].T) * np.array(self.size * 2, np.float32)
        classes = numbered(found[:, 5], self._stored, self.family, _TWO_CLASSES)
        return Boxes(corners, found[:, 4], classes, places)

    def _checked(self, found: Array) -> None:
        """Raise InputInvalid for rows of YOLO."""
        greatest = float(np.abs(found[:, :4]).max(initial=0))
        if greatest > SHARES:
            raise InputInvalid(
                f"{self.family}: a box has {greatest:.6g}, must be shares of the picture, {SHARES} at most; these are pixels: "
                "give the hint yolov10 or yolo26"
            )


def rtdetr(seen: Seen) -> Optional[RtDetr]:
    """300 rows, or any number by hint.

    Whether a sigmoid is to come says ``are_logits``; where nothing tells, one table has scores, two outputs have not.
    """
    rows = seen.rows
    if seen.maps or 0 in seen.size or len(rows) not in (1, 2) or any(len(a.dims) != 3 for a in rows):
        return None
    if len({a.dims[1] for a in rows}) != 1 or not (seen.hint or rows[0].dims[1] == _ROWS):
        return None
    if len(rows) == 1:
        boxes = scores = rows[0]
        others = () if seen.activation else (_CHOSEN,) if seen.hint else _OTHERS
        if boxes.dims[2] < 5 or boxes.dims[2] in others:
            return None
    else:
        fours = [a for a in rows if a.dims[2] == 4]
        named = [a for a in fours if "box" in a.name.lower()]
        if len(fours) != 1 and len(named) != 1:
            return None
        boxes = fours[0] if len(fours) == 1 else named[0]
        scores = next(a for a in rows if a is not boxes)
    return RtDetr(seen, boxes, scores, are_logits(scores, seen.activation, usual=len(rows) == 2))


def rtdetr_rows(seen: Seen) -> Optional[RtDetrRows]:
    """One output of any number of rows, by hint."""
    if (
        not seen.hint
        or seen.activation
        or 0 in seen.size
        or len(seen.outputs) != 1
        or len(seen.outputs[0].dims) != 3
    ):
        return None
    (attr,) = seen.outputs
    if attr.dims[2] != _CHOSEN:
        return None
    precise(attr, _FINEST)
    return RtDetrRows(seen, attr)
