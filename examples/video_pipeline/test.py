#!/usr/bin/env python3
"""Detect shapes in a video or a camera's pictures, on all cores of the NPU, and write what was found.

python test.py                              # a video made for this run; prints how fast it went
python test.py --out found.avi              # the same, with the boxes drawn
python test.py film.mp4 --out found.avi
python test.py 0 --out found.avi            # camera 0; Ctrl-C ends it
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from rknnlite_vision.before.preparation import Preparation
from rknnlite_vision.drawing import draw
from rknnlite_vision.results import Detections
from rknnlite_vision.streams.pipeline import Pipeline
from rknnlite_vision.streams.sinks import FilmSink, nowhere
from rknnlite_vision.streams.sources import FilmSource

import rknnlite

YOLO = Path(__file__).resolve().parent.parent / "yolo_postprocess"
sys.path.append(str(YOLO))
from decode import postprocess  # noqa: E402
from make_video import make  # noqa: E402
from shapes import LABELS, SIZE  # noqa: E402

prepare = Preparation((SIZE, SIZE))


def look(context, picture):
    """Outputs of the network, and where the picture lies in its input; in a worker."""
    square, placement = prepare(picture)
    return context.infer(square), placement


def decode(looked, picture):
    """Boxes in the picture; in the worker, too."""
    boxes = postprocess(looked[0])
    return Detections(boxes[:, 2:], boxes[:, 0], boxes[:, 1]).placed(looked[1])


def marked(picture, found):
    return draw(picture, found, LABELS.__getitem__)


def detect(name: str, out: str | None, workers: int | None) -> None:
    source, found = FilmSource(name), []
    with (
        rknnlite.Pool(YOLO / "shapes_heads_for_RK3588.rknn", workers, pin=True) as pool,
        FilmSink(out, source.rate, marked) if out else contextlib.nullcontext(nowhere) as sink,
    ):
        pipeline = Pipeline(
            source, pool, decode, lambda *seen: (sink(*seen), found.append(len(seen[1]))), run=look
        )
        with contextlib.suppress(KeyboardInterrupt):  # the video so far is kept
            pipeline.run()
        print(
            f"{out or Path(name).name}: {sum(found)} boxes in {len(found)} frames\n{pipeline.report}\n{pool.stats()}"
        )


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
    with tempfile.TemporaryDirectory() as folder:  # gone again, whatever happens
        if options.source is None:
            make(f"{folder}/shapes.avi")
        try:
            detect(options.source or f"{folder}/shapes.avi", options.out, options.workers)
        except rknnlite.RknnError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
