"""Outputs by stride, whether they are maps or rows of tables that have the cells of all strides one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from numpy.typing import NDArray

from rknnlite.tensor import Layout, TensorAttr

from .seen import Map, Seen

__all__ = ["Slice", "levels", "singles"]

Array = NDArray[Any]
_STRIDES = ((8, 16, 32), (8, 16, 32, 64))


@dataclass(frozen=True)
class Slice(Map):
    """The rows of one stride in a table [1, cells of all strides, numbers].

    Attributes:
        start: the first row.

    Examples:
        >>> from rknnlite.tensor import DType, Layout
        >>> image = TensorAttr(0, "image", (1, 64, 64, 3), DType.UINT8, Layout.NHWC)
        >>> table = TensorAttr(0, "output", (1, 84, 7), DType.FLOAT32, Layout.UNDEFINED)
        >>> [(part.stride, part.width, part.start) for part in singles(Seen([image], [table]), 1)]
        [(8, 8, 0), (16, 4, 64), (32, 2, 80)]
    """

    start: int = 0

    def cells(self, outputs: Sequence[Array]) -> Array:
        """[channels, cells] of the first picture, without a copy."""
        rows = outputs[self.index][0][self.start : self.start + self.height * self.width]
        cells: Array = rows[:, self.first : self.first + self.channels].T
        return cells


def levels(seen: Seen) -> list[list[Map]]:
    """What lies on each stride, finest first, those of one stride in the order of the network; empty for other outputs."""
    if 0 in seen.size:
        return []
    if seen.maps:
        rounded = [_rounded(seen, attr) for attr in seen.rows]
        found = seen.grids([*seen.maps, *(m for m in rounded if m)])
    elif len(seen.rows) == 1:
        found = [[part] for part in _sliced(seen, seen.rows[0])]
    else:
        found = seen.grids([m for m in (_whole(seen, attr) for attr in seen.rows) if m])
    fitting = tuple(maps[0].stride for maps in found) in _STRIDES
    used = {m.index for maps in found for m in maps}
    return found if fitting and len(used) == len(seen.outputs) else []


def singles(seen: Seen, least: int) -> list[Map]:
    """One map or part of a table for each stride, all with the same number of channels, ``least`` or more."""
    found = levels(seen)
    maps = [one for one, *more in found if not more]
    same = len(maps) == len(found) and len({m.channels for m in maps}) == 1
    return maps if same and maps[0].channels >= least else []


def _sliced(seen: Seen, attr: TensorAttr) -> list[Map]:
    if len(attr.dims) != 3:
        return []
    for strides in _STRIDES:
        grids = [_grid(seen.size, stride) for stride in strides]
        if sum(w * h for w, h in grids) == attr.dims[1]:
            break
    else:
        return []
    start, parts = 0, []
    for (w, h), stride in zip(grids, strides):
        parts.append(_slice(seen, attr, w, h, stride, start))
        start += w * h
    return parts


def _rounded(seen: Seen, attr: TensorAttr) -> Optional[Map]:
    """A map whose grid was rounded up: the picture is no multiple of its stride."""
    if len(attr.dims) != 4:
        return None
    last = attr.layout == Layout.NHWC
    height, width, channels = attr.dims[1:] if last else (*attr.dims[2:], attr.dims[1])
    for stride in _STRIDES[-1]:
        if (width, height) == _grid(seen.size, stride):
            return Map(seen.index(attr), channels, height, width, stride, last, attr)
    return None


def _whole(seen: Seen, attr: TensorAttr) -> Optional[Map]:
    """A table with the cells of one stride."""
    if len(attr.dims) == 3:
        for stride in _STRIDES[-1]:
            w, h = _grid(seen.size, stride)
            if w * h == attr.dims[1]:
                return _slice(seen, attr, w, h, stride, 0)
    return None


def _slice(seen: Seen, attr: TensorAttr, w: int, h: int, stride: int, start: int) -> Map:
    return Slice(seen.index(attr), attr.dims[2], h, w, stride, True, attr, start=start)


def _grid(size: tuple[int, int], stride: int) -> tuple[int, int]:
    """Cells of a row, and rows: convolutions round up."""
    return -(-size[0] // stride), -(-size[1] // stride)
