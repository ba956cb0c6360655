"""How many functions of this package one ``RKNNLite.inference`` goes through: what Python adds to every frame.

    python benchmarks/calls.py                 # both paths; librknnrt needs gcc for the double of tests/native
    python benchmarks/calls.py librknnrt --check

Counted are calls of Python functions whose code lies in ``rknnlite`` or ``plugins``, ``inference`` itself included;
calls of numpy's functions and of C functions are not. ``--list`` prints the functions in order.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

OURS = (f"{ROOT / 'rknnlite'}{os.sep}", f"{ROOT / 'plugins'}{os.sep}")
RESNET = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
SIDE = 224  # of the square uint8 image, pixels
MODEL = (
    f"input image int8 4 1 {SIDE} {SIDE} 3 0.0078 -3",
    "output scores int8 2 1 1000 0.1 5",
    "op idle",
)
LIMITS = {"plain": 12, "nhwc": 16, "nhwc in a list": 16}
"""Most calls on librknnrt, by what ``data_format`` is."""
FORMATS: dict[str, Any] = {"plain": None, "nhwc": "nhwc", "nhwc in a list": ["nhwc"]}


def calls(action: Callable[[], Any]) -> list[str]:
    """The functions of ours that one call of ``action`` goes through, in order."""
    found: list[str] = []

    def look(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS):
            found.append(f"{Path(code.co_filename).name}:{code.co_name}")

    for _ in range(3):  # what the first frames set up does not count
        action()
    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


@contextmanager
def inference(model: Path, backend: str) -> Iterator[Callable[..., Any]]:
    """``RKNNLite.inference`` of a model on a backend, with a fitting image."""
    from rknnlite.api import RKNNLite

    os.environ["RKNNLITE_BACKEND"] = backend
    rknn = RKNNLite()
    if rknn.load_rknn(model) or rknn.init_runtime():
        raise SystemExit(f"{model.name} cannot be opened on {backend}")
    images = [np.zeros((1, SIDE, SIDE, 3), np.uint8)]
    try:
        yield lambda data_format: rknn.inference(inputs=images, data_format=data_format)
    finally:
        rknn.release()


def on_librknnrt(listing: bool) -> list[str]:
    """Print the counts on the double; returns the lines that are above the limit."""
    from tests.doubles.double import build, model

    os.environ["RKNNLITE_LIBRARY"] = str(build())
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rknn"
        path.write_bytes(model(*MODEL))
        with inference(path, "rknnrt") as run:
            for name, data_format in FORMATS.items():
                found = calls(lambda data_format=data_format: run(data_format))
                line = f"librknnrt, {name}: {len(found)} calls, at most {LIMITS[name]}"
                print(line, *(found if listing else ()), sep="\n  ")
                if len(found) > LIMITS[name]:
                    missed.append(line)
    return missed


def on_cpu(listing: bool) -> list[str]:
    """Print the count of the ResNet example on the CPU reference; there is no limit."""
    with inference(RESNET, "cpu") as run:
        found = calls(lambda: run(None))
    print(f"cpu, {RESNET.stem}: {len(found)} calls", *(found if listing else ()), sep="\n  ")
    return []


PATHS = {"librknnrt": on_librknnrt, "cpu": on_cpu}


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="*", help=f"what to count: {', '.join(PATHS)}; all when left out")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    parser.add_argument("--list", action="store_true", help="print every call")
    arguments = parser.parse_args()
    unknown = set(arguments.path).difference(PATHS)
    if unknown:
        parser.error(f"there is no path {', '.join(sorted(unknown))}")
    missed = [line for path in arguments.path or PATHS for line in PATHS[path](arguments.list)]
    if arguments.check and missed:
        raise SystemExit("\n".join(["too many:", *missed]))


if __name__ == "__main__":
    main()
