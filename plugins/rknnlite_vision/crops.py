"""Pieces of pictures: what a box shows, turned upright where the box is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .results import Detections

__all__ = ["cut_out"]

Array = NDArray[Any]


def cut_out(picture: Array, found: Detections, row: int) -> Array:
    """The pixels in a box, at least one; of a turned box as if it lay, its longer side from left to right.

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
    """The nearest pixels along the sides of the box, in as many rows and columns as it is large, at most as the picture."""
    x, y, width, height, angle = (float(value) for value in box)
    if height > width:
        width, height, angle = height, width, angle + np.pi / 2
    if np.cos(angle) < 0:  # letters stand on their feet as far as a box can tell
        angle += np.pi
    rows = int(np.clip(round(height), 1, max(picture.shape[:2])))
    columns = int(np.clip(round(width), 1, sum(picture.shape[:2])))
    along = ((np.arange(columns) + 0.5) / columns - 0.5) * width
    down = (((np.arange(rows) + 0.5) / rows - 0.5) * height)[:, None]
    across_x = x + along * np.cos(angle) - down * np.sin(angle)
    across_y = y + along * np.sin(angle) + down * np.cos(angle)
    columns_at = np.clip(np.floor(across_x), 0, picture.shape[1] - 1).astype(np.intp)
    rows_at = np.clip(np.floor(across_y), 0, picture.shape[0] - 1).astype(np.intp)
    turned: Array = picture[rows_at, columns_at]
    return turned
