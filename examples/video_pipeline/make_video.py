#!/usr/bin/env python3
"""A video of coloured shapes that drift over shaded paper: something to detect without a camera.

python make_video.py [shapes.avi] [--frames 150] [--size 320x240] [--seed 1]
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import numpy as np

try:
    import cv2
except ImportError as error:
    sys.exit(f"{error}: pip install opencv-python-headless (Debian: apt install python3-opencv)")

sys.path.append(str(Path(__file__).resolve().parent.parent / "yolo_postprocess"))
from decode import LABELS
from shapes import outline


def make(path: str, frames: int = 150, size: tuple[int, int] = (320, 240), seed: int = 1) -> None:
    """Write a video of ``size`` (width, height), 30 frames per second."""
    rng, (width, height) = np.random.default_rng(seed), size
    corners = rng.uniform(90, 170, (2, 2, 3)).astype(np.float32)
    paper = cv2.resize(corners, size, interpolation=cv2.INTER_LINEAR)
    shapes = [drifting(rng, kind, width, height) for kind in range(len(LABELS))]
    video = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 30, size)
    if not video.isOpened():
        raise SystemExit(f"{path} cannot be written")
    for step in range(frames):
        frame = paper + rng.normal(0, 3, paper.shape)
        canvas = np.clip(frame, 0, 255).astype(np.uint8)
        for kind, colour, radius, start, speed, turn in shapes:
            at = bounced(start + speed * step, radius, (width, height))
            points = outline(kind, *at, radius, turn * step)
            cv2.fillPoly(canvas, [np.round(points * 16).astype(np.int32)], colour, cv2.LINE_AA, 4)
        video.write(canvas)
    video.release()


def drifting(rng: np.random.Generator, kind: int, width: int, height: int) -> tuple:
    """Kind, colour, radius, place, pixels per frame, radians per frame of one shape."""
    colour = [int(c) for c in rng.permutation([20, 60, 235])]
    place = rng.uniform((50, 50), (width - 50, height - 50))
    return kind, colour, rng.uniform(22, 38), place, rng.uniform(-3, 3, 2), rng.uniform(-0.05, 0.05)


def bounced(place: np.ndarray, radius: float, size: tuple[int, int]) -> list[float]:
    """Where something is that comes back from the edges."""
    found = []
    for value, length in zip(place, size):
        room = length - 2 * radius
        far = (value - radius) % (2 * room)
        found.append(radius + min(far, 2 * room - far))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="?", default="shapes.avi")
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    width, height = (int(n) for n in options.size.split("x"))
    make(options.path, options.frames, (width, height), options.seed)
    print(f"{options.path}: {options.frames} frames of {width} x {height}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
