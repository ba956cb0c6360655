"""Places the tensors of a program: those that live at the same time side by side, the others one over the other.

Parts of a tensor lie in it: what is split is not copied, and what is joined is written where it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from .kinds import Op, Plane

__all__ = ["Parts", "place_tensors"]

_ALIGNED = 64
_SLACK = 64
"""Kernels may read a vector from the last pixel on."""
_CHANNELS = 16


class Parts:
    """Which planes are parts of others, and from which channel on."""

    def __init__(self) -> None:
        self._whole: dict[int, tuple[Plane, Plane, int]] = {}

    def __contains__(self, plane: Plane) -> bool:
        return id(plane) in self._whole

    def of(self, plane: Plane) -> list[tuple[Plane, int]]:
        """The parts of a plane in order."""
        found = [(part, channel) for part, whole, channel in self._whole.values() if whole is plane]
        return sorted(found, key=lambda each: each[1])

    def add(self, part: Plane, whole: Plane, channel: int) -> None:
        """From now on ``part``, and whatever is a part of it, lies in ``whole``."""
        self._whole[id(part)] = (part, whole, channel)
        self._widen(part, whole.pitch)

    def _widen(self, plane: Plane, pitch: int) -> None:
        plane.pitch = pitch
        for part, _ in self.of(plane):
            self._widen(part, pitch)

    def whole(self, plane: Plane) -> tuple[Plane, int]:
        """What a plane lies in, or the plane itself, and at which channel."""
        place = 0
        while id(plane) in self._whole:
            _, plane, channel = self._whole[id(plane)]
            place += channel
        return plane, place

    def entire(self, planes: Sequence[Plane]) -> Optional[Plane]:
        """The plane whose parts these are, all and in order, where it is no part itself."""
        found = self._whole.get(id(planes[0]))
        if found is None or found[1] in self:
            return None
        channel = 0
        for plane, (part, at) in zip(planes, parts := self.of(found[1])):
            if plane is not part or at != channel:
                return None
            channel += part.channels
        return found[1] if len(parts) == len(planes) and channel == found[1].channels else None


def place_tensors(ops: Sequence[Op], parts: Parts) -> int:
    """Give every plane of the ops its offset; gives the bytes of the workspace."""
    lives: dict[int, list[int]] = {}
    planes: dict[int, Plane] = {}
    for number, op in enumerate(ops):
        for plane in op.planes:
            whole, _ = parts.whole(plane)
            planes[id(whole)] = whole
            lives.setdefault(id(whole), [number, number])[1] = number
    placed: list[tuple[int, int, int, int]] = []  # from, to, first op, last op
    for key in sorted(planes, key=lambda key: (lives[key][0], -planes[key].nbytes)):
        plane, (first, last) = planes[key], lives[key]
        size = plane.nbytes + _SLACK
        size += -size % _ALIGNED
        offset = 0
        for start, end, _, _ in sorted(other for other in placed if other[2] <= last and first <= other[3]):
            if offset + size <= start:
                break
            offset = max(offset, end)
        plane.offset = offset
        placed.append((offset, offset + size, first, last))
    for op in ops:
        for plane in op.planes:
            if plane in parts:
                whole, channel = parts.whole(plane)
                plane.offset = whole.offset + channel
    return max((end for _, end, _, _ in placed), default=0)
