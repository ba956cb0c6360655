"""``rknnlite detect``: where things are in pictures, films and cameras."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rknnlite.spi.command import Column

from ..heads.head import ASKED
from .look import Look
from .options import COMMON, add_boxes

__all__ = ["COMMAND", "Boxes"]


class Boxes(Look):
    """A command whose table has a box in each row."""

    common: tuple[str, ...] = (*COMMON, "--score")
    columns: Sequence[Column] = (
        Column("label", least=6),
        Column("score", right=True),
        *(Column(name, right=True) for name in ("x1", "y1", "x2", "y2")),
        Column("angle", right=True),
        Column("track", right=True),
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        add_boxes(parser)

    def cells(self, found: dict[str, Any]) -> list[str]:
        angle = f"{found['rotated'][4]:.2f}" if "rotated" in found else ""
        box = [f"{value:.0f}" for value in found["box"]]
        return [*super().cells(found), *box, angle, str(found.get("track", ""))]


class Detect(Boxes):
    """See the module."""

    name = "detect"
    help = "find things in pictures, films and cameras: boxes"
    examples = (
        "rknnlite detect yolo.rknn picture.jpg --labels coco --out found.jpg",
        "rknnlite detect yolo.rknn pictures/ --labels names.txt --out marked --json",
        "rknnlite detect yolo.rknn film.mp4 --out marked.mp4",
        "rknnlite detect yolo.rknn 0 --show",
    )
    tasks = frozenset(ASKED["detect"])


COMMAND = Detect()
