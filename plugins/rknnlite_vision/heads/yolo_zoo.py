"""Forms of heads with sides and scores in Rockchip's model zoo: maps for each, joined ones; masks, keypoints, angles."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

import numpy as np

from .compiled_sides import CompiledSides
from .extras import Cells, Columns, Keypoints, Masks
from .logits import are_logits
from .seen import STRIDES, Map, Seen
from .stored import Stored
from .yolo_sides import Sides, Stride

__all__ = ["joined", "joined_pose", "joined_rotated", "masked", "separate"]

_BINS = 64
_NAMES = {
    "yolov6": "YOLOv6",
    "yolov8": "YOLOv8",
    "yolov9": "YOLOv9",
    "yolov10": "YOLOv10",
    "yolo11": "YOLO11",
    "yolo12": "YOLO12",
    "yolo26": "YOLO26",
    "yoloworld": "YOLO-World",
    "ppyoloe": "PP-YOLOE",
}
_FORMS = {
    4: "YOLOv6 form (or 26, by hint)",
    64: "YOLOv8 form (8, 9, 11, 12, World; or v10, by hint)",
    68: "YOLOv6 form (6, PP-YOLOE)",
}
"""What networks are called by the numbers of their sides."""
_NEVER_SUPPRESSED = ("yolov10", "yolo26")


def separate(seen: Seen) -> Optional[Sides]:
    """Sides and scores of each stride in maps of their own."""
    strides = None if seen.rows else _strides(seen, seen.grids())
    if not strides:
        return None
    if seen.hint in _NEVER_SUPPRESSED:
        return Sides(seen, strides, f"{_NAMES[seen.hint]}, not suppressed", suppressed=False)
    form = _FORMS[strides[0].sides.channels]
    return _fast(Sides(seen, strides, _NAMES.get(seen.hint, form)))


def masked(seen: Seen) -> Optional[Sides]:
    """The same with coefficients of masks, and prototypes."""
    found = prototypes_of(seen)
    if found is None or seen.rows:
        return None
    prototypes, maps = found
    strides = _strides(seen, seen.grids(maps), prototypes.channels)
    if not strides:
        return None
    coefficients = Cells([s.coefficients for s in strides if s.coefficients])
    return _fast(Sides(seen, strides, "YOLOv8 form (8, 11)", Masks(coefficients, prototypes)))


def joined(seen: Seen) -> Optional[Sides]:
    """Sides and scores before the sigmoid in one map of each stride; three times anything may also be boxes of anchors."""
    strides = None if seen.rows or seen.anchors is not None else _joined_strides(seen)
    return Sides(seen, strides, "YOLOv8 form, joined maps") if strides else None


def joined_pose(seen: Seen) -> Optional[Sides]:
    """Joined maps, and a table of keypoints [1, points, 3, cells]."""
    strides = _joined_strides(seen) if len(seen.rows) == 1 else None
    if not strides:
        return None
    (attr,) = seen.rows
    numbers = int(np.prod(attr.dims[1:-1]))
    if attr.dims[-1] != _cells(strides) or numbers < 3 or numbers % 3:
        return None
    return Sides(seen, strides, "YOLOv8 form, joined maps", Keypoints(Columns(seen.index(attr), attr)))


def joined_rotated(seen: Seen) -> Optional[Sides]:
    """Joined maps, and an angle for each cell [1, 1, cells]."""
    strides = _joined_strides(seen) if len(seen.rows) == 1 else None
    if not strides:
        return None
    (attr,) = seen.rows
    if attr.n_elems != attr.dims[0] * _cells(strides) or attr.dims[-1] != _cells(strides):
        return None
    return Sides(seen, strides, "YOLOv8 form, joined maps", angles=Columns(seen.index(attr), attr))


def _fast(head: Sides) -> Sides:
    """The head, decoded by the library where that knows its maps."""
    if CompiledSides.fits(head.strides):
        head.compiled = CompiledSides(head.strides, len(head.outputs))
    return head


def prototypes_of(seen: Seen) -> Optional[tuple[Map, list[Map]]]:
    """The map of prototypes, finer than all others, and the others."""
    grids = seen.grids()
    if not grids or len(grids[0]) != 1 or grids[0][0].stride > 4:
        return None
    return grids[0][0], [m for grid in grids[1:] for m in grid]


def _cells(strides: Sequence[Stride]) -> int:
    return sum(s.sides.height * s.sides.width for s in strides)


def _joined_strides(seen: Seen) -> Optional[list[Stride]]:
    """Of networks that give logits alone; None where the outputs are others."""
    maps = [grid[0] for grid in seen.grids() if len(grid) == 1]
    if tuple(m.stride for m in maps) not in STRIDES or len(maps) != len(seen.maps):
        return None
    if (
        len({m.channels for m in maps}) != 1
        or maps[0].channels <= _BINS
        or seen.activation == "probabilities"
    ):
        return None
    if any(Stored(m.attr).range[0] > -1 for m in maps):  # logits of scores are far below zero
        return None
    return [Stride(m.part(0, _BINS), m.part(_BINS, m.channels - _BINS), logits=True) for m in maps]


def _strides(seen: Seen, grids: Sequence[Sequence[Map]], coefficients: int = 0) -> list[Stride]:
    """Which map of each grid is which; empty where they are not those of such a head. ``coefficients``: per cell."""
    if tuple(maps[0].stride for maps in grids) not in STRIDES:
        return []
    found = [_stride(maps, coefficients) for maps in grids]
    strides = [stride for stride in found if stride is not None]
    forms = {(s.sides.channels, s.scores.channels, s.total is None) for s in strides}
    if len(strides) != len(grids) or len(forms) != 1:
        return []
    logits = any(are_logits(s.scores.attr, seen.activation) for s in strides)
    return [dataclasses.replace(s, logits=logits) for s in strides]


def _stride(maps: Sequence[Map], coefficients: int) -> Optional[Stride]:
    left = list(maps)
    weights = next((m for m in reversed(left) if m.channels == coefficients), None)
    if coefficients and weights is None:
        return None
    if weights is not None:
        left.remove(weights)
    sides = _sides_map(left)
    if sides is None or len(left) not in (2, 3):
        return None
    left.remove(sides)
    total = next((m for m in reversed(left) if m.channels == 1), None) if len(left) == 2 else None
    if total is not None:
        left.remove(total)
    return Stride(sides, left[0], total, weights) if len(left) == 1 else None


def _sides_map(maps: Sequence[Map]) -> Optional[Map]:
    """The one with 4 numbers, or 4 distributions over 16 or 17 bins; where the scores have as many, the first."""
    fitting = [m for m in maps if m.channels in (4, 64, 68)]
    ranged = [m for m in fitting if Stored(m.attr).range[1] > 2]
    return next(iter(ranged or fitting), None)
