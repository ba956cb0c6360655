"""Before and behind the network: the letterbox, boxes from its outputs, and the boxes on a picture.

The outputs are those of a YOLOv8 as Rockchip's model zoo decodes it: per stride the bins of the four sides, and scores.
"""

from __future__ import annotations

import cv2
import numpy as np

LABELS = ("astronaut", "cat", "coin", "cup", "photographer", "rocket", "shuttle")
COLOURS = (
    (60, 120, 255),
    (70, 200, 250),
    (200, 200, 200),
    (80, 80, 240),
    (235, 150, 60),
    (200, 120, 240),
    (120, 220, 120),
)
SIZE, BINS = 320, 16
SCORE, OVERLAP = 0.4, 0.5


def letterbox(picture: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """A BGR picture in a grey square, RGB [1, SIZE, SIZE, 3]; the scale, and where the picture begins (x, y, x, y)."""
    height, width = picture.shape[:2]
    scale = SIZE / max(height, width)
    w, h = round(width * scale), round(height * scale)
    left, top = (SIZE - w) // 2, (SIZE - h) // 2
    square = np.full((1, SIZE, SIZE, 3), 114, np.uint8)
    small = cv2.resize(picture, (w, h), interpolation=cv2.INTER_AREA)
    square[0, top : top + h, left : left + w] = cv2.cvtColor(small, cv2.COLOR_BGR2RGB)
    return square, scale, np.array([left, top, left, top])


def decode(sides: np.ndarray, scores: np.ndarray, least: float) -> np.ndarray:
    """Boxes [n, 6] score, class, x1, y1, x2, y2 of one stride; sides [1, 64, h, w], scores [1, classes, h, w]."""
    w = scores.shape[3]
    kind = scores[0].argmax(axis=0)
    y, x = np.nonzero(scores[0].max(axis=0) >= least)
    bins = sides[0, :, y, x].reshape(-1, 4, BINS)
    weights = np.exp(bins - bins.max(axis=2, keepdims=True))
    left, top, right, low = (
        (weights / weights.sum(axis=2, keepdims=True)) @ np.arange(BINS, dtype=np.float32)
    ).T
    cx, cy, best = x + 0.5, y + 0.5, kind[y, x]
    corners = np.stack([cx - left, cy - top, cx + right, cy + low], axis=1) * (SIZE / w)
    return np.column_stack([scores[0, best, y, x], best, corners])


def suppress(boxes: np.ndarray) -> np.ndarray:
    """Of boxes of one class that overlap keep the one with the highest score; best first."""
    left, kept = boxes[np.argsort(-boxes[:, 0], kind="stable")], []
    while len(left):
        box, left = left[0], left[1:]
        kept.append(box)
        sides = np.minimum(box[4:], left[:, 4:]) - np.maximum(box[2:4], left[:, 2:4])
        shared = sides.clip(min=0).prod(axis=1)
        areas = (left[:, 4:] - left[:, 2:4]).prod(axis=1) + (box[4:] - box[2:4]).prod()
        left = left[(shared <= OVERLAP * (areas - shared)) | (left[:, 1] != box[1])]
    return np.array(kept, np.float32).reshape(-1, 6)


def postprocess(outputs: list[np.ndarray], least: float = SCORE) -> np.ndarray:
    """The outputs, float32, to [n, 6] score, class, x1, y1, x2, y2 in pixels of the network's input."""
    return suppress(np.concatenate([decode(*outputs[n : n + 2], least) for n in (0, 2, 4)]))


def draw(picture: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The picture with boxes and labels on it."""
    thick = max(1, round(max(picture.shape) / 320))
    size = thick * 0.28
    for score, kind, *corners in boxes[::-1]:  # the surest on top
        colour = COLOURS[int(kind)]
        x1, y1, x2, y2 = (round(float(c)) for c in corners)
        text = f"{LABELS[int(kind)]} {score:.2f}"
        (w, h), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
        y = max(y1, h + 4 * thick)
        cv2.rectangle(picture, (x1, y1), (x2, y2), colour, thick, cv2.LINE_AA)
        cv2.rectangle(picture, (x1 - thick // 2, y - h - 4 * thick), (x1 + w + 3 * thick, y), colour, -1)
        cv2.putText(
            picture,
            text,
            (x1 + thick, y - 2 * thick),
            cv2.FONT_HERSHEY_SIMPLEX,
            size,
            (0, 0, 0),
            1,
            cv2.LINE_AA,
        )
    return picture
