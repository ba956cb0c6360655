#!/usr/bin/env python3
"""Find shapes in a picture, with the boxes computed in one of two places.

    python test.py            # decoding and suppression as a custom operator of the model, in Python
    python test.py riscv      # the same as a post-process plugin in C for the RISC-V cores of RK1820/RK1828

Writes shapes_found.png. On a PC everything runs there; the plugin then runs under qemu-riscv64 and needs
gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf, gcc-riscv64-linux-gnu and qemu-user.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import rknnlite
from rknnlite.abi import include_dir

try:
    import cv2
except ImportError as error:
    sys.exit(f"{error}: pip install opencv-python-headless (Debian: apt install python3-opencv)")
from decode import SCORE, cstYoloDetect
from shapes import LABELS

HERE = Path(__file__).resolve().parent
COMPILER = [
    "riscv64-unknown-elf-gcc", "--specs=picolibc.specs", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-fpic",
    "-O2", "-c",
]  # fmt: skip
PACKAGES = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user"


def boxes_by_operator(picture: np.ndarray) -> np.ndarray:
    """The model ends in cstYoloDetect."""
    with rknnlite.open(HERE / "shapes_detect_for_RK3588.rknn", custom_ops=[cstYoloDetect()]) as context:
        boxes, scores, classes = context.infer(picture)
    return np.concatenate([scores[0, :, None], classes[0, :, None].round(), boxes[0]], axis=1)


def boxes_by_plugin(picture: np.ndarray) -> np.ndarray:
    """The model ends in its two heads; the plugin takes them from there."""
    if shutil.which(COMPILER[0]) is None:
        sys.exit(f"{COMPILER[0]} is not installed: apt install {PACKAGES}")
    with tempfile.TemporaryDirectory() as folder:
        plugin = f"{folder}/libpostprocess_shapes.so"
        subprocess.run(
            [*COMPILER, f"-I{include_dir()}", "-o", plugin, str(HERE / "postprocess.c")], check=True
        )
        with rknnlite.open(HERE / "shapes_heads_for_RK3588.rknn", postprocess=plugin) as context:
            return context.infer(picture)[0][0]


def draw(picture: np.ndarray, boxes: np.ndarray, out: str) -> None:
    canvas = cv2.resize(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), None, fx=3, fy=3)
    for score, kind, *corners in boxes:
        x1, y1, x2, y2 = (round(float(c) * 3) for c in corners)
        for colour, width in (((255, 255, 255), 4), ((0, 0, 0), 2)):
            cv2.rectangle(canvas, (x1, y1), (x2, y2), colour, width)
            cv2.putText(
                canvas,
                f"{LABELS[int(kind)]} {score:.2f}",
                (x1 + 4, y1 + 16),
                cv2.FONT_HERSHEY_SIMPLEX,
                0.5,
                colour,
                width,
                cv2.LINE_AA,
            )
    cv2.imwrite(out, canvas)


def main() -> None:
    picture = cv2.cvtColor(cv2.imread(str(HERE / "shapes.png")), cv2.COLOR_BGR2RGB)
    find = boxes_by_plugin if "riscv" in sys.argv[1:] else boxes_by_operator
    try:
        boxes = find(picture)
    except rknnlite.RknnError as error:  # no qemu, for example
        sys.exit(str(error))
    boxes = boxes[boxes[:, 0] > SCORE / 2]  # the rest is empty
    for score, kind, *corners in boxes:
        print(f"{LABELS[int(kind)]:9}{score:.3f}", *(f"{c:6.1f}" for c in corners))
    draw(picture, boxes, "shapes_found.png")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
