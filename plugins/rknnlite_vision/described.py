"""What was found, as names and numbers: for ``--json``, for the routes of a server, for tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .results import Classes, Detections, Embedding, Lines, Result, Segments, Words

__all__ = ["described", "runs_of"]

Array = NDArray[Any]
_DIGITS = 2  # of pixels
_SCORE_DIGITS = 4


def described(result: Result, name_of: Callable[[int], str]) -> list[dict[str, Any]]:
    """One object for each thing that was found, best first, ready for JSON; ``name_of`` is ``VisionModel.name_of``.

    * Things: ``class``, ``label``, ``score``, ``box`` (x1, y1, x2, y2); where the network tells them ``keypoints`` (x, y, score
      each), ``rotated`` (centre x, y, width, height, angle in radians), ``mask``, ``track``.
    * Classes of a picture: ``class``, ``label``, ``score``. Of its pixels: ``class``, ``label``, ``share``, ``mask``.
    * Words: ``text``, ``score``; of lines in a picture also ``box``, and ``rotated`` of turned ones. A vector: ``vector``.

    A mask is its ``shape`` (height, width) and ``counts``, see ``runs_of``.

    Examples:
        >>> described(Classes(np.array([1]), np.array([0.75])), ["cat", "dog"].__getitem__)
        [{'class': 1, 'label': 'dog', 'score': 0.75}]
    """
    if isinstance(result, Detections):
        return [_thing(result, row, name_of) for row in range(len(result))]
    if isinstance(result, Classes):
        return [
            {"class": int(number), "label": name_of(int(number)), "score": _score(score)}
            for number, score in zip(result.classes, result.scores)
        ]
    if isinstance(result, Segments):
        numbers, counts = np.unique(result.classes, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return [_region(result.classes, int(numbers[i]), name_of) for i in order]
    if isinstance(result, Words):
        return [{"text": result.text, "score": _score(result.score)}]
    if isinstance(result, Lines):
        return [_line(result.words[row], result.places, row) for row in range(len(result.places))]
    return _vector(result)


def _line(words: Words, places: Detections, row: int) -> dict[str, Any]:
    return {"text": words.text, "score": _score(words.score), **_place(places, row)}


def _place(found: Detections, row: int) -> dict[str, Any]:
    place: dict[str, Any] = {"box": _places(found.boxes[row])}
    if found.rotated is not None:
        angle = round(float(found.rotated[row, 4]), _SCORE_DIGITS)
        place["rotated"] = [*_places(found.rotated[row, :4]), angle]
    return place


def _thing(found: Detections, row: int, name_of: Callable[[int], str]) -> dict[str, Any]:
    number = int(found.classes[row])
    thing: dict[str, Any] = {
        "class": number,
        "label": name_of(number),
        "score": _score(found.scores[row]),
        **_place(found, row),
    }
    if found.keypoints is not None:
        points = found.keypoints[row]
        thing["keypoints"] = [[*_places(point[:2]), _score(point[2])] for point in points]
    if found.masks is not None:
        thing["mask"] = _mask(found.masks[row])
    if found.tracks is not None:
        thing["track"] = int(found.tracks[row])
    return thing


def _region(classes: Array, number: int, name_of: Callable[[int], str]) -> dict[str, Any]:
    mask = classes == number
    share = round(float(mask.mean()), _SCORE_DIGITS)
    return {"class": number, "label": name_of(number), "share": share, "mask": _mask(mask)}


def _vector(result: Embedding) -> list[dict[str, Any]]:
    return [{"vector": [float(value) for value in np.ravel(result.vector)]}]


def _mask(mask: Array) -> dict[str, Any]:
    return {"shape": list(mask.shape), "counts": runs_of(mask)}


def runs_of(mask: Array) -> list[int]:
    """Lengths of runs of a mask, column by column, the first of pixels outside: the uncompressed RLE of COCO.

    Examples:
        >>> runs_of(np.array([[False, True], [True, True]]))
        [1, 3]
        >>> runs_of(np.array([[True]]))
        [0, 1]
    """
    height = len(mask)
    columns = np.flatnonzero(mask.any(axis=0))
    if not len(columns):
        return [mask.size] if mask.size else []
    first, end = int(columns[0]), int(columns[-1]) + 1  # outside of them nothing changes
    flat = np.zeros(height * (end - first) + 2, bool)
    flat[1:-1] = mask[:, first:end].ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + first * height
    lengths: list[int] = np.diff(changes, prepend=0, append=mask.size).tolist()
    return lengths if lengths[-1] else lengths[:-1]


def _places(values: Array) -> list[float]:
    return [round(float(value), _DIGITS) for value in values]


def _score(value: float) -> float:
    return round(float(value), _SCORE_DIGITS)
