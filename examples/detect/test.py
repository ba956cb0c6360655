#!/usr/bin/env python3
"""Find things in a picture or a video: on the board's NPU, or on a PC.

python test.py                               # scene.jpg; writes found.png
python test.py picture.jpg marked.png
python test.py --video film.avi marked.avi
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np

from rknnlite.api import RKNNLite

try:
    import cv2
except ImportError as error:
    sys.exit(f"{error}: pip install opencv-python-headless (Debian: apt install python3-opencv)")
from decode import LABELS, draw, letterbox, postprocess

HERE = Path(__file__).resolve().parent
MODELS = {"rk3588": "RK3588", "rk3566": "RK3566_RK3568", "rk3568": "RK3566_RK3568"}


def model() -> Path:
    """The file for this board; on a PC the one for RK3588."""
    try:
        names = Path("/proc/device-tree/compatible").read_text(errors="replace")
    except OSError:
        names = ""
    chip = next((chip for soc, chip in MODELS.items() if soc in names), "")
    if "rockchip," in names and not chip:
        sys.exit(f"No model for this board, only for {', '.join(MODELS)}: convert.py makes others")
    return HERE / f"detect_for_{chip or 'RK3588'}.rknn"


def find(rknn: RKNNLite, picture: np.ndarray) -> np.ndarray:
    """Boxes [n, 6]: score, class, x1, y1, x2, y2 in pixels of a BGR picture."""
    square, scale, start = letterbox(picture)
    outputs = rknn.inference(inputs=[square])
    if outputs is None:
        sys.exit("Running model failed")
    boxes = postprocess(outputs)
    height, width = picture.shape[:2]
    boxes[:, 2:] = ((boxes[:, 2:] - start) / scale).clip(0, [width, height, width, height])
    return boxes


def mark_picture(rknn: RKNNLite, source: str, target: str) -> None:
    picture = cv2.imread(source)
    if picture is None:
        sys.exit(f"Cannot read {source}")
    boxes = find(rknn, picture)
    for score, kind, *corners in boxes:
        print(f"{LABELS[int(kind)]:13}{score:.3f}", *(f"{c:6.1f}" for c in corners))
    try:
        written = cv2.imwrite(target, draw(picture, boxes))
    except cv2.error:  # a name that says no format
        written = False
    if not written:
        sys.exit(f"Cannot write {target}")


def mark_video(rknn: RKNNLite, source: str, target: str) -> None:
    film = cv2.VideoCapture(source)
    size = int(film.get(cv2.CAP_PROP_FRAME_WIDTH)), int(film.get(cv2.CAP_PROP_FRAME_HEIGHT))
    if not film.isOpened() or not all(size):
        sys.exit(f"Cannot read {source}")
    rate, frames, found = film.get(cv2.CAP_PROP_FPS) or 25, 0, 0
    marked = cv2.VideoWriter(target, cv2.VideoWriter_fourcc(*"MJPG"), rate, size)
    if not marked.isOpened():
        sys.exit(f"Cannot write {target}")
    try:
        for good, picture in iter(film.read, (False, None)):
            boxes = find(rknn, picture)
            marked.write(draw(picture, boxes))
            frames, found = frames + good, found + len(boxes)
    except BaseException:  # no half-written video stays behind
        marked.release()
        Path(target).unlink()
        raise
    marked.release()
    print(f"{target}: {found} boxes in {frames} frames")


def main() -> None:
    given = sys.argv[1:]
    video = "--video" in given
    paths = [argument for argument in given if argument != "--video"] or [
        str(HERE / "scene.jpg"),
        "found.png",
    ]
    if len(paths) != 2:
        sys.exit(__doc__)
    rknn = RKNNLite()
    try:
        if rknn.load_rknn(str(model())) != 0 or rknn.init_runtime() != 0:
            sys.exit("Loading the model failed")
        (mark_video if video else mark_picture)(rknn, *paths)
    finally:
        rknn.release()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
