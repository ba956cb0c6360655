"""PP-YOLOE and PicoDet with boxes decoded in the network; PP-YOLOE's maps in Rockchip's zoo have YOLOv6's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import TensorAttr

from .candidates import passing
from .head import Limits
from .logits import are_logits, refuse_logits
from .seen import Seen
from .stored import Stored
from .yolo import Boxes, Yolo
from .yolo_tables import precise

__all__ = ["PPYoloe", "ppyoloe"]

Array = NDArray[Any]


class PPYoloe(Yolo):
    """Corners [1, boxes, 4] and scores [1, classes, boxes], or both in a row [1, boxes, 4 + classes].

    PaddleDetection divides the corners of the first form by its input ``scale_factor``: give it ones.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> image = TensorAttr(0, "image", (1, 64, 64, 3), DType.UINT8, Layout.NHWC)
        >>> shapes = (1, 84, 4), (1, 3, 84)
        >>> attrs = [TensorAttr(n, f"output{n}", dims, DType.FLOAT32, Layout.UNDEFINED) for n, dims in enumerate(shapes)]
        >>> head = ppyoloe(Seen([image], attrs))
        >>> boxes, scores = (np.zeros(dims, np.float32) for dims in shapes)
        >>> boxes[0, 7], scores[0, 2, 7] = [5, 6, 25, 36], 0.75
        >>> (found,) = head.decode([boxes, scores])
        >>> found.boxes.tolist(), found.scores.tolist(), found.classes.tolist()
        ([[5.0, 6.0, 25.0, 36.0]], [0.75], [2])
    """

    def __init__(self, seen: Seen, boxes: TensorAttr, scores: TensorAttr) -> None:
        self.joined = boxes is scores
        classes = boxes.dims[2] - 4 if self.joined else scores.dims[1]
        logits = are_logits(scores, seen.activation, alone=not self.joined)
        super().__init__(seen, "PP-YOLOE form (also PicoDet), decoded", classes, logits=logits)
        self.places = seen.index(boxes), seen.index(scores)
        self.stored = Stored(boxes), Stored(scores, logits)

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        boxes, scores = (outputs[place][0] for place in self.places)
        table = scores[:, 4:].T if self.joined else scores
        refuse_logits(table[0], self.stored[1])
        found = passing(table, self.stored[1], limits)
        corners = self.stored[0].real(boxes[found.cells, :4])
        return Boxes(corners, found.scores, found.classes, np.asarray(found.cells))


def ppyoloe(seen: Seen) -> Optional[PPYoloe]:
    """Boxes that are decoded, without suppression."""
    if seen.maps or not 1 <= len(seen.rows) <= 2 or any(len(attr.dims) != 3 for attr in seen.rows):
        return None
    if len(seen.rows) == 1:
        (attr,) = seen.rows
        if attr.dims[1] not in seen.cells() or attr.dims[2] < 5:
            return None
        precise(attr)
        return PPYoloe(seen, attr, attr)
    for boxes, scores in (seen.rows, seen.rows[::-1]):
        if boxes.dims[1] in seen.cells() and boxes.dims[2] == 4 and scores.dims[2] == boxes.dims[1]:
            return PPYoloe(seen, boxes, scores)
    return None
