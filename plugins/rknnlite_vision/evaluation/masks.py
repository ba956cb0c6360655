"""Masks of datasets as pixels: COCO's polygons and runs, drawn as pycocotools draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

__all__ = ["drawn", "polygon_mask", "runs_mask"]

Array = NDArray[Any]
_MOST = 1e6  # pixels from the corner of a picture, and of all edges of an outline
_LONGEST = 60  # bits of a compressed run before its last five
_FINE = 5
"""Polygons are drawn on a grid so many times as fine, whose points are then taken to columns of pixels."""


def drawn(outline: Any, height: int, width: int) -> Array:
    """bool [height, width] of what ``segmentation`` of an annotation says: polygons, or runs. Raises ValueError."""
    if isinstance(outline, Mapping):
        counts = outline.get("counts")
        if not isinstance(counts, (str, list)):
            raise ValueError("no runs in counts")
        return runs_mask(counts, height, width)
    if not isinstance(outline, list) or not outline:
        raise ValueError("neither polygons nor runs")
    try:
        parts = [np.array(polygon, np.float64) for polygon in outline]
    except (OverflowError, TypeError):
        raise ValueError("a polygon is no list of numbers") from None
    if any(part.ndim != 1 or part.size < 6 or part.size % 2 or not np.isfinite(part).all() for part in parts):
        raise ValueError("a polygon is no list of x, y of three corners or more")
    if any(np.abs(part).max() > _MOST for part in parts):
        raise ValueError("a polygon far outside of the picture")
    if sum(map(_length, parts)) > _MOST:  # each pixel of it takes time and memory
        raise ValueError(f"polygons with edges of more than {_MOST:.0f} pixels together")
    mask: Array = np.any([polygon_mask(part.reshape(-1, 2), height, width) for part in parts], axis=0)
    return mask


def _length(polygon: Array) -> float:
    """Pixels of its edges, [2 n] of x, y."""
    corners = polygon.reshape(-1, 2)
    return float(np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1).sum())


def runs_mask(counts: Union[Sequence[int], str], height: int, width: int) -> Array:
    """bool [height, width] of runs of 0 and 1 in turn, column by column; as a text they are COCO's compressed ones.

    Raises ValueError where they are not as many as there are pixels.

    Examples:
        >>> runs_mask([1, 2, 1], 2, 2).astype(int)
        array([[0, 1],
               [1, 0]])
    """
    pixels = height * width
    try:
        lengths = np.array(_runs(counts) if isinstance(counts, str) else counts, np.int64)
    except (OverflowError, TypeError):
        raise ValueError("runs are no list of whole numbers of 64 bits") from None
    if lengths.ndim != 1 or ((lengths < 0) | (lengths > pixels)).any():  # sums of 64 bits turn over
        raise ValueError(f"runs are not each from 0 to the {pixels} pixels of the picture")
    if lengths.sum() != pixels:
        raise ValueError(f"runs of {lengths.sum()} pixels, the picture has {pixels}")
    values = np.arange(len(lengths)) % 2 == 1
    mask: Array = np.repeat(values, lengths).reshape(width, height).T
    return mask


def _runs(text: str) -> list[int]:
    """Numbers of five bits a character, low ones first, a sixth for more to come.

    From the fourth on they are differences to the last but one.
    """
    runs: list[int] = []
    value = shift = 0
    for char in text:
        bits = ord(char) - 48
        if not 0 <= bits < 64:
            raise ValueError(f"{char!r} is no character of compressed runs")
        if shift > _LONGEST:
            raise ValueError("a compressed run has more than 64 bits")
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            runs.append(value + runs[-2] if len(runs) > 2 else value)
            value = shift = 0
    if shift:
        raise ValueError("compressed runs end within a number")
    return runs


def polygon_mask(points: Array, height: int, width: int) -> Array:
    """bool [height, width] of what lies within corners [n, 2].

    Where the outline crosses the middle of a column of pixels, the column changes from outside to inside or back.

    Examples:
        >>> int(polygon_mask(np.array([[1.0, 1], [3, 1], [3, 3], [1, 3]]), 4, 4).sum())
        4
    """
    fine = (np.asarray(points, np.float64) * _FINE + 0.5).astype(np.int64)
    u, v = np.concatenate([_line(a, b) for a, b in zip(fine, np.roll(fine, -1, axis=0))], axis=1)
    crossing = np.flatnonzero(u[1:] != u[:-1]) + 1
    before = crossing - 1
    column = np.where(u[crossing] < u[before], u[crossing], u[crossing] - 1)
    x = (column + 0.5) / _FINE - 0.5
    y = np.ceil(np.clip((np.minimum(v[crossing], v[before]) + 0.5) / _FINE - 0.5, 0, height))
    inside = (x == np.floor(x)) & (x >= 0) & (x <= width - 1)
    places = (x[inside] * height + y[inside]).astype(np.int64)
    flips = np.bincount(places, minlength=height * width + 1)[: height * width]
    mask: Array = (np.cumsum(flips) % 2 == 1).reshape(width, height).T
    return mask


def _line(start: Array, end: Array) -> Array:
    """Points [2, n] of the fine grid from start to end; drawn from the lower end of the longer side, both ends included."""
    (dx, dy) = np.abs(end - start)
    long = 0 if dx >= dy else 1
    flip = bool(start[long] > end[long])
    a, b = (end, start) if flip else (start, end)
    length = int(max(dx, dy))
    steps = np.arange(length, -1, -1) if flip else np.arange(length + 1)
    slope = (b[1 - long] - a[1 - long]) / length if length else 0.0
    points = np.empty((2, length + 1), np.int64)
    points[long] = steps + a[long]
    points[1 - long] = (a[1 - long] + slope * steps + 0.5).astype(np.int64)
    return points
