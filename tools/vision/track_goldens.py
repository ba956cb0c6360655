#!/usr/bin/env python3
"""What ultralytics' ByteTrack makes of things that cross, hide and come back: tests/vision/data/tracks.npz.

    python tools/vision/track_goldens.py tests/vision/data/tracks.npz     # needs ultralytics (with torch) and lap

Boxes are in eighths of a pixel and scores in hundredths, so that the file is small and both sides read the same numbers.
"""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace

import numpy as np
from ultralytics.trackers.byte_tracker import BYTETracker

FRAMES, SIZE = 70, (640, 360)
SETTINGS = {
    "default": (0.25, 0.1, 0.25, 0.8, 30, True),
    "strict": (0.6, 0.1, 0.7, 0.8, 5, True),
    "plain": (0.5, 0.1, 0.6, 0.9, 8, False),
}
"""high, low, new, match, patience, whether scores count."""


class Results:
    """As much of ultralytics' Boxes as a tracker asks for."""

    def __init__(self, boxes: np.ndarray, scores: np.ndarray) -> None:
        self.xyxy, self.conf = boxes, scores
        self.cls = np.zeros(len(scores), np.float32)
        sizes = boxes[:, 2:] - boxes[:, :2]
        self.xywh = np.concatenate([boxes[:, :2] + sizes / 2, sizes], axis=1)

    def __len__(self) -> int:
        return len(self.conf)

    def __getitem__(self, rows: np.ndarray) -> Results:
        return Results(self.xyxy[rows], self.conf[rows])


def scene(rng: np.random.Generator, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Boxes and scores of each frame: things go straight and turn back at the edges; some are hidden for a while, some unsure."""
    place = rng.uniform((40, 40), (SIZE[0] - 40, SIZE[1] - 40), (count, 2))
    speed, sizes = rng.uniform(-9, 9, (count, 2)), rng.uniform(20, 90, (count, 2))
    hidden = [(rng.integers(5, FRAMES), rng.integers(1, 14)) for _ in range(count)]
    frames = []
    for n in range(FRAMES):
        place += speed
        speed = np.where((place < 0) | (place > SIZE), -speed, speed)
        there = np.array([not start <= n < start + length for start, length in hidden])
        there &= rng.random(count) > 0.08
        noisy = place + rng.normal(0, 1.5, place.shape)
        half = sizes / 2 * rng.uniform(0.95, 1.05, sizes.shape)
        boxes = np.concatenate([noisy - half, noisy + half], axis=1)[there]
        scores = rng.choice(
            [0.95, 0.8, 0.62, 0.4, 0.2, 0.07], there.sum(), p=[0.35, 0.3, 0.1, 0.1, 0.1, 0.05]
        )
        ghosts = rng.uniform(0, 300, (rng.integers(0, 2), 4))
        ghosts[:, 2:] = ghosts[:, :2] + 10 + ghosts[:, 2:] / 4
        boxes = np.concatenate([boxes, ghosts])
        scores = np.concatenate(
            [scores + rng.uniform(-0.04, 0.04, len(scores)), rng.uniform(0.1, 0.9, len(ghosts))]
        )
        frames.append((np.round(boxes * 8).astype(np.int16), np.round(scores * 100).astype(np.uint8)))
    return frames


def tracked(
    frames: list[tuple[np.ndarray, np.ndarray]], high, low, new, match, patience, fuse
) -> tuple[np.ndarray, np.ndarray]:
    """The number of each detection, 0 for none, and the boxes of the tracks of the last frame."""
    tracker = BYTETracker(
        SimpleNamespace(
            track_high_thresh=high,
            track_low_thresh=low,
            new_track_thresh=new,
            match_thresh=match,
            track_buffer=patience,
            fuse_score=fuse,
        )
    )
    numbers = []
    for boxes, scores in frames:
        rows = tracker.update(Results(boxes.astype(np.float32) / 8, scores.astype(np.float32) / 100))
        found = np.zeros(len(scores), np.int16)
        for row in rows:
            found[int(row[7])] = int(row[4])
        numbers.append(found)
    return np.concatenate(numbers), rows[:, [4, 0, 1, 2, 3]]


def main(path: str) -> None:
    arrays = {}
    for seed, (name, settings) in enumerate(SETTINGS.items()):
        frames = scene(np.random.default_rng(seed), 8 + 4 * seed)
        numbers, last = tracked(frames, *settings)
        arrays[f"{name}.settings"] = np.array(settings, np.float64)
        arrays[f"{name}.counts"] = np.array([len(scores) for _, scores in frames], np.int16)
        arrays[f"{name}.boxes"] = np.concatenate([boxes for boxes, _ in frames])
        arrays[f"{name}.scores"] = np.concatenate([scores for _, scores in frames])
        arrays[f"{name}.numbers"], arrays[f"{name}.last"] = numbers, last
        print(f"{name}: {len(numbers)} detections, {numbers.max()} tracks")
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main(sys.argv[1])
