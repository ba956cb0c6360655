"""Boxes from the detector's heads: YOLOv5's decoding and non-maximum suppression, and both as a custom operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rknnlite_vision.heads.head import Limits

MODEL = Path(__file__).resolve().parent / "shapes_heads_for_RK3588.rknn"
LABELS = ("circle", "square", "triangle", "star")
STRIDES = (8, 16)
ANCHORS = (((14, 14), (20, 20), (27, 27)), ((33, 33), (39, 39), (46, 46)))
"""Width and height in pixels, three per head."""
MOST = 64
"""Rows of the answer."""
SCORE, OVERLAP = 0.35, 0.45
LIMITS = Limits(SCORE, OVERLAP, MOST, across=True)


def decode(head: np.ndarray, stride: int, anchors: tuple) -> np.ndarray:
    """All boxes of one head above SCORE: [n, 6] score, class, x1, y1, x2, y2 in pixels; head is [1, c, h, w]."""
    _, channels, h, w = head.shape
    cells = 1 / (1 + np.exp(-head.reshape(len(anchors), channels // len(anchors), h, w)))
    best = cells[:, 5:].argmax(axis=1)
    scores = cells[:, 4] * cells[:, 5:].max(axis=1)
    a, y, x = np.nonzero(scores >= SCORE)
    cx, cy, bw, bh = cells[a, :4, y, x].T
    size = np.array(anchors, np.float32)[a]
    cx, cy = (2 * cx - 0.5 + x) * stride, (2 * cy - 0.5 + y) * stride
    bw, bh = (2 * bw) ** 2 * size[:, 0] / 2, (2 * bh) ** 2 * size[:, 1] / 2
    return np.stack([scores[a, y, x], best[a, y, x], cx - bw, cy - bh, cx + bw, cy + bh], axis=1)


def suppress(boxes: np.ndarray) -> np.ndarray:
    """Of boxes that overlap, of whatever class, keep the one with the highest score; best first, at most MOST."""
    order = np.lexsort((boxes[:, 2], boxes[:, 1], -boxes[:, 0]))  # ties: by class, then from the left
    kept: list[np.ndarray] = []
    for box in boxes[order]:
        if len(kept) == MOST:
            break
        if all(overlap(box, other) <= OVERLAP for other in kept):
            kept.append(box)
    return np.array(kept, np.float32).reshape(-1, 6)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union."""
    width, height = min(a[4], b[4]) - max(a[2], b[2]), min(a[5], b[5]) - max(a[3], b[3])
    shared = max(0.0, width) * max(0.0, height)
    return shared / ((a[4] - a[2]) * (a[5] - a[3]) + (b[4] - b[2]) * (b[5] - b[3]) - shared)


def postprocess(heads: list[np.ndarray]) -> np.ndarray:
    """The heads, float32 [1, 27, h, w], to [n, 6] score, class, x1, y1, x2, y2."""
    return suppress(np.concatenate([decode(*part) for part in zip(heads, STRIDES, ANCHORS)]))


class cstYoloDetect:
    """The same as an operator of the model: boxes [1, MOST, 4], scores, classes [1, MOST]; rows past the last are zero.

    Three outputs, because a quantised model quantises them: pixels, scores and class numbers each get steps of
    their own size.
    """

    op_type = "cstYoloDetect"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return [[1, MOST, 4], [1, MOST], [1, MOST]], [in_dtypes[0]] * 3

    def compute(self, node, inputs):
        found = np.zeros((1, MOST, 6), np.float32)
        rows = postprocess(inputs)
        found[0, : len(rows)] = rows
        return [found[..., 2:], found[..., 0], found[..., 1]]
