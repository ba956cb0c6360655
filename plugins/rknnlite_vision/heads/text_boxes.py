"""Where lines of text are: a map of how likely each pixel is text, as Differentiable Binarization (DB) trains networks to give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..rectangles import corners_of, hull, least_rectangle
from ..results import Detections
from .connected import PixelRegions, connected
from .head import Head, Limits, Task
from .logits import are_logits
from .seen import Seen
from .stored import Stored
from .whole import finite, one_map

__all__ = ["TextBoxes", "text_boxes"]

Array = NDArray[Any]
_THIN = 3.0
"""Cells: what is thinner is no line of text, nor one that is thinner than two more when it has grown."""
_MOST = 1000
"""Regions that are looked at, the largest: noise has any number."""


class TextBoxes(Head):
    """Pixels above a threshold, connected, in their least rectangle; its score is the mean of the map in it; then it grows.

    Networks learn a core of each line, smaller by a share of its area for the length of its outline; growing undoes that. Regions
    that a single pixel parts are one. Numbers are those of rapidocr, which dilates as much.

    Attributes:
        threshold: from which on a pixel is text; may be set.
        growth: each side moves out by ``growth * area / outline``; may be set.

    Examples:
        >>> from rknnlite.tensor import DType, Layout, TensorAttr
        >>> picture = TensorAttr(0, "image", (1, 64, 96, 3), DType.UINT8, Layout.NHWC)
        >>> scores = TensorAttr(0, "sigmoid_0", (1, 1, 64, 96), DType.FLOAT32, Layout.NCHW)
        >>> head = text_boxes(Seen([picture], [scores]))
        >>> likely = np.zeros((1, 1, 64, 96), np.float32)
        >>> likely[..., 30:40, 20:60] = 0.9
        >>> (found,) = head.decode([likely], Limits(score=0.5))
        >>> found.rotated.round(1)
        array([[40. , 35. , 52.8, 22.8,  0. ]], dtype=float32)
    """

    task, classes, family = Task.LINES, 1, "DB (map of text)"
    threshold, growth = 0.3, 1.6

    def __init__(self, seen: Seen, height: int, width: int) -> None:
        super().__init__(seen.inputs, seen.outputs)
        self.size, self._grid, self.labels = seen.size, (height, width), ["text"]
        self._stride = seen.size[0] / width
        self._stored = Stored(self.outputs[0], are_logits(self.outputs[0], seen.activation, usual=False))

    def _picture(self, outputs: Sequence[Array], limits: Limits) -> Detections:
        likely = self._stored.scores(finite(outputs[0].reshape(self._grid), self.outputs[0].name))
        regions = connected(_grown(likely >= np.float32(self.threshold)))
        found, scores = [], []
        for region in _largest(regions):
            rectangle = least_rectangle(hull(*regions.ends_of(region)))
            if rectangle[2:4].min() < _THIN:
                continue
            score = mean_inside(likely, corners_of(rectangle))
            grown = self._unclipped(rectangle)
            if score >= limits.score and grown[2:4].min() >= _THIN + 2:
                found.append(grown)
                scores.append(score)
        best = np.argsort(-np.array(scores), kind="stable")[: limits.most]
        rotated = np.reshape(np.array(found, np.float64), (-1, 5))[best]
        rotated[:, :4] *= self._stride
        corners = np.reshape([corners_of(one) for one in rotated], (-1, 4, 2))
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        return Detections(boxes, np.array(scores)[best], np.zeros(len(best)), rotated=rotated)

    def _unclipped(self, rectangle: Array) -> Array:
        """The rectangle, each of its sides moved out."""
        width, height = rectangle[2:4]
        moved = self.growth * width * height / (2 * (width + height))
        grown: Array = rectangle + np.array([0, 0, 2 * moved, 2 * moved, 0])
        return grown


def _grown(mask: Array) -> Array:
    """The corners of pixels of a mask, [height + 1, width + 1]."""
    corners = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), bool)
    for part in (corners[:-1, :-1], corners[1:, :-1], corners[:-1, 1:], corners[1:, 1:]):
        part |= mask
    return corners


def _largest(regions: PixelRegions) -> list[int]:
    """The regions that may be lines, those of most pixels first: a rectangle of less area than a square has a thinner side."""
    if not len(regions):
        return []
    widths, heights = regions.extents()
    some = np.flatnonzero(widths * heights >= _THIN**2)
    order: list[int] = some[np.argsort(-regions.pixels()[some], kind="stable")][:_MOST].tolist()
    return order


def mean_inside(values: Array, corners: Array) -> float:
    """The mean of a map in a convex polygon: whole pixels, those on its sides too, as OpenCV fills one.

    Args:
        values: the map [height, width].
        corners: [4, 2], clockwise; each is moved to the pixel that it lies in.
    """
    limit = np.array(values.shape[::-1]) - 1
    low = np.floor(corners.min(axis=0)).clip(0, limit)
    high = np.ceil(corners.max(axis=0)).clip(0, limit)
    points = np.trunc(corners - low) + low
    rows = np.arange(low[1], high[1] + 1)
    left, right = np.full(len(rows), low[0]), np.full(len(rows), high[0])
    for (x, y), (dx, dy) in zip(points, np.roll(points, -1, axis=0) - points):
        slack = max(abs(dx), abs(dy)) / 2  # pixels whose middle is half a pixel from the side lie on it
        reach = dx * (rows - y) + slack
        if dy > 0:
            right = np.minimum(right, x + reach / dy)
        elif dy < 0:
            left = np.maximum(left, x + reach / dy)
        else:
            right = np.where(reach < 0, -1.0, right)
    first, end = np.ceil(left - low[0]).astype(np.intp), np.floor(right - low[0]).astype(np.intp) + 1
    (x, y), (last_x, last_y) = low.astype(int).tolist(), high.astype(int).tolist()
    window = values[y : last_y + 1, x : last_x + 1]
    sums = np.zeros((window.shape[0], window.shape[1] + 1))
    np.cumsum(window, axis=1, dtype=np.float64, out=sums[:, 1:])
    inside = np.flatnonzero(end > first)
    total = sums[inside, end[inside]] - sums[inside, first[inside]]
    return float(total.sum() / max(1, (end - first)[inside].sum()))


def text_boxes(seen: Seen) -> Optional[TextBoxes]:
    """One map of one channel over the picture, as ``one_map`` knows it."""
    grid = one_map(seen)
    return TextBoxes(seen, *grid) if grid else None
