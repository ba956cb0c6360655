"""What is in the pictures of a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, one_line

__all__ = ["Labelled", "Things", "Truth", "found_pictures"]

Array = NDArray[Any]
_SHOWN = 5
_LONGEST = 100  # characters of a name in a message


@dataclass(frozen=True)
class Things:
    """What is in one picture, a row each.

    Attributes:
        kinds: int64 [n], places in ``Truth.names``.
        boxes: float64 [n, 4]: x, y, width, height, as COCO has them.
        areas: float64 [n], pixels: they say which things are small.
        crowd: bool [n]: many in one box, of which none must be found.
        keypoints: float64 [n, k, 3] x, y, visibility; None in datasets without.
        outlines: ``segmentation`` of each in COCO's form, see ``masks``; empty in datasets without.
        relative: boxes are parts of width and height, see ``Truth.sized``.

    Examples:
        >>> Things.of([0], [[10, 10, 20, 5]]).areas
        array([100.])
    """

    kinds: Array
    boxes: Array
    areas: Array
    crowd: Array
    keypoints: Optional[Array] = None
    outlines: tuple[Any, ...] = ()
    relative: bool = False

    @classmethod
    def of(
        cls, kinds: Any, boxes: Any, areas: Any = None, crowd: Any = None, keypoints: Any = None
    ) -> Things:
        """From lists; areas are those of the boxes where none are given."""
        rects = np.asarray(boxes, np.float64).reshape(-1, 4)
        return cls(
            np.asarray(kinds, np.int64),
            rects,
            rects[:, 2] * rects[:, 3] if areas is None else np.asarray(areas, np.float64),
            np.zeros(len(rects), bool) if crowd is None else np.asarray(crowd, bool),
            None if keypoints is None else np.asarray(keypoints, np.float64),
        )


@dataclass
class Truth:
    """Pictures and what is in them.

    Attributes:
        names: of the kinds.
        ids: their numbers in the file.
        pictures: files, in the order of their numbers.
        things: of each picture.
        absent: pictures that the file names and that are not there.

    Examples:
        >>> truth = Truth(["cup"], [47], [Path("a.png")], [Things.of([0], [[10, 10, 20, 5]])])
        >>> len(truth.first(1).pictures)
        1
    """

    names: list[str]
    ids: list[int]
    pictures: list[Path]
    things: list[Things]
    absent: list[str] = field(default_factory=list)

    def sized(self, number: int, width: int, height: int) -> None:
        """The picture of that number has been read and is so large: boxes told as parts of it become pixels."""
        one = self.things[number]
        if one.relative:
            self.things[number] = Things.of(one.kinds, one.boxes * (width, height, width, height))

    def first(self, count: Optional[int]) -> Truth:
        """The same with the first pictures only; None: all."""
        return Truth(self.names, self.ids, self.pictures[:count], self.things[:count], self.absent)


@dataclass
class Labelled:
    """Pictures with one answer each: the name of a class, or a text."""

    pictures: list[Path]
    answers: list[str]
    absent: list[str] = field(default_factory=list)

    def first(self, count: Optional[int]) -> Labelled:
        """The same with the first pictures only; None: all."""
        return Labelled(self.pictures[:count], self.answers[:count], self.absent)


def found_pictures(
    names: Sequence[str], folders: Sequence[Path], told_by: Path
) -> tuple[dict[str, Path], list[str]]:
    """Which file each name is, in the first folder that has it, and the names of which there is none.

    Raises:
        InputInvalid: there is none of them, or a name leads out of the folders.
    """
    there: dict[str, Path] = {}
    absent = []
    for name in names:
        plain = os.path.normpath(name)
        if Path(plain).is_absolute() or plain.startswith(".."):
            raise InputInvalid(f"{told_by}: {name!r} is outside of the folder of pictures; give names in it")
        places = (folder / plain for folder in folders)
        path = next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113  names too long for Path
        if path is None:
            absent.append(name)
        else:
            there[name] = path
    if names and not there:
        some = ", ".join(one_line(name[:_LONGEST]) for name in absent[:_SHOWN])
        where = ", ".join(map(str, folders))
        raise InputInvalid(
            f"{told_by}: none of its {len(names)} pictures ({some}, ...) is in {where}; say --pictures FOLDER"
        )
    return there, absent
