"""Boxes in the answers of detectors: (left, top, right, bottom, class) in pixels of the input, and how far two lists agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["blazeface", "centerface", "matched", "pnet", "regions", "yolov8", "yolox"]

Array = NDArray[Any]
Answer = Sequence[Array]


def overlaps(a: Array, b: Array) -> Array:
    """Intersection over union of each of ``a`` (n, 5) with each of ``b`` (m, 5); 0 where classes differ."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:4], b[None, :, 2:4])
    both = np.prod(np.maximum(0, high - low), -1)
    areas = [np.prod(np.maximum(0, x[:, 2:4] - x[:, :2]), -1) for x in (a, b)]
    union = areas[0][:, None] + areas[1][None] - both
    return np.where(a[:, None, 4] == b[None, :, 4], both / np.maximum(union, 1e-9), 0)


def matched(a: list[Array], b: list[Array]) -> float:
    """Boxes with a partner at an IoU of 0.5, of all boxes of both, in percent."""
    partners, count = 0, 0
    for x, y in zip(a, b, strict=True):
        count += len(x) + len(y)
        likeness = overlaps(x, y)
        while likeness.size and likeness.max() >= 0.5:
            i, j = np.unravel_index(likeness.argmax(), likeness.shape)
            likeness[i], likeness[:, j] = 0, 0
            partners += 2
    return 100 * partners / count if count else 100.0


def _kept(boxes: Array, scores: Array, least: float, iou: float) -> Array:
    """Non-maximum suppression of those whose score is at least ``least``."""
    chosen = np.flatnonzero(scores >= least)
    order = list(chosen[np.argsort(-scores[chosen], kind="stable")])
    kept = []
    while order:
        first = order.pop(0)
        kept.append(first)
        if order:
            likeness = overlaps(boxes[[first]], boxes[order])[0]
            order = [n for n, same in zip(order, likeness) if same <= iou]
    return boxes[kept]


def _around(x: Array, y: Array, width: Array, height: Array, kind: Any = 0) -> Array:
    """Boxes around centres."""
    sides = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return np.stack(np.broadcast_arrays(*(s.reshape(-1) for s in sides), np.ravel(kind)), -1).astype(
        np.float64
    )


def yolov8(answer: Answer) -> Array:
    """(1, 4 + classes, boxes)."""
    found = answer[0][0]
    boxes = _around(*found[:4], found[4:].argmax(0))
    return _kept(boxes, found[4:].max(0), 0.25, 0.45)


def yolox(answer: Answer) -> Array:
    """(1, boxes, 6), relative to the cells of three grids."""
    found = answer[0][0].astype(np.float64)
    size = 416
    grids = [np.stack(np.meshgrid(*[np.arange(size // s)] * 2), -1).reshape(-1, 2) for s in (8, 16, 32)]
    strides = np.concatenate([np.full(len(g), s) for g, s in zip(grids, (8, 16, 32))])
    centres = (found[:, :2] + np.concatenate(grids)) * strides[:, None]
    sides = np.exp(np.minimum(found[:, 2:4], 10)) * strides[:, None]
    return _kept(_around(*centres.T, *sides.T), found[:, 4] * found[:, 5], 0.25, 0.45)


def centerface(answer: Answer) -> Array:
    """Heat map, logarithm of the size, offset; a cell is four pixels."""
    heat, size, offset = (part[0].astype(np.float64) for part in answer[:3])
    rows, columns = np.indices(heat[0].shape)
    height, width = np.exp(np.minimum(size, 5)) * 4
    boxes = _around((columns + offset[1] + 0.5) * 4, (rows + offset[0] + 0.5) * 4, width, height)
    return _kept(boxes, heat[0].reshape(-1), 0.5, 0.3)


def pnet(answer: Answer) -> Array:
    """Offsets of windows of 12 pixels each second pixel, and the probabilities of no face and a face."""
    offsets, scores = answer[0][0].astype(np.float64), answer[1][0, 1]
    rows, columns = np.indices(scores.shape)
    sides = (columns * 2, rows * 2, columns * 2 + 12, rows * 2 + 12)
    boxes = np.stack([(s + 12 * o).reshape(-1) for s, o in zip(sides, offsets)] + [np.zeros(scores.size)], -1)
    return _kept(boxes, scores.reshape(-1), 0.6, 0.5)


def blazeface(answer: Answer) -> Array:
    """Boxes around 512 anchors of stride 8 and 384 of stride 16, in an input of 128 pixels."""
    boxes, scores = sorted((part[0].astype(np.float64) for part in answer), key=lambda part: -part.shape[-1])
    cells = [np.stack(np.meshgrid(*[(np.arange(n) + 0.5) * 128 / n] * 2), -1).reshape(-1, 2) for n in (16, 8)]
    anchors = np.concatenate([np.repeat(c, n, 0) for c, n in zip(cells, (2, 6))])
    centres = boxes[:, :2] + anchors
    return _kept(_around(*centres.T, *boxes[:, 2:4].T), scores.reshape(-1), 0.0, 0.3)


def regions(mask: Array) -> Array:
    """Boxes around connected parts of a map, of at least 20 pixels."""
    left = mask.copy()
    found = []
    for y, x in np.argwhere(mask):
        if not left[y, x]:
            continue
        left[y, x], waiting, part = False, [(y, x)], []
        while waiting:
            row, column = waiting.pop()
            part.append((row, column))
            for r, c in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if 0 <= r < left.shape[0] and 0 <= c < left.shape[1] and left[r, c]:
                    left[r, c] = False
                    waiting.append((r, c))
        if len(part) >= 20:
            (top, first), (bottom, last) = np.min(part, 0), np.max(part, 0) + 1
            found.append((first, top, last, bottom, 0))
    return np.array(found, np.float64).reshape(-1, 5)
