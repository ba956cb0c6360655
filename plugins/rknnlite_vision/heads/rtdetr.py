"""RT-DETR: rows of boxes as shares of the picture, with a score for each class; trained to need no suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import TensorAttr

from .candidates import every, passing
from .head import Limits
from .logits import are_logits
from .seen import Seen
from .stored import Stored
from .yolo import Boxes, Yolo

__all__ = ["RtDetr", "rtdetr"]

Array = NDArray[Any]
_ROWS = 300
"""Queries of public networks."""

_OTHERS = (6, 7, 57)
"""Numbers of a row that YOLOv10 and 26 give; here they would be 2, 3 or 53 classes, which the hints
``rtdetr-probabilities`` or ``rtdetr-logits`` must say. The centre, size, score, class of ultralytics 8.4 nothing here decodes."""


class RtDetr(Yolo):
    """[1, rows, 4 + classes], or boxes [1, rows, 4] and scores [1, rows, classes].

    One table has one class for a row, as ultralytics decoded it; of two outputs every class that passes is told, as
    transformers does.

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
        super().__init__(seen, "RT-DETR, not suppressed", scores.dims[2] - self._first, suppressed=False)
        if logits:
            self.family += ", sigmoid to come"
        self._at = seen.index(boxes), seen.index(scores)
        self._places, self._scores = Stored(boxes), Stored(scores, logits)

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        boxes, scores = (outputs[n][0] for n in self._at)
        found = (passing if self.joined else every)(scores[:, self._first :].T, self._scores, limits)
        x, y, w, h = self._places.real(boxes[found.cells, :4]).T
        corners = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
        return Boxes(corners * np.array(self.size * 2, np.float32), found.scores, found.classes, found.cells)


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
        if boxes.dims[2] < 5 or (seen.hint in ("", "rtdetr") and boxes.dims[2] in _OTHERS):
            return None
    else:
        fours = [a for a in rows if a.dims[2] == 4]
        named = [a for a in fours if "box" in a.name.lower()]
        if len(fours) != 1 and len(named) != 1:
            return None
        boxes = fours[0] if len(fours) == 1 else named[0]
        scores = next(a for a in rows if a is not boxes)
    return RtDetr(seen, boxes, scores, are_logits(scores, seen.hint, usual=len(rows) == 2))
