"""``rknnlite pose``: boxes with keypoints."""

from __future__ import annotations

from typing import Any

from rknnlite.spi.command import Column

from ..drawing import SURE
from ..heads.head import ASKED
from .detect import Boxes

__all__ = ["COMMAND"]


class Pose(Boxes):
    """See the module."""

    name = "pose"
    help = "find people, faces, hands with their keypoints"
    examples = (
        "rknnlite pose pose.rknn picture.jpg --out found.jpg",
        "rknnlite pose face.rknn pictures/ --out marked --json",
        "rknnlite pose pose.rknn 0 --show",
    )
    tasks = frozenset(ASKED["pose"])
    columns = (*Boxes.columns, Column("keypoints", right=True))

    def cells(self, found: dict[str, Any]) -> list[str]:
        points = found.get("keypoints", [])
        sure = sum(score >= SURE for *_, score in points)
        return [*super().cells(found), f"{sure} of {len(points)}"]


COMMAND = Pose()
