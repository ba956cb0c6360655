#!/usr/bin/env python3
"""Detect shapes in a video or a camera's pictures, on all cores of the NPU, and write what was found.

    python test.py                              # a video made for this run; prints how fast it went
    python test.py --out found.avi              # the same, with the boxes drawn
    python test.py film.mp4 --out found.avi
    python test.py 0 --out found.avi            # camera 0; Ctrl-C ends it

Frames go through a letterbox into a pool of contexts; boxes come back in the order of the frames, a few frames
behind, so that memory stays constant on a stream without end.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import rknnlite

try:
    import cv2
except ImportError as error:
    sys.exit(f"{error}: pip install opencv-python-headless (Debian: apt install python3-opencv)")

HERE = Path(__file__).resolve().parent
YOLO = HERE.parent / "yolo_postprocess"
sys.path.append(str(YOLO))
from decode import postprocess  # noqa: E402
from make_video import make  # noqa: E402
from shapes import LABELS, SIZE  # noqa: E402

GREY = 114


class Source:
    """Frames of a video file or a camera; remembers those whose boxes are still awaited."""

    def __init__(self, name: str) -> None:
        self._capture = cv2.VideoCapture(int(name) if name.isdigit() else name)
        if not self._capture.isOpened():
            raise SystemExit(f"{name} cannot be opened")
        self.total = max(0, int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        self.rate = self._capture.get(cv2.CAP_PROP_FPS) or 30
        self.waiting: deque[np.ndarray] = deque()

    def squares(self) -> Iterator[np.ndarray]:
        """Frames as the network takes them: RGB [1, SIZE, SIZE, 3], letterboxed."""
        while True:
            good, frame = self._capture.read()
            if not good:
                return
            self.waiting.append(frame)
            yield letterbox(frame)


def fit(frame: np.ndarray) -> tuple[float, int, int]:
    """Scale, and where the picture begins in the square."""
    height, width = frame.shape[:2]
    scale = SIZE / max(height, width)
    return scale, (SIZE - round(width * scale)) // 2, (SIZE - round(height * scale)) // 2


def letterbox(frame: np.ndarray) -> np.ndarray:
    """The whole picture in a grey square."""
    scale, left, top = fit(frame)
    height, width = (round(n * scale) for n in frame.shape[:2])
    square = np.full((1, SIZE, SIZE, 3), GREY, np.uint8)
    small = cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA)
    square[0, top : top + height, left : left + width] = cv2.cvtColor(small, cv2.COLOR_BGR2RGB)
    return square


def draw(frame: np.ndarray, boxes: np.ndarray) -> None:
    """Boxes [n, 6] (score, class, corners in the square) on the frame itself."""
    scale, left, top = fit(frame)
    for score, kind, *corners in boxes:
        x1, y1, x2, y2 = ((np.array(corners) - [left, top, left, top]) / scale).round().astype(int).tolist()
        cv2.rectangle(frame, (x1, y1), (x2, y2), (255, 255, 255), 2)
        text = f"{LABELS[int(kind)]} {score:.2f}"
        cv2.putText(
            frame,
            text,
            (x1, max(12, y1 - 4)),
            cv2.FONT_HERSHEY_SIMPLEX,
            0.45,
            (255, 255, 255),
            1,
            cv2.LINE_AA,
        )


def progress(done: int, total: int, seconds: float) -> None:
    """A bar on stderr, where it is a terminal."""
    if not sys.stderr.isatty():
        return
    room = shutil.get_terminal_size().columns - 30
    bar = "#" * (room * done // total) if total else ""
    print(f"\r[{bar:<{room}}] {done}/{total or '?'} {done / seconds:6.1f} FPS", end="", file=sys.stderr)


class Film:
    """The video with the boxes drawn: begun at the first frame, taken away again if the work fails; none without a name."""

    def __init__(self, out: str | None, rate: float) -> None:
        self._out, self._rate = out, rate
        self._writer: cv2.VideoWriter | None = None

    def __enter__(self) -> Film:
        return self

    def write(self, frame: np.ndarray) -> None:
        if self._out is None:
            return
        if self._writer is None:
            self._writer = cv2.VideoWriter(
                self._out, cv2.VideoWriter_fourcc(*"MJPG"), self._rate, frame.shape[1::-1]
            )
            if not self._writer.isOpened():
                raise SystemExit(f"{self._out} cannot be written")
        self._writer.write(frame)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        self._writer.release()
        if kind is not None:
            Path(self._out).unlink(missing_ok=True)


def run(source: Source, pool: rknnlite.Pool, film: Film) -> tuple[int, int, float]:
    """Frames, boxes and seconds; Ctrl-C ends it."""
    found, frames = 0, 0
    started = time.perf_counter()
    try:
        for boxes in pool.map(source.squares()):
            frame = source.waiting.popleft()
            draw(frame, boxes)
            film.write(frame)
            frames, found = frames + 1, found + len(boxes)
            progress(frames, source.total, time.perf_counter() - started)
    except KeyboardInterrupt:
        pass
    return frames, found, time.perf_counter() - started


def detect(name: str, out: str | None, workers: int | None) -> None:
    """From a video or camera to a video, and what the pool did."""
    source = Source(name)
    model = YOLO / "shapes_heads_for_RK3588.rknn"
    with Film(out, source.rate) as film, rknnlite.Pool(model, workers, post=postprocess, pin=True) as pool:
        frames, found, seconds = run(source, pool, film)
        stats = pool.stats()
    print(f"\n{out or Path(name).name}: {found} boxes in {frames} frames, {frames / seconds:.1f} FPS")
    print(stats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source", nargs="?", help="video file, or number of a camera; default: a video of shapes"
    )
    parser.add_argument("--out", help="video to write, with the boxes; default: none")
    parser.add_argument("--workers", type=int, help="default: one per NPU core")
    options = parser.parse_args()
    try:
        if options.source is not None:
            detect(options.source, options.out, options.workers)
            return
        with tempfile.TemporaryDirectory() as folder:  # gone again, whatever happens
            make(f"{folder}/shapes.avi")
            detect(f"{folder}/shapes.avi", options.out, options.workers)
    except KeyboardInterrupt:  # outside the loop over the frames
        sys.exit("interrupted")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
