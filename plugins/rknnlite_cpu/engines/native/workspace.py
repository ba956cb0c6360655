"""Places the tensors of a program: those that live at the same time side by side, the others one over the other."""

from __future__ import annotations

from collections.abc import Sequence

from .description import Op, Plane

__all__ = ["place_tensors"]

_ALIGNED = 64
_SLACK = 64
"""Kernels may read a vector from the last pixel on."""


def place_tensors(ops: Sequence[Op]) -> int:
    """Give every plane of the ops its offset; gives the bytes of the workspace."""
    lives: dict[int, list[int]] = {}
    planes: dict[int, Plane] = {}
    for number, op in enumerate(ops):
        for plane in (op.x, op.y, op.other):
            if plane is not None:
                planes[id(plane)] = plane
                lives.setdefault(id(plane), [number, number])[1] = number
    placed: list[tuple[int, int, int, int]] = []  # from, to, first op, last op
    for key in sorted(planes, key=lambda key: (lives[key][0], -planes[key].nbytes)):
        plane, (first, last) = planes[key], lives[key]
        size = plane.nbytes + _SLACK
        size += -size % _ALIGNED
        others = sorted(other for other in placed if other[2] <= last and first <= other[3])
        offset = 0
        for start, end, _, _ in others:
            if offset + size <= start:
                break
            offset = max(offset, end)
        plane.offset = offset
        placed.append((offset, offset + size, first, last))
    return max((end for _, end, _, _ in placed), default=0)
