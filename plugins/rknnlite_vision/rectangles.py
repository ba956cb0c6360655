"""Turned rectangles: centre x, y, width, height, angle in radians, clockwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["corners_of", "hull", "least_rectangle", "lying"]

Array = NDArray[Any]
_SAME = 1e-9
"""Of areas: by how much of it two that are equal may differ."""


def corners_of(rotated: Array) -> Array:
    """The corners [4, 2] of a turned box.

    Examples:
        >>> corners_of(np.array([10.0, 10.0, 4.0, 2.0, 0.0])).tolist()
        [[8.0, 9.0], [12.0, 9.0], [12.0, 11.0], [8.0, 11.0]]
    """
    x, y, width, height, angle = (float(value) for value in rotated)
    across = np.array([np.cos(angle), np.sin(angle)]) * width / 2
    down = np.array([-np.sin(angle), np.cos(angle)]) * height / 2
    corners: Array = np.array([x, y]) + np.stack(
        [-across - down, across - down, across + down, down - across]
    )
    return corners


def lying(rotated: Array) -> Array:
    """The same rectangle, its width the side that reaches farther from left to right, its angle within a quarter of a turn.

    Examples:
        >>> lying(np.array([0.0, 0.0, 10.0, 40.0, np.pi / 2])).round(2).tolist()
        [0.0, 0.0, 40.0, 10.0, 0.0]
    """
    x, y, width, height, angle = (float(value) for value in rotated)
    if abs(np.cos(angle)) * width < abs(np.sin(angle)) * height:
        width, height, angle = height, width, angle + np.pi / 2
    return np.array([x, y, width, height, (angle + np.pi / 2) % np.pi - np.pi / 2])


def hull(rows: Array, lefts: Array, rights: Array) -> Array:
    """The convex hull [n, 2] of points in rows from the top down, of which the outermost of each are given."""
    down = _bent(np.stack([rights, rows], axis=1).tolist(), 1)
    up = _bent(np.stack([lefts, rows], axis=1).tolist(), -1)
    points = [*down, *reversed(up)]
    return np.array([p for n, p in enumerate(points) if p != points[n - 1]] or points[:1], np.float64)


def _bent(points: list[list[int]], side: int) -> list[list[int]]:
    """Of points from the top down those where the hull bends."""
    kept: list[list[int]] = []
    for x, y in points:
        while len(kept) > 1:
            (x1, y1), (x2, y2) = kept[-2:]
            if side * ((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)) > 0:
                break
            kept.pop()
        kept.append([x, y])
    return kept


def least_rectangle(points: Array) -> Array:
    """The rectangle of least area around a convex polygon [n, 2], ``lying``: one of its sides lies on one of the polygon's.

    Of several of that area it is the one that is turned least.

    Examples:
        >>> least_rectangle(np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 2.0]])).round(3).tolist()
        [2.0, 1.0, 4.0, 2.0, 0.0]
    """
    sides = np.roll(points, -1, axis=0) - points
    lengths = np.hypot(sides[:, 0], sides[:, 1])
    if not (lengths > 0).any():
        return np.array([*points[0], 0.0, 0.0, 0.0])
    x, y = (sides[lengths > 0] / lengths[lengths > 0, None]).T
    along = np.outer(x, points[:, 0]) + np.outer(y, points[:, 1])
    across = np.outer(x, points[:, 1]) - np.outer(y, points[:, 0])
    first, last = np.stack([along.min(1), across.min(1)]), np.stack([along.max(1), across.max(1)])
    areas = np.prod(last - first, axis=0)
    equal = np.flatnonzero(areas <= areas.min() * (1 + _SAME))
    best = equal[np.minimum(abs(x[equal]), abs(y[equal])).argmin()]
    middle, size = (first + last)[:, best] / 2, (last - first)[:, best]
    ux, uy = float(x[best]), float(y[best])
    centre = middle[0] * ux - middle[1] * uy, middle[0] * uy + middle[1] * ux
    return lying(np.array([*centre, *size, np.arctan2(uy, ux)]))
