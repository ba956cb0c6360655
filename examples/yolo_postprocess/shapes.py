#!/usr/bin/env python3
"""Composed pictures of coloured shapes on shaded, noisy paper, with the boxes around them.

python shapes.py picture.png [SEED]
"""

from __future__ import annotations

import signal
import sys

import cv2
import numpy as np
from decode import LABELS, SIZE

EXAMPLE = 30_000_388  # seed of the example picture


def outline(kind: int, cx: float, cy: float, radius: float, turn: float) -> np.ndarray:
    """Corner points of a shape, float32 [n, 2]."""
    if kind == 0:
        angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        radii = np.full(48, radius)
    elif kind == 3:
        angles = turn + np.arange(10) * np.pi / 5
        radii = np.where(np.arange(10) % 2, radius * 0.42, radius)
    else:
        corners = 4 if kind == 1 else 3
        angles = turn + np.arange(corners) * 2 * np.pi / corners
        radii = np.full(corners, radius)
    return np.stack([cx + radii * np.cos(angles), cy + radii * np.sin(angles)], axis=1).astype(np.float32)


def paper(rng: np.random.Generator) -> np.ndarray:
    """Background: a smooth gradient in a random tone, with noise."""
    corners = rng.uniform(40, 215, (2, 2, 3)).astype(np.float32) * 0.5 + rng.uniform(20, 110)
    sheet = cv2.resize(corners, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return sheet + rng.normal(0, rng.uniform(1, 8), sheet.shape).astype(np.float32)


def compose(rng: np.random.Generator, most: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A picture, uint8 RGB, and its boxes [n, 5]: class, x1, y1, x2, y2 in pixels. Shapes overlap a little."""
    picture, boxes = paper(rng), []
    for _ in range(int(rng.integers(1, most + 1))):
        for _ in range(20):  # look for a free place
            kind, radius = int(rng.integers(len(LABELS))), rng.uniform(7, 24)
            cx, cy = rng.uniform(radius, SIZE - radius, 2)
            points = outline(kind, cx, cy, radius, rng.uniform(0, 2 * np.pi))
            (x1, y1), (x2, y2) = points.min(axis=0), points.max(axis=0)
            if all(min(x2, b[3]) - max(x1, b[1]) < 4 or min(y2, b[4]) - max(y1, b[2]) < 4 for b in boxes):
                break
        else:
            continue
        behind = picture[int(cy), int(cx)]
        colour = rng.uniform(0, 255, 3)
        if np.abs(colour - behind).max() < 60:  # visible at all
            colour = 255 - colour if np.abs(255 - colour - behind).max() > 60 else (behind + 128) % 256
        mask = np.zeros((SIZE, SIZE), np.uint8)
        cv2.fillPoly(mask, [np.round(points * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
        weight = mask[..., None].astype(np.float32) / 255
        picture = picture * (1 - weight) + colour.astype(np.float32) * weight
        boxes.append((kind, x1, y1, x2, y2))
    return np.clip(picture, 0, 255).astype(np.uint8), np.array(boxes, np.float32).reshape(-1, 5)


def main() -> None:
    picture, boxes = compose(np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else EXAMPLE))
    cv2.imwrite(sys.argv[1], cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    for kind, *corners in boxes:
        print(LABELS[int(kind)], *(round(float(c)) for c in corners))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
