"""Decoders as programs in the field have them beside a network: all boxes in float, then one loop of suppression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["of_anchors", "of_sides", "suppressed"]

Array = NDArray[Any]
BINS = 16


def of_sides(sides: Array, scores: Array, size: int, least: float) -> Array:
    """Boxes [n, 6] score, class, x1, y1, x2, y2 of one stride of a YOLOv8; sides [1, 64, h, w], scores [1, classes, h, w]."""
    kind = scores[0].argmax(axis=0)
    y, x = np.nonzero(scores[0].max(axis=0) >= least)
    bins = sides[0, :, y, x].reshape(-1, 4, BINS)
    weights = np.exp(bins - bins.max(axis=2, keepdims=True))
    reach = (weights / weights.sum(axis=2, keepdims=True)) @ np.arange(BINS, dtype=np.float32)
    left, top, right, low = reach.T
    cx, cy, best = x + 0.5, y + 0.5, kind[y, x]
    corners = np.stack([cx - left, cy - top, cx + right, cy + low], axis=1) * (size / scores.shape[3])
    return np.column_stack([scores[0, best, y, x], best, corners])


def of_anchors(head: Array, stride: int, anchors: Any, least: float) -> Array:
    """Likewise of one head of a YOLOv5, [1, anchors * (5 + classes), h, w]."""
    _, channels, h, w = head.shape
    cells = 1 / (1 + np.exp(-head.reshape(len(anchors), channels // len(anchors), h, w)))
    best = cells[:, 5:].argmax(axis=1)
    scores = cells[:, 4] * cells[:, 5:].max(axis=1)
    a, y, x = np.nonzero(scores >= least)
    cx, cy, bw, bh = cells[a, :4, y, x].T
    size = np.array(anchors, np.float32)[a]
    cx, cy = (2 * cx - 0.5 + x) * stride, (2 * cy - 0.5 + y) * stride
    bw, bh = (2 * bw) ** 2 * size[:, 0] / 2, (2 * bh) ** 2 * size[:, 1] / 2
    return np.stack([scores[a, y, x], best[a, y, x], cx - bw, cy - bh, cx + bw, cy + bh], axis=1)


def suppressed(boxes: Array, overlap: float, across: bool = False) -> Array:
    """Of boxes that overlap, those of one class unless ``across``, the one with the highest score; best first."""
    left, kept = boxes[np.argsort(-boxes[:, 0], kind="stable")], []
    while len(left):
        box, left = left[0], left[1:]
        kept.append(box)
        sides = np.minimum(box[4:], left[:, 4:]) - np.maximum(box[2:4], left[:, 2:4])
        shared = sides.clip(min=0).prod(axis=1)
        areas = (left[:, 4:] - left[:, 2:4]).prod(axis=1) + (box[4:] - box[2:4]).prod()
        apart = shared <= overlap * (areas - shared)
        left = left[apart if across else apart | (left[:, 1] != box[1])]
    return np.array(kept, np.float32).reshape(-1, 6)
