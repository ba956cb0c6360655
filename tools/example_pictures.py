#!/usr/bin/env python3
"""The pictures of examples that documents show: what their programs write, with fewer colours to be small.

    python tools/example_pictures.py

Needs the extras ``cpu`` and ``pictures``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PICTURES = {"detect": "found.png", "yolo_postprocess": "shapes_found.png"}
"""Example -> what its ``test.py`` writes into the folder where it runs."""
COLOURS = 224


def make(example: str, folder: Path) -> Path:
    """Run an example in a folder; its picture there."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
        "RKNNLITE_BACKEND": "cpu",
    }
    program = ROOT / "examples" / example / "test.py"
    subprocess.run(
        [sys.executable, str(program)], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return folder / PICTURES[example]


def main() -> None:
    """Command line."""
    for example, name in PICTURES.items():
        target = ROOT / "examples" / example / name
        with tempfile.TemporaryDirectory() as folder, Image.open(make(example, Path(folder))) as picture:
            few = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MEDIANCUT)
            few.save(target, optimize=True)
        print(target.relative_to(ROOT), target.stat().st_size)


if __name__ == "__main__":
    main()
