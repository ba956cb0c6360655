"""Datasets in COCO's form: a JSON file of pictures, categories and annotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rknnlite.errors import InputInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_bytes

from .truth import Things, Truth, found_pictures

__all__ = ["is_coco", "read_coco"]

_PARTS = ("images", "annotations", "categories")
_FOLDERS = (
    "",
    "images",
    "val2017",
    "../val2017",
    "../images",
    "../images/val2017",
    "../val",
    "../images/val",
)
"""Where pictures lie beside the file, as people keep them; those after ``file_name`` of COCO itself among them."""
_MOST = 1 << 30  # bytes
_LARGEST = 1e12
"""Of a number of an annotation: its square, and areas of such sides, are numbers still."""


def is_coco(path: Path) -> bool:
    """Whether the name is that of such a file."""
    return path.suffix.lower() == ".json"


def read_coco(path: Path, pictures: Path | None = None, keypoints: bool = False) -> Truth:
    """The dataset; pictures are in ``pictures``, or in a folder beside the file.

    Args:
        keypoints: only categories that have some count, and each thing has as many.

    Raises:
        InputInvalid: it is no such file, something in it is damaged (its place is told), or there are no pictures.
    """
    data = _read(path)
    categories: dict[int, str] = {}
    for n, row in enumerate(data["categories"]):
        if not keypoints or row.get("keypoints"):
            number = _int(row, "id", f"categories[{n}]", path)
            _keep(categories, number, str(row.get("name", number)), f"categories[{n}]", path)
    if not categories:
        raise InputInvalid(f"{path} has no categories{' with keypoints' if keypoints else ''}")
    ids = sorted(categories)
    places = {number: place for place, number in enumerate(ids)}
    names: dict[int, str] = {}
    for n, row in enumerate(data["images"]):
        file = row.get("file_name")
        if not isinstance(file, str) or not file:
            raise InputInvalid(f"{path}: images[{n}] has no file_name")
        _keep(names, _int(row, "id", f"images[{n}]", path), file, f"images[{n}]", path)
    if not names:
        raise InputInvalid(f"{path} has no images")
    rows: dict[int, list[tuple[Any, ...]]] = {number: [] for number in names}
    for n, row in enumerate(data["annotations"]):
        where = f"annotations[{n}]"
        picture, kind = _int(row, "image_id", where, path), _int(row, "category_id", where, path)
        if picture not in rows:
            raise InputInvalid(f"{path}: {where} is of image {picture}, which images does not have")
        if kind not in places:
            if keypoints:
                continue
            raise InputInvalid(f"{path}: {where} is of category {kind}, which categories does not have")
        rows[picture].append(_thing(row, places[kind], where, path, keypoints))
    folders = [pictures] if pictures else [path.parent / folder for folder in _FOLDERS]
    there, absent = found_pictures(list(names.values()), folders, path)
    kept = [number for number in sorted(names) if names[number] in there]
    things = [_things(rows[number], keypoints) for number in kept]
    return Truth([categories[i] for i in ids], ids, [there[names[n]] for n in kept], things, absent)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        data = parse_json(read_bytes(path, _MOST))
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(data, dict):
        raise InputInvalid(f"{path} is no dataset of COCO: it holds {type(data).__name__}, must be an object")
    for part in _PARTS:
        value = data.get(part)
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            there = "is no list of objects" if part in data else "is not there"
            hint = "; results of a detector have no truth in them" if part == "annotations" else ""
            raise InputInvalid(f"{path} is no dataset of COCO: {part} {there}{hint}")
    return data


def _int(row: Mapping[str, Any], key: str, where: str, path: Path) -> int:
    value = row.get(key)
    if not isinstance(value, int):
        raise InputInvalid(f"{path}: {where}: {key} is {shown(value, 60)}, must be a whole number")
    return value


def _keep(names: dict[int, str], number: int, name: str, where: str, path: Path) -> None:
    """Add a name; the same again is no harm, as merged files have it, but another makes annotations ambiguous."""
    before = names.setdefault(number, name)
    if before != name:
        raise InputInvalid(
            f"{path}: {where}: id {number} is that of {shown(before, 60)} already; number them anew"
        )


def _numbers(value: Any, count: int, name: str, where: str, path: Path) -> list[float]:
    good = isinstance(value, list) and all(
        isinstance(number, (int, float)) and abs(number) <= _LARGEST for number in value
    )
    if not good or (count and len(value) != count) or (not count and len(value) % 3):
        wanted = f"{count} numbers" if count else "x, y and visibility of each point"
        raise InputInvalid(f"{path}: {where}: {name} is {shown(value, 60)}, must be {wanted}")
    return [float(number) for number in value]


def _thing(row: Mapping[str, Any], kind: int, where: str, path: Path, keypoints: bool) -> tuple[Any, ...]:
    box = _numbers(row.get("bbox"), 4, "bbox", where, path)
    area = row.get("area", box[2] * box[3])
    (area,) = _numbers([area], 1, "area", where, path)
    points = _numbers(row.get("keypoints"), 0, "keypoints", where, path) if keypoints else []
    return kind, box, area, bool(row.get("iscrowd", 0)), points, row.get("segmentation")


def _things(rows: list[tuple[Any, ...]], keypoints: bool) -> Things:
    kinds, boxes, areas, crowd, points, outlines = zip(*rows) if rows else ([],) * 6
    spots = None
    if keypoints:
        count = len(points[0]) // 3 if points else 0
        if any(len(one) != 3 * count for one in points):
            raise InputInvalid("annotations of one picture have different numbers of keypoints")
        spots = np.array(points).reshape(len(points), count, 3)
    return dataclasses.replace(Things.of(kinds, boxes, areas, crowd, spots), outlines=tuple(outlines))
