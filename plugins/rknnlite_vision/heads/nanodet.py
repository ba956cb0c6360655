"""NanoDet, NanoDet-Plus and PicoDet: scores and a distribution of each side over bins, of each cell."""

from __future__ import annotations

from typing import Optional

from .levels import levels, singles
from .logits import are_logits
from .seen import Map, Seen
from .yolo_sides import Sides, Stride

__all__ = ["nanodet", "nanodet_plus", "picodet"]

_BINS = 4 * 8
"""Numbers of the sides where scores lie in the same output, as all published networks have it."""
_APART = (4 * 8, 4 * 11)
"""Likewise where they have an output of their own."""


def nanodet(seen: Seen) -> Optional[Sides]:
    """Sides from the middle of a cell, three strides."""
    strides = _strides(seen, 3)
    return Sides(seen, strides, "NanoDet") if strides else None


def nanodet_plus(seen: Seen) -> Optional[Sides]:
    """Sides from the corner of a cell, four strides or what the hint says."""
    strides = _strides(seen, 0 if seen.hint == "nanodetplus" else 4, corner=True)
    return Sides(seen, strides, "NanoDet-Plus") if strides else None


def picodet(seen: Seen) -> Optional[Sides]:
    """Sides from the middle of a cell, four strides."""
    strides = _strides(seen, 4)
    return Sides(seen, strides, "PicoDet") if strides else None


def _strides(seen: Seen, count: int, corner: bool = False) -> list[Stride]:
    """Scores and sides of ``count`` strides (0: of any number), in two outputs of each, in one, or in one table of all."""
    apart = _pairs(seen)
    pairs = apart or _joined(seen)
    if count not in (0, len(pairs)):
        return []
    logits = any(are_logits(scores.attr, seen.activation, alone=bool(apart)) for _, scores in pairs)
    return [Stride(sides, scores, logits=logits, corner=corner) for sides, scores in pairs]


def _joined(seen: Seen) -> list[tuple[Map, Map]]:
    """Scores before sides, in one map of each stride or one table."""
    maps = [] if seen.anchors is not None else singles(seen, _BINS + 1)
    return [(m.part(m.channels - _BINS, _BINS), m.part(0, m.channels - _BINS)) for m in maps]


def _pairs(seen: Seen) -> list[tuple[Map, Map]]:
    """An output of scores and one of sides for each stride."""
    found = levels(seen)
    if any(len(maps) != 2 for maps in found):
        return []
    pairs = [_pair(*maps) for maps in found]
    forms = {(sides.channels, scores.channels) for sides, scores in pairs}
    return pairs if len(forms) == 1 and next(iter(forms))[0] in _APART else []


def _pair(first: Map, second: Map) -> tuple[Map, Map]:
    """Sides and scores; where both could be sides, scores are the first, as networks give them."""
    return (first, second) if second.channels not in _APART else (second, first)
