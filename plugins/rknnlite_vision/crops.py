"""Pieces of pictures: what a box shows, turned upright where the box is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .heads.resampling import around
from .rectangles import lying
from .results import Detections

__all__ = ["cut_out"]

Array = NDArray[Any]
_STANDS = 1.5
"""From this height for its width on a box is laid down: it is a line that runs down, not a letter."""

_FAR = 1 << 20
_MOST = 1 << 22


def cut_out(picture: Array, found: Detections, row: int) -> Array:
    """The pixels in a box, at least one; of a turned box as if it lay.

    Its upper side is the one that runs from left to right. One that is 1.5 times as high as wide is a line that runs down: it is
    laid on its left side, as PaddleOCR does.

    Examples:
        >>> found = Detections(np.array([[1, 0, 3, 2]]), np.array([0.9]), np.array([0]))
        >>> cut_out(np.zeros((4, 6, 3), np.uint8), found, 0).shape
        (2, 2, 3)
    """
    if found.rotated is not None and np.isfinite(found.rotated[row]).all():
        return _turned(picture, found.rotated[row])
    height, width = picture.shape[:2]
    x1, y1, x2, y2 = np.nan_to_num(found.boxes[row]).clip(0, [width, height, width, height])
    left, top = min(int(x1), width - 1), min(int(y1), height - 1)
    return picture[top : max(top + 1, int(np.ceil(y2))), left : max(left + 1, int(np.ceil(x2)))]


def _turned(picture: Array, box: Array) -> Array:
    """Pixels along the sides of the box, mixed of the four around, in as many rows and columns as it is large.

    At most as many pixels as the picture has, or four millions; beyond its edges it goes on as it ends there.
    """
    x, y, width, height, angle = (float(value) for value in lying(box.clip(-_FAR, _FAR)))
    if height >= _STANDS * width:
        width, height, angle = height, width, angle + np.pi / 2
    most = min(picture.shape[0] * picture.shape[1], _MOST)
    share = min(1.0, np.sqrt(most / max(width * height, 1e-9)))
    rows, columns = (int(np.clip(round(side * share), 1, sum(picture.shape[:2]))) for side in (height, width))
    along = (((np.arange(columns) + 0.5) / columns - 0.5) * width).astype(np.float32)
    down = (((np.arange(rows) + 0.5) / rows - 0.5) * height).astype(np.float32)[:, None]
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    left, right, far = around(along * cos - down * sin + np.float32(x), picture.shape[1])
    upper, lower, deep = around(along * sin + down * cos + np.float32(y), picture.shape[0])
    turned = np.empty((rows, columns, picture.shape[2]), np.uint8)
    for channel in range(picture.shape[2]):
        pixels = picture[..., channel]
        top = pixels[upper, left] * (1 - far) + pixels[upper, right] * far
        bottom = pixels[lower, left] * (1 - far) + pixels[lower, right] * far
        turned[..., channel] = np.rint(top * (1 - deep) + bottom * deep)
    return turned
