#!/usr/bin/env python3
"""Run every topic: in Python, and in C where there is a C compiler and C knows it.

python run.py
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from attributes import cstSteps
from in_place import InPlace
from int8 import Int8
from shapes import cstTurn

import rknnlite
from rknnlite.abi import include_dir

HERE = Path(__file__).resolve().parent
DUAL = HERE.parent / "dual_for_RK3588.rknn"
TOPICS = {
    "attributes": (HERE / "attributes_for_RK3588.rknn", cstSteps, "librkcst_steps", [(8, 8)]),
    "shapes": (HERE / "shapes_for_RK3588.rknn", cstTurn, "librkcst_turn", [(8, 12), (16, 8)]),
    "in place": (DUAL, InPlace, "", [(32, 32)]),
    "int8": (DUAL, Int8, "", [(32, 32)]),
}
"""Model, operator, the same in C, height and width of its inputs."""


def compiled(name: str, folder: str) -> Path:
    library = Path(folder) / f"{name}.so"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O2",
        f"-I{include_dir()}",
        "-o",
        library,
        HERE / f"{name}.c",
        "-lm",
    ]
    subprocess.run(command, check=True)
    return library


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for topic, (model, operator, library, shapes) in TOPICS.items():
            operators = {"python": operator()}
            if library and shutil.which("cc"):
                operators["c"] = compiled(library, folder)
            for language, op in operators.items():
                with rknnlite.open(model, custom_ops=[op]) as context:
                    for shape in shapes:
                        rng = np.random.default_rng(1)
                        pictures = [
                            rng.integers(0, 256, (1, *shape, 3), dtype=np.uint8) for _ in context.inputs
                        ]
                        outputs = context.infer(pictures)
                        told = "  ".join(f"{list(y.shape)} {y.sum():.3f}" for y in outputs)
                        print(f"{topic:10}  {language:6}  {told}")


if __name__ == "__main__":
    main()
