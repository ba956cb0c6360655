"""The families of heads that are recognised: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Optional

from .head import Head
from .seen import Seen
from .yolo_sides import sides

__all__ = ["FAMILIES", "Family"]


class Family(NamedTuple):
    """A family of heads.

    Attributes:
        name: as messages call it, e.g. ``"YOLOv8 (9 or 6 outputs)"``.
        hints: words that choose it where shapes are those of several.
        build: the head for what is seen, or None where it is not of this family. May look at ``seen.hint``, which is one of
            ``hints``, in small letters and digits only, or empty.
    """

    name: str
    hints: tuple[str, ...]
    build: Callable[[Seen], Optional[Head]]


FAMILIES: list[Family] = [
    Family(
        "YOLOv6, v8, v9, v10, 11, 12, 26, World: boxes and scores of each stride",
        ("yolov6", "yolov8", "yolov9", "yolov10", "yolo11", "yolo12", "yolo26", "yolo-world"),
        sides,
    ),
]
"""All rows; the first that fits is not enough: where several fit, the caller must say which."""
