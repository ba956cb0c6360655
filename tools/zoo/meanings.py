"""What a user reads in the answers of a trained network, and how far two answers say the same.

A reading takes an answer (its outputs as in the ONNX file) and gives what an application goes on with: a class, a text,
boxes. Two sets of readings are compared by one figure: a share in percent, or a distance in the unit that the meaning tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from boxes import blazeface, centerface, matched, pnet, regions, yolov8, yolox
from numpy.typing import NDArray

__all__ = ["MEANINGS", "Meaning", "edits"]

Array = NDArray[Any]
Answer = Sequence[Array]


@dataclass(frozen=True)
class Meaning:
    """``read`` makes a reading of an answer; ``compare`` one figure of two lists of readings, told as ``unit``."""

    told: str
    unit: str
    read: Callable[[Answer], Any]
    compare: Callable[[list[Any], list[Any]], float]


def _equal(a: list[Any], b: list[Any]) -> float:
    return 100 * float(np.mean([x == y for x, y in zip(a, b, strict=True)]))


def edits(a: Sequence[int], b: Sequence[int]) -> int:
    """Levenshtein's distance of two sequences."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def _characters(a: list[Any], b: list[Any]) -> float:
    """Characters that need no edit, of all of the longer text."""
    wrong = sum(edits(x, y) for x, y in zip(a, b, strict=True))
    return 100 * (1 - wrong / max(1, sum(max(len(x), len(y)) for x, y in zip(a, b, strict=True))))


def _distance(a: list[Any], b: list[Any]) -> float:
    return float(np.mean([np.abs(x - y).mean() for x, y in zip(a, b, strict=True)]))


def _apart(a: list[Any], b: list[Any]) -> float:
    """Mean distance of points, (points, 2) each."""
    return float(np.mean([np.hypot(*(x - y).T).mean() for x, y in zip(a, b, strict=True)]))


def _overlap(a: list[Any], b: list[Any]) -> float:
    """Intersection over union of all masks."""
    both, either = (sum(int(f(x, y).sum()) for x, y in zip(a, b)) for f in (np.logical_and, np.logical_or))
    return 100 * both / either if either else 100.0


def _nearest(a: list[Any], b: list[Any]) -> float:
    """Inputs whose nearest other input is the same by both."""

    def nearest(vectors: list[Any]) -> Array:
        stacked = np.stack(vectors)
        stacked = stacked / (np.linalg.norm(stacked, axis=1, keepdims=True) + 1e-12)
        likeness = stacked @ stacked.T
        np.fill_diagonal(likeness, -2)
        return likeness.argmax(1)

    return 100 * float((nearest(a) == nearest(b)).mean())


def _near_bins(a: list[Any], b: list[Any]) -> float:
    return 100 * float(np.mean([abs(x - y) <= 2 for x, y in zip(a, b, strict=True)]))


def _text(answer: Answer) -> list[int]:
    """Greedy reading of a recogniser: the best class of each step, without repetitions and blanks (class 0)."""
    best = answer[0].argmax(-1).reshape(-1)
    return [int(c) for n, c in enumerate(best) if c != 0 and (n == 0 or c != best[n - 1])]


def _points(place: int, size: float, count: int, stride: int) -> Callable[[Answer], Array]:
    return lambda answer: size * answer[place].reshape(-1)[: count * stride].reshape(count, stride)[:, :2]


def _in_rows(place: int, size: float) -> Callable[[Answer], Array]:
    """Points stored as all x, then all y."""
    return lambda answer: size * answer[place].reshape(2, -1).T


MEANINGS = {
    "class": Meaning("best class", "% equal", lambda a: int(a[0].argmax()), _equal),
    "decision": Meaning(
        "probability above 0.5", "% equal", lambda a: bool(a[0].reshape(-1)[-1] > 0.5), _equal
    ),
    "decision_face": Meaning(
        "probability above 0.5", "% equal", lambda a: bool(a[1].reshape(-1)[-1] > 0.5), _equal
    ),
    "text": Meaning("text", "% of characters", _text, _characters),
    "regions": Meaning("text regions", "% at IoU 0.5", lambda a: regions(a[0][0, 0] > 0.3), matched),
    "boxes_yolov8": Meaning("boxes and classes", "% at IoU 0.5", yolov8, matched),
    "boxes_yolox": Meaning("boxes", "% at IoU 0.5", yolox, matched),
    "boxes_centerface": Meaning("faces", "% at IoU 0.5", centerface, matched),
    "boxes_pnet": Meaning("candidates", "% at IoU 0.5", pnet, matched),
    "boxes_blazeface": Meaning("faces", "% at IoU 0.5", blazeface, matched),
    "points_onet": Meaning("5 points", "pixels of 48", _in_rows(1, 48), _apart),
    "points_landmark": Meaning("468 points", "pixels of 192", _points(0, 1, 468, 3), _apart),
    "points_iris": Meaning("71 points", "pixels of 64", _points(0, 1, 71, 3), _apart),
    "mask": Meaning("mask", "% IoU", lambda a: a[0] > 0.5, _overlap),
    "embedding": Meaning(
        "nearest other input", "% equal", lambda a: a[0].reshape(-1).astype(np.float64), _nearest
    ),
    "opinion": Meaning("opinion score", "points of 5", lambda a: a[0].reshape(-1), _distance),
    "notes": Meaning("notes that sound", "% IoU", lambda a: a[1] > 0.3, _overlap),
    "pitch": Meaning("pitch", "% within 50 cents", lambda a: int(a[0].argmax()), _near_bins),
    "spectrum": Meaning("mel bands", "dB", lambda a: a[0].reshape(-1), _distance),
}
