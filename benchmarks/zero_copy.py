"""What a frame of 1920 x 1080 x 3 bytes costs on the common path and on the zero-copy path, on the test double.

    python benchmarks/zero_copy.py [--frames 200]

The network is empty, so what is left is what stands around it. Targets: the zero-copy path copies no payload (the
double counts the bytes that it copies, tracemalloc those that Python allocates) and takes at most a third of the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

import rknnlite  # noqa: E402
from rknnlite import DType  # noqa: E402
from tests.doubles.double import Double, build, model  # noqa: E402

SHAPE = (1, 1080, 1920, 3)
FRAME = ("input image int8 4 1 1080 1920 3 1 0", "output scores int8 2 1 1000 0.1 5", "op none")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=200)
    frames = parser.parse_args().frames
    library = build()
    os.environ["RKNNLITE_LIBRARY"] = str(library)
    double = Double(library)
    with (
        rknnlite.open(model(*FRAME), backend="rknnrt") as common,
        rknnlite.open(model(*FRAME), backend="rknnrt") as bound,
    ):
        figures = {
            "common path": measure(common_path(common), double, frames),
            "zero copy": measure(zero_copy(bound), double, frames),
        }
    for name, (seconds, copied, allocated) in figures.items():
        print(
            f"{name:12} {seconds * 1e6:8.1f} us a frame, {copied:>9} bytes copied by the library, {allocated:>9} allocated by Python"
        )
    (slow, _, _), (fast, copied, allocated) = figures.values()
    payload = int(np.prod(SHAPE))
    print(
        f"payload of {payload} bytes copied: {copied} (target 0: {verdict(copied == 0 and allocated < payload / 100)})"
    )
    print(f"time: {slow / fast:.1f} times less (target 3: {verdict(slow >= 3 * fast)})")


def verdict(good: bool) -> str:
    return "met" if good else "MISSED"


def common_path(context: rknnlite.Context) -> Callable[[], Any]:
    """The frame is an array of the program."""
    frame = np.zeros(SHAPE, np.uint8)
    return lambda: context.infer(frame)


def zero_copy(context: rknnlite.Context) -> Callable[[], Any]:
    """The frame is written where the NPU reads it, the result read where the NPU leaves it."""
    (native,) = context.native_inputs
    attr = replace(native, dtype=DType.UINT8)
    frame = context.create_mem(attr.size_with_stride)
    context.bind(attr, frame)
    (out,) = context.native_outputs
    result = context.create_mem(out.size_with_stride)
    context.bind(out, result)
    pixels, scores = frame.ndarray, result.ndarray.view(np.int8)

    def once() -> int:
        pixels[0] = 7  # somebody writes the frame
        context.run()
        return int(scores[0])

    return once


def measure(once: Callable[[], Any], double: Double, frames: int) -> tuple[float, int, int]:
    """Median seconds, bytes that the library copied in one frame, and most bytes that Python held for one."""
    once()
    double.reset()
    tracemalloc.start()
    once()
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copied = double.copied()
    times = []
    for _ in range(frames):
        started = time.perf_counter()
        once()
        times.append(time.perf_counter() - started)
    return statistics.median(times), copied, allocated


if __name__ == "__main__":
    main()
