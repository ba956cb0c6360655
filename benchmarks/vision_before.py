"""A frame of 1280 x 720 into a network of 640 x 640: time beside the lines of OpenCV that programs write for it.

    python benchmarks/vision_before.py [--frames 100] [--check]

Ours and theirs in turn, so that whatever else runs meets both; the quickest of each. ``--check``: fails above 1.5 times.
Needs OpenCV.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from rknnlite_vision.before.frame import Frame  # noqa: E402
from rknnlite_vision.before.preparation import Preparation, Way  # noqa: E402

WIDTH, HEIGHT, SIDE = 1280, 720, 640
MOST = 1.5
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def letterbox(rgb: Any) -> Any:
    small = cv2.resize(rgb, (SIDE, SIDE * HEIGHT // WIDTH))
    bar = (SIDE - small.shape[0]) // 2
    return cv2.copyMakeBorder(small, bar, bar, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))[None]


def cropped(rgb: Any) -> Any:
    whole = cv2.resize(rgb, (SIDE * WIDTH // HEIGHT, SIDE))
    left = (whole.shape[1] - SIDE) // 2
    return np.ascontiguousarray(whole[None, :, left : left + SIDE])


def pairs(by: str) -> dict[str, Pair]:
    """What is measured: ours, theirs. Both give the same numbers."""
    rgb = np.random.default_rng(0).integers(16, 236, (HEIGHT, WIDTH, 3), np.uint8)
    raw = np.random.default_rng(1).integers(16, 236, (HEIGHT * 3 // 2, WIDTH), np.uint8)
    packed = np.random.default_rng(2).integers(16, 236, (HEIGHT, WIDTH, 2), np.uint8)
    wide = np.zeros((HEIGHT * 3 // 2, WIDTH + 64), np.uint8)
    wide[:, :WIDTH] = raw
    usual, middle = Preparation((SIDE, SIDE), by=by), Preparation((SIDE, SIDE), Way.CROP, by=by)
    floats = Preparation((SIDE, SIDE), by=by, std=(255,), nchw=True)
    size = (WIDTH, HEIGHT)
    return {
        "RGB": (lambda: usual(rgb)[0], lambda: letterbox(rgb)),
        "BGR": (lambda: usual(rgb[..., ::-1])[0], lambda: letterbox(cv2.cvtColor(rgb, cv2.COLOR_BGR2RGB))),
        "RGB, the middle": (lambda: middle(rgb)[0], lambda: cropped(rgb)),
        "RGB to float NCHW": (
            lambda: floats(rgb)[0],
            lambda: np.ascontiguousarray((letterbox(rgb).astype(np.float32) / 255).transpose(0, 3, 1, 2)),
        ),
        "NV12": (
            lambda: usual(Frame("NV12", *size, raw))[0],
            lambda: letterbox(cv2.cvtColor(raw, cv2.COLOR_YUV2RGB_NV12)),
        ),
        "NV12, padded": (
            lambda: usual(Frame("NV12", *size, wide, strides=WIDTH + 64))[0],
            lambda: letterbox(cv2.cvtColor(np.ascontiguousarray(wide[:, :WIDTH]), cv2.COLOR_YUV2RGB_NV12)),
        ),
        "YUYV": (
            lambda: usual(Frame("YUYV", *size, packed))[0],
            lambda: letterbox(cv2.cvtColor(packed, cv2.COLOR_YUV2RGB_YUY2)),
        ),
    }


def measure(pair: Pair, frames: int) -> tuple[float, float]:
    """Seconds of ours and theirs, the quickest."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(frames):
        for found, work in zip(times, pair):
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    slow = []
    for by, frames in (("opencv", options.frames), ("numpy", max(1, options.frames // 10))):
        for name, pair in pairs(by).items():
            same = np.abs(pair[0]().astype(float) - pair[1]()).max()
            ours, theirs = measure(pair, frames)
            print(
                f"{by:7} {name:18} {ours * 1e3:7.2f} ms, OpenCV's lines {theirs * 1e3:6.2f} ms, {ours / theirs:6.2f} x, apart {same:g}"
            )
            if by == "opencv" and ours > MOST * theirs:
                slow.append(name)
    if options.check and slow:
        sys.exit(f"more than {MOST} times OpenCV's own lines: {', '.join(slow)}")


if __name__ == "__main__":
    main()
