"""Connected regions of a mask: pixels that touch, also at a corner, are of one. numpy alone, on runs of pixels in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PixelRegions", "connected"]

Array = NDArray[Any]


@dataclass(frozen=True)
class PixelRegions:
    """Regions as runs of pixels: arrays with one entry for each run, those of a region behind each other, from the top down.

    Attributes:
        rows: y of the run.
        firsts: x of its first pixel.
        lasts: x of its last pixel.
        begins: where the runs of each region begin, [regions].
    """

    rows: Array
    firsts: Array
    lasts: Array
    begins: Array

    def __len__(self) -> int:
        return len(self.begins)

    def pixels(self) -> Array:
        """How many each region has."""
        counts: Array = np.add.reduceat(self.lasts - self.firsts + 1, self.begins)
        return counts

    def extents(self) -> tuple[Array, Array]:
        """Width and height of the upright box of each, from the middle of its first pixel to that of the last."""
        ends = np.append(self.begins[1:], len(self.rows)) - 1
        widths = np.maximum.reduceat(self.lasts, self.begins) - np.minimum.reduceat(self.firsts, self.begins)
        return widths, self.rows[ends] - self.rows[self.begins]

    def ends_of(self, region: int) -> tuple[Array, Array, Array]:
        """Rows of a region, and x of its leftmost and rightmost pixel in each."""
        stop = self.begins[region + 1] if region + 1 < len(self) else len(self.rows)
        part = slice(self.begins[region], stop)
        rows = self.rows[part]
        heads = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
        lefts = np.minimum.reduceat(self.firsts[part], heads)
        return rows[heads], lefts, np.maximum.reduceat(self.lasts[part], heads)


def connected(mask: Array) -> PixelRegions:
    """The regions of a mask, bool [height, width], in the order of their first pixels.

    Examples:
        >>> mask = np.array([[1, 0, 0, 1], [0, 1, 0, 1]], bool)
        >>> regions = connected(mask)
        >>> len(regions), regions.pixels().tolist()
        (2, [2, 2])
    """
    rows, firsts, lasts = _runs(mask)
    if not len(rows):
        return PixelRegions(rows, firsts, lasts, rows)
    root = _roots(len(rows), *_touching(rows, firsts, lasts, mask.shape[1]))
    order = np.argsort(root, kind="stable")
    begins = np.flatnonzero(np.diff(root[order], prepend=-1))
    return PixelRegions(rows[order], firsts[order], lasts[order], begins)


def _runs(mask: Array) -> tuple[Array, Array, Array]:
    """Rows, first and last x; rows lie behind each other, a pixel outside before and behind each."""
    height, width = mask.shape
    framed = np.zeros((height, width + 2), bool)
    framed[:, 1:-1] = mask
    flat = framed.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    rows, firsts = np.divmod(changes[::2], width + 2)
    return rows, firsts, firsts + changes[1::2] - changes[::2] - 1


def _touching(rows: Array, firsts: Array, lasts: Array, width: int) -> tuple[Array, Array]:
    """Pairs of runs, one below the other: their numbers. Runs lie in order, and those that touch one are neighbours."""
    step = width + 2
    below = (rows + 1) * step
    start = np.searchsorted(rows * step + lasts + 1, below + firsts)
    stop = np.searchsorted(rows * step + firsts, below + lasts + 1, side="right")
    counts = np.maximum(stop - start, 0)
    upper = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(upper)) - np.repeat(np.cumsum(counts) - counts, counts)
    return upper, np.repeat(start, counts) + within


def _roots(count: int, one: Array, other: Array) -> Array:
    """For each of ``count`` things the first of those that pairs join it with: roots are joined, then ways to them cut short."""
    parent = np.arange(count)
    while True:
        a, b = parent[one], parent[other]
        apart = a != b
        if not apart.any():
            return parent
        one, other = one[apart], other[apart]
        a, b = a[apart], b[apart]
        parent[np.maximum(a, b)] = np.minimum(a, b)
        while True:
            farther = parent[parent]
            if (farther == parent).all():
                break
            parent = farther
