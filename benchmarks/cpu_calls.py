"""How many calls an inference on the CPU reference makes around its arithmetic: all that the interpreter sees, counted.

    python benchmarks/cpu_calls.py [model.rknn]     # RKNNLITE_THREADS=1: in the calling thread alone

``Python`` are functions written in Python, ``all`` those of C as well; ``ours`` counts functions of this project and the
C functions that they call. All threads count. Numbers depend on the interpreter (before 3.12 a list comprehension is a
call) and, with more than one thread, on who begins first: the median of several frames is printed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

import rknnlite  # noqa: E402
from rknnlite.api import RKNNLite  # noqa: E402

HELPERS = ("buffers.py", "threads.py", "parallel.py")


@dataclass(frozen=True)
class Called:
    """One call: a Python function, or a C function by the file that calls it."""

    is_python: bool
    file: Path

    @property
    def ours(self) -> bool:
        return any(folder in self.file.parents for folder in (ROOT / "rknnlite", ROOT / "plugins"))

    @property
    def helper(self) -> bool:
        return self.ours and self.file.name in HELPERS


def calls_of(rknn: RKNNLite, image: np.ndarray) -> list[Called]:
    """The calls of one inference, in all threads."""
    found: list[tuple[str, str]] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event in ("call", "c_call"):
            found.append((event, frame.f_code.co_filename))

    from rknnlite_cpu.kernels import parallel

    parallel._blocks.forget()  # threads are watched from their beginning
    threading.setprofile(note)
    sys.setprofile(note)
    rknn.inference(inputs=[image])
    sys.setprofile(None)
    threading.setprofile(None)
    time.sleep(0.05)  # threads that are late
    return [Called(event == "call", Path(file)) for event, file in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = ROOT / "examples/resnet18/resnet18_for_RK3588.rknn"
    parser.add_argument("model", nargs="?", type=Path, default=default)
    chosen = parser.parse_args()
    with rknnlite.open(chosen.model, backend="cpu") as context:
        image = np.random.default_rng(0).integers(0, 256, context.inputs[0].dims, np.uint8)
    rknn = RKNNLite()
    if rknn.load_rknn(str(chosen.model)) or rknn.init_runtime():
        raise SystemExit("the model does not open")
    for _ in range(3):
        rknn.inference(inputs=[image])
    frames = [calls_of(rknn, image) for _ in range(7)]

    print(f"{'':8}{'everywhere':>12}{'ours':>8}{'helpers':>9}")
    for title, pythons in (("Python", (True,)), ("all", (True, False))):
        rows = [[call for call in frame if call.is_python in pythons] for frame in frames]
        ours = [[call for call in row if call.ours] for row in rows]
        helpers = [[call for call in row if call.helper] for row in rows]
        print(f"{title:8}{_median(rows):12.0f}{_median(ours):8.0f}{_median(helpers):9.0f}")


def _median(frames: list[list[Called]]) -> float:
    return statistics.median(len(calls) for calls in frames)


if __name__ == "__main__":
    main()
