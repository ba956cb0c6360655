#!/usr/bin/env python3
"""Find shapes in a picture, with the boxes computed in one of two places.

    python test.py            # decoding and suppression as a custom operator of the model, in Python
    python test.py riscv      # the same as a post-process plugin in C for the RISC-V cores of RK1820/RK1828

Writes shapes_found.png. On a PC everything runs there; the plugin then runs under qemu-riscv64 and needs
gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf, gcc-riscv64-linux-gnu and qemu-user.
"""

from __future__ import annotations

import dataclasses
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from decode import LABELS, LIMITS, MODEL, cstYoloDetect
from rknnlite_vision import Detections, draw
from rknnlite_vision.pictures import read, write

import rknnlite
from rknnlite.abi import include_dir

HERE = Path(__file__).resolve().parent
COMPILER = [
    "riscv64-unknown-elf-gcc", "--specs=picolibc.specs", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-fpic",
    "-O2", "-c",
]  # fmt: skip
PACKAGES = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user"


def found_by_operator(picture: np.ndarray) -> Detections:
    """The model ends in cstYoloDetect."""
    with rknnlite.open(HERE / "shapes_detect_for_RK3588.rknn", custom_ops=[cstYoloDetect()]) as context:
        boxes, scores, classes = context.infer(picture)
    return Detections(boxes[0], scores[0], classes[0].round())


def found_by_plugin(picture: np.ndarray) -> Detections:
    """The model ends in its two heads; the plugin takes them from there."""
    if shutil.which(COMPILER[0]) is None:
        sys.exit(f"{COMPILER[0]} is not installed: apt install {PACKAGES}")
    with tempfile.TemporaryDirectory() as folder:
        plugin = f"{folder}/libpostprocess_shapes.so"
        subprocess.run(
            [*COMPILER, f"-I{include_dir()}", "-o", plugin, str(HERE / "postprocess.c")], check=True
        )
        with rknnlite.open(MODEL, postprocess=plugin) as context:
            rows = context.infer(picture)[0][0]
    return Detections(rows[:, 2:], rows[:, 0], rows[:, 1])


def main() -> None:
    find = found_by_plugin if "riscv" in sys.argv[1:] else found_by_operator
    try:
        picture = read(HERE / "shapes.png")
        found = find(picture)
    except rknnlite.RknnError as error:  # no qemu, for example
        sys.exit(str(error))
    found = found[found.scores > LIMITS.score / 2]  # the rest is empty
    for kind, score, corners in zip(found.classes, found.scores, found.boxes):
        print(f"{LABELS[kind]:9}{score:.3f}", *(f"{c:6.1f}" for c in corners))
    large = picture.repeat(3, axis=0).repeat(3, axis=1)
    marked = draw(large, dataclasses.replace(found, boxes=3 * found.boxes), LABELS.__getitem__)
    write(Path("shapes_found.png"), marked)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
