"""``rknnlite segment``: which pixels belong to which thing, or class."""

from __future__ import annotations

from typing import Any

from rknnlite.spi.command import Column

from ..heads.head import ASKED
from .detect import Boxes

__all__ = ["COMMAND"]


class Segment(Boxes):
    """See the module."""

    name = "segment"
    help = "find the outlines of things, or the class of each pixel"
    examples = (
        "rknnlite segment seg.rknn picture.jpg --labels coco --out found.png",
        "rknnlite segment road.rknn film.mp4 --labels roads.txt --out marked.mp4",
        "rknnlite segment seg.rknn pictures/ --json",
    )
    tasks = frozenset(ASKED["segment"])
    columns = (*Boxes.columns, Column("pixels", right=True), Column("share", right=True))

    def cells(self, found: dict[str, Any]) -> list[str]:
        pixels = str(sum(found["mask"]["counts"][1::2]))
        if "box" in found:
            return [*super().cells(found), pixels, ""]
        blank = [""] * (len(Boxes.columns) - 1)
        return [str(found["label"]), *blank, pixels, f"{found['share']:.1%}"]


COMMAND = Segment()
