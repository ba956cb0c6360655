"""NanoDet, NanoDet-Plus and PicoDet: scores and a distribution of each side over bins, of each cell."""

from __future__ import annotations

from typing import Optional

from .levels import levels, singles
from .seen import Map, Seen
from .yolo_sides import Sides, Stride

__all__ = ["nanodet", "nanodet_plus", "picodet"]

_BINS = 4 * 8
"""Numbers of the sides where scores lie in the same output, as all published networks have it."""
_APART = (4 * 8, 4 * 11)
"""Likewise where they have an output of their own."""


def nanodet(seen: Seen) -> Optional[Sides]:
    """Sides from the middle of a cell, three strides: two outputs of each, or both joined."""
    strides = _pairs(seen) or _joined(seen)
    return Sides(seen, strides, "NanoDet") if len(strides) == 3 else None


def nanodet_plus(seen: Seen) -> Optional[Sides]:
    """Sides from the corner of a cell, both joined: four strides, or what the hint says."""
    strides = _joined(seen, corner=True)
    named = seen.hint == "nanodetplus"
    return Sides(seen, strides, "NanoDet-Plus") if len(strides) == 4 or (strides and named) else None


def picodet(seen: Seen) -> Optional[Sides]:
    """Sides from the middle of a cell, two outputs of each of four strides."""
    strides = _pairs(seen)
    return Sides(seen, strides, "PicoDet") if len(strides) == 4 else None


def _joined(seen: Seen, corner: bool = False) -> list[Stride]:
    """Scores before sides, in one map of each stride or one table."""
    maps = [] if seen.anchors is not None else singles(seen, _BINS + 1)
    parts = [(m.part(m.channels - _BINS, _BINS), m.part(0, m.channels - _BINS)) for m in maps]
    return [Stride(sides, scores, logits=None, corner=corner) for sides, scores in parts]


def _pairs(seen: Seen) -> list[Stride]:
    """An output of scores and one of sides for each stride."""
    found = levels(seen)
    if any(len(maps) != 2 for maps in found):
        return []
    pairs = [_pair(*maps) for maps in found]
    forms = {(sides.channels, scores.channels) for sides, scores in pairs}
    if len(forms) != 1 or next(iter(forms))[0] not in _APART:
        return []
    return [Stride(sides, scores, logits=None) for sides, scores in pairs]


def _pair(first: Map, second: Map) -> tuple[Map, Map]:
    """Sides and scores; where both could be sides, scores are the first, as networks give them."""
    return (first, second) if second.channels not in _APART else (second, first)
