"""The numbers of COCO: average precision and recall over classes, overlaps, sizes and counts, as pycocotools computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from ..results import Detections
from .likeness import box_likeness, keypoint_likeness, mask_likeness
from .pairing import pair
from .truth import Things, Truth

__all__ = ["BOXES", "KEYPOINTS", "MASKS", "CocoNumbers", "CocoScore", "Protocol"]

Array = NDArray[Any]
LIMITS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
_HALF, _THREE_QUARTERS = 0, 5  # of LIMITS
_SIZES = {"all": (0, 1e10), "small": (0, 32**2), "medium": (32**2, 96**2), "large": (96**2, 1e10)}


Number = tuple[str, str, Optional[int], str, int]
"""Name, ``precision`` or ``recall``, limit (None: all), size, most."""


@dataclass(frozen=True)
class Protocol:
    """What is measured: ``sizes`` of things, ``most`` detections of a class in a picture, and each number's name and parts."""

    sizes: tuple[str, ...]
    most: tuple[int, ...]
    numbers: tuple[Number, ...]
    like: str = "box"
    """What is compared: ``box``, ``mask`` or ``keypoints``."""


def _numbers(most: tuple[int, ...], sizes: tuple[str, ...]) -> tuple[Number, ...]:
    last = most[-1]
    limits: list[tuple[str, Optional[int]]] = [("", None), ("50", _HALF), ("75", _THREE_QUARTERS)]
    precisions: list[Number] = [(f"AP{name}", "precision", limit, "all", last) for name, limit in limits]
    precisions += [(f"AP {size}", "precision", None, size, last) for size in sizes[1:]]
    recalls: list[Number]
    if len(most) > 1:
        recalls = [(f"AR{count}", "recall", None, "all", count) for count in most]
    else:
        recalls = [(f"AR{name}", "recall", limit, "all", last) for name, limit in limits]
    recalls += [(f"AR {size}", "recall", None, size, last) for size in sizes[1:]]
    return (*precisions, *recalls)


_ALL, _NOT_SMALL = tuple(_SIZES), ("all", "medium", "large")
BOXES = Protocol(_ALL, (1, 10, 100), _numbers((1, 10, 100), _ALL))
MASKS = Protocol(_ALL, (1, 10, 100), BOXES.numbers, "mask")
KEYPOINTS = Protocol(_NOT_SMALL, (20,), _numbers((20,), _NOT_SMALL), "keypoints")


@dataclass(frozen=True)
class CocoNumbers:
    """What was measured; -1 where there is nothing to measure, as pycocotools has it.

    Attributes:
        numbers: by name, in the order of pycocotools' ``stats``.
        ap: average precision of each class. ap50: that at an overlap of 0.5.
        odd: detections without a score or a place (NaN), which were left out.

    Examples:
        >>> CocoNumbers({"AP": 0.4}, [0.4], [0.6]).numbers["AP"]
        0.4
    """

    numbers: dict[str, float]
    ap: list[float]
    ap50: list[float]
    odd: int = 0


class _Part(NamedTuple):
    """One class in one picture."""

    picture: int
    scores: Array
    found: Array
    aside: Array
    counting: Array  # things of each size


