"""YOLOX: centre, size, objectness and scores of each cell: maps as Rockchip's zoo cuts them, or the table of its own export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .candidates import objects
from .head import Limits
from .levels import singles
from .logits import are_logits, refuse_logits
from .seen import Map, Seen
from .stored import Stored
from .yolo import Boxes, Yolo
from .yolo_tables import about_centres, precise

__all__ = ["YoloX", "yolox"]

Array = NDArray[Any]


class YoloX(Yolo):
    """Centres are told from the corner of a cell in units of its stride, sizes as logarithms; of a table that was exported with
    ``decode_in_inference`` both are pixels.

    Objectness and scores have their sigmoid, as published exports do, unless the hint or an output's name says otherwise
    (``are_logits``): centres and sizes share their scale, so a range says nothing.
    Rockchip's zoo suppresses between classes, too: ``Limits(across=True)``.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> image = TensorAttr(0, "images", (1, 64, 64, 3), DType.UINT8, Layout.NHWC)
        >>> shapes = [(1, 8, 64 // stride, 64 // stride) for stride in (8, 16, 32)]
        >>> maps = [TensorAttr(n, f"map{n}", dims, DType.FLOAT32, Layout.NCHW) for n, dims in enumerate(shapes)]
        >>> head = yolox(Seen([image], maps))
        >>> head.family
        'YOLOX, 3 outputs, 3 classes'
        >>> numbers = [np.zeros(dims, np.float32) for dims in shapes]
        >>> numbers[2][0, [4, 6], 1, 1] = 0.9
        >>> (found,) = head.decode(numbers)
        >>> found.boxes.tolist(), found.classes.tolist()
        ([[16.0, 16.0, 48.0, 48.0]], [1])
    """

    def __init__(self, seen: Seen, maps: Sequence[Map]) -> None:
        table = "" if seen.maps else " table"
        logits = any(are_logits(m.attr, seen.activation, alone=False) for m in maps)
        super().__init__(seen, f"YOLOX{table}", maps[0].channels - 5, logits=logits)
        self.maps, self.is_table = list(maps), not seen.maps
        self.stored = [Stored(m.attr, logits) for m in maps]

    def _boxes(self, outputs: Sequence[Array], limits: Limits) -> Boxes:
        decoded = self.is_table and self._decoded(outputs)
        start, parts = 0, []
        for number, m in enumerate(self.maps):
            parts.append(self._stride(number, m.cells(outputs), limits, start, decoded))
            start += m.height * m.width
        return Boxes(*(np.concatenate([getattr(p, name) for p in parts]) for name in Boxes.__annotations__))

    def _stride(self, number: int, table: Array, limits: Limits, start: int, decoded: bool) -> Boxes:
        m, stored = self.maps[number], self.stored[number]
        refuse_logits(table[4], stored)
        found = objects(table[None], stored, limits)
        boxes = stored.real(table[:4].take(found.cells, axis=1))
        if not decoded:
            corner = np.stack([found.cells % m.width, found.cells // m.width]).astype(np.float32)
            boxes = np.concatenate([boxes[:2] + corner, np.exp(boxes[2:])]) * np.float32(m.stride)
        return Boxes(about_centres(boxes), found.scores, found.classes, found.cells + start)

    def _decoded(self, outputs: Sequence[Array]) -> bool:
        """Whether centres are pixels: their median then is near the picture's middle, else a cell or two."""
        x = self.stored[0].real(self.maps[0].cells(outputs)[0])
        x = x[np.isfinite(x)]
        return bool(len(x)) and float(np.median(x)) > self.size[0] / 8


def yolox(seen: Seen) -> Optional[YoloX]:
    """One map of each stride, or one table of all cells."""
    maps = singles(seen, 6) if seen.anchors is None else []
    if not maps:
        return None
    if not seen.maps:
        precise(maps[0].attr)
    return YoloX(seen, maps)
