"""Heat maps and axes of keypoints for 192 x 256 pixels, made from a seed."""

from __future__ import annotations

import numpy as np

from .yolo_outputs import normal

__all__ = ["AXES", "MAPS", "SIZE"]

SIZE = (192, 256)
MAPS = (np.abs(normal(5, 1, 17, 64, 48)) * np.float32(0.1)).astype(np.float32)
for point, (row, column) in enumerate(
    [(0, 5), (1, 5), (2, 5), (5, 0), (5, 1), (5, 2), (63, 7), (62, 7), (7, 47)]
):
    MAPS[0, point, row, column] = 1  # at and next to the edges; the others lie anywhere
AXES = [np.abs(normal(6 + n, 1, 17, 2 * cells)) * np.float32(0.2) for n, cells in enumerate(SIZE)]