class CocoScore:
    """Takes what is found in picture after picture.

    Examples:
        >>> from pathlib import Path
        >>> truth = Truth(["cup"], [1], [Path("a.png")], [Things.of([0], [[10, 10, 20, 20]])])
        >>> score = CocoScore(truth)
        >>> score.add(0, Detections(np.array([[10, 10, 30, 30]]), np.array([0.9]), np.array([0])))
        >>> round(score.result().numbers["AP"], 6)
        1.0
    """

    def __init__(self, truth: Truth, protocol: Protocol = BOXES) -> None:
        self._truth, self._protocol = truth, protocol
        self._ranges = np.array([_SIZES[size] for size in protocol.sizes], np.float64)
        self._parts: dict[int, list[_Part]] = {kind: [] for kind in range(len(truth.names))}
        self._odd = 0

    def add(self, picture: int, found: Detections) -> None:
        """What is found in the picture of that place in ``truth``; ``classes`` are places in ``truth.names``."""
        good = np.isfinite(found.scores) & np.isfinite(found.boxes).all(axis=1)
        self._odd += int(len(found) - good.sum())
        found = found[good]
        things = self._truth.things[picture]
        for kind in np.union1d(found.classes, things.kinds).tolist():
            if kind in self._parts:
                rows = np.flatnonzero(found.classes == kind)
                best = rows[np.argsort(-found.scores[rows], kind="stable")][: self._protocol.most[-1]]
                part = self._part(picture, found[best], _rows(things, things.kinds == kind))
                self._parts[kind].append(part)

    def _part(self, picture: int, found: Detections, things: Things) -> _Part:
        areas, aside = self._areas(found), things.crowd
        if self._protocol.like == "keypoints":
            assert things.keypoints is not None
            aside = aside | ~(things.keypoints[..., 2] > 0).any(axis=1)
        ignored = aside | self._outside(things.areas)
        shape = (len(ignored), len(LIMITS), len(found))
        hit, beside = np.zeros(shape, bool), np.zeros(shape, bool)
        if len(things.kinds) and len(found):
            hit, beside = pair(self._likeness(found, things), LIMITS, ignored, things.crowd)
        beside |= ~hit & self._outside(areas)[:, None]
        return _Part(picture, found.scores.astype(np.float64), hit, beside, (~ignored).sum(axis=1))

    def _likeness(self, found: Detections, things: Things) -> Array:
        if self._protocol.like == "keypoints":
            assert found.keypoints is not None
            return keypoint_likeness(found.keypoints[..., :2].astype(np.float64), things)
        if self._protocol.like == "mask":
            assert found.masks is not None
            return mask_likeness(found.masks, things)
        return box_likeness(_rectangles(found), things)

    def _areas(self, found: Detections) -> Array:
        """Of what is found, as COCO takes them."""
        if self._protocol.like == "mask":
            assert found.masks is not None
            return np.asarray(found.masks.sum(axis=(1, 2)), np.float64)
        if self._protocol.like == "keypoints":
            assert found.keypoints is not None
            sides = np.ptp(found.keypoints[..., :2].astype(np.float64), axis=1)
        else:
            sides = _rectangles(found)[:, 2:]
        areas: Array = sides[:, 0] * sides[:, 1]
        return areas

    def _outside(self, areas: Array) -> Array:
        """bool [a, n]: which are not of each range of sizes."""
        outside: Array = (areas < self._ranges[:, :1]) | (areas > self._ranges[:, 1:])
        return outside

    def result(self) -> CocoNumbers:
        """The numbers of what was added so far."""
        protocol, kinds = self._protocol, len(self._parts)
        shape = (kinds, len(protocol.sizes), len(protocol.most))
        precision = -np.ones((len(LIMITS), len(RECALLS), *shape))
        recall = -np.ones((len(LIMITS), *shape))
        for kind, parts in self._parts.items():
            parts.sort(key=lambda part: part.picture)
            for a in range(shape[1]):
                there = sum(int(part.counting[a]) for part in parts)
                for m, most in enumerate(protocol.most if there else ()):
                    curve, last = _curve(parts, a, most, there)
                    precision[:, :, kind, a, m], recall[:, kind, a, m] = curve, last
        values = {"precision": precision, "recall": recall}
        numbers = {
            name: _mean(
                (values[what] if limit is None else values[what][limit : limit + 1])[
                    ..., protocol.sizes.index(size), protocol.most.index(most)
                ]
            )
            for name, what, limit, size, most in protocol.numbers
        }
        whole = precision[..., 0, -1]
        ap, ap50 = ([_mean(part[..., kind]) for kind in range(kinds)] for part in (whole, whole[:1]))
        return CocoNumbers(numbers, ap, ap50, self._odd)


def _rectangles(found: Detections) -> Array:
    """x, y, width, height."""
    boxes = found.boxes.astype(np.float64)
    return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)


def _rows(things: Things, rows: Array) -> Things:
    points = None if things.keypoints is None else things.keypoints[rows]
    outlines = tuple(outline for outline, row in zip(things.outlines, rows) if row)
    return Things(
        things.kinds[rows], things.boxes[rows], things.areas[rows], things.crowd[rows], points, outlines
    )


def _curve(parts: list[_Part], size: int, most: int, there: int) -> tuple[Array, Array]:
    """Precision [t, r] at each recall, and the last recall [t], of a class in all pictures."""
    scores = np.concatenate([part.scores[:most] for part in parts])
    order = np.argsort(-scores, kind="stable")
    hit, aside = (
        np.concatenate([getattr(part, name)[size][:, :most] for part in parts], axis=1)[:, order]
        for name in ("found", "aside")
    )
    right = np.cumsum(hit & ~aside, axis=1).astype(np.float64)
    wrong = np.cumsum(~hit & ~aside, axis=1).astype(np.float64)
    recall = right / there
    precision = right / (wrong + right + np.spacing(1))
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    curve = np.zeros((len(LIMITS), len(RECALLS)))
    for row, reached, values in zip(curve, recall, precision):
        places = np.searchsorted(reached, RECALLS, side="left")
        inside = places < len(values)
        row[inside] = values[places[inside]]
    return curve, recall[:, -1] if len(scores) else np.zeros(len(LIMITS))


def _mean(values: Array) -> float:
    told = values[values > -1]
    return float(np.mean(told)) if len(told) else -1.0
