"""Datasets as YOLOs are trained on: a folder of pictures, and for each a text of lines ``class x y width height``, from 0 to 1."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.files.reading import read_text

from ..labels import read_labels
from ..pictures import pictures_in
from .truth import Things, Truth

__all__ = ["labels_beside", "read_yolo"]

_LISTS = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
_MOST_CLASSES = 100_000
_FARTHEST = 1e3  # times the picture's width or height


def labels_beside(folder: Path) -> tuple[Path, Path] | None:
    """The folders of pictures and of labels; None where there are no labels."""
    pictures = folder / "images" if (folder / "images").is_dir() else folder
    for labels in (
        folder / "labels",
        folder.parent / "labels",
        folder.parent.parent / "labels" / folder.name,
        folder,
    ):
        if labels.is_dir() and any(
            path.suffix == ".txt" and path.name not in _LISTS for path in labels.iterdir()
        ):
            return pictures, labels
    return None


def read_yolo(folder: Path, names: Sequence[str] = ()) -> Truth:
    """The dataset in a folder with ``images`` and ``labels``, or with both beside each other.

    Args:
        names: of the classes; else those of data.yaml or classes.txt, else their numbers.

    Raises:
        InputInvalid: no labels, or a line that is none (file and line are told).
    """
    places = labels_beside(folder)
    if places is None:
        raise InputInvalid(f"{folder} has no labels: give a folder with images/ and labels/")
    images, labels = places
    pictures = pictures_in(images)
    things = [_things(labels / f"{picture.stem}.txt") for picture in pictures]
    most = max((int(one.kinds.max()) + 1 for one in things if len(one.kinds)), default=0)
    if not most:
        raise InputInvalid(f"{labels}: no picture of {images} has a label")
    given = list(names) or _names(folder, images)
    if given and len(given) < most:
        raise InputInvalid(f"{labels} has class {most - 1}, and there are names for {len(given)} classes")
    names = given or [f"class {n}" for n in range(most)]
    return Truth(list(names), list(range(len(names))), pictures, things)


def _names(folder: Path, images: Path) -> list[str]:
    for place in dict.fromkeys((folder, images, folder.parent)):
        for name in _LISTS:
            if (place / name).is_file():
                try:
                    return read_labels(place / name)
                except ParamInvalid:  # a description that names no classes
                    continue
    return []


def _things(file: Path) -> Things:
    if not file.is_file():  # nothing is in the picture
        return Things.of([], [])
    try:
        rows = [line.split() for line in read_text(file).splitlines()]
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{file} cannot be read: {error}") from None
    kinds, boxes = [], []
    for n, words in enumerate(rows, 1):
        if words:
            kind, *box = _numbers(words, f"{file}, line {n}")
            kinds.append(int(kind))
            boxes.append(box)
    parts = np.array(boxes, np.float64).reshape(-1, 4)
    parts[:, :2] -= parts[:, 2:] / 2
    return dataclasses.replace(Things.of(kinds, parts), relative=True)


def _numbers(words: list[str], where: str) -> list[float]:
    """Class, x, y, width, height; of a polygon, which labels of masks have, the box around it."""
    try:
        kind, *rest = (float(word) for word in words)
        values = np.array(rest)
    except ValueError:
        kind, values = -1.0, np.zeros(0)
    good = (
        kind == int(kind if np.isfinite(kind) else -1)
        and 0 <= kind < _MOST_CLASSES
        and bool((np.abs(values) <= _FARTHEST).all())
    )
    if good and len(values) == 4:
        return [kind, *values.tolist()]
    if good and len(values) >= 6 and len(values) % 2 == 0:
        low, high = values.reshape(-1, 2).min(axis=0), values.reshape(-1, 2).max(axis=0)
        return [kind, *((low + high) / 2).tolist(), *(high - low).tolist()]
    raise InputInvalid(f"{where}: {' '.join(words)[:60]!r} is no label: give class x y width height")
