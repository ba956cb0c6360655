"""What librknnrt.so costs a C program beside the same work in Python, in turns.

    python benchmarks/librknnrt.py [--rounds 40]        # needs gcc

A C program (tests/librknnrt/programs/measured.c) and this process take turns with the same model, on the engine that
RKNNLITE_ENGINE names, else the one that is chosen. A frame is told by the median of the ratios of neighbouring rounds,
and by the ratio of the best: other work on the machine delays two processes that wake each other far more than it
slows a loop that never sleeps. A first ``rknn_init`` starts the process that computes: it is measured beside a fresh
Python that imports rknnlite and opens the model.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

import rknnlite  # noqa: E402
from tests.librknnrt.clients import interpreter  # noqa: E402
from tests.librknnrt.measured import Measured  # noqa: E402

TINY = ROOT / "tests" / "data" / "conv_relu.rk3588.i8.rknn"
LARGE = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
QUERY, FRAME, LARGE_FRAME, FIRST, SECOND = 25.0, 1.5, 1.02, 30.0, 1.5
"""Targets: microseconds, ratios, milliseconds beyond Python's own, ratio."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    with Measured(TINY) as tiny, Measured(LARGE) as large:
        for program in (tiny, large):
            program("frame", 3)
        tell("a query that was asked before", tiny("query", 20_000), QUERY, "us")
        tell("a query that the server answers", tiny("run", 2_000), QUERY, "us")
        frames("a frame of 24 x 24 x 3", tiny, TINY, 200, rounds, FRAME)
        frames("a frame of ResNet-18", large, LARGE, 3, rounds, LARGE_FRAME)
        bound("a run on bound memory, 24 x 24 x 3", tiny, rounds)
        second = [tiny("init", 5) / 1e3 for _ in range(rounds)]
    opened = [milliseconds(lambda: rknnlite.open(TINY, backend="cpu").close()) for _ in range(rounds)]
    both("opening", second, opened, "ms")
    tell("a second init over rknnlite.open", min(second) / min(opened), SECOND, "times")
    first(max(5, rounds // 3))


def frames(what: str, program: Measured, model: Path, count: int, rounds: int, target: float) -> None:
    """A frame on the common path beside ``Context.infer``."""
    ours, python = [], []
    with rknnlite.open(model, backend="cpu") as context:
        image = np.zeros(context.inputs[0].dims, np.uint8)
        context.infer(image)
        for _ in range(rounds):
            ours.append(program("frame", count))
            started = time.perf_counter()
            for _ in range(count):
                context.infer(image)
            python.append((time.perf_counter() - started) / count * 1e6)
    both(what, ours, python)
    ratio = statistics.median(c / p for c, p in zip(ours, python))
    tell(f"{what} over Context.infer, median", ratio, target, "times")
    print(f"  of the best rounds: {min(ours) / min(python):.2f} times")


def bound(what: str, program: Measured, rounds: int) -> None:
    """Zero-copy runs beside those of Python."""
    program("zero", 3)
    ours, python = [], []
    with rknnlite.open(TINY, backend="cpu") as context:
        for attr in (*context.native_inputs, *context.native_outputs):
            context.bind(attr, context.create_mem(attr.size_with_stride))
        for _ in range(rounds):
            ours.append(program("zero", 300))
            python.append(milliseconds(lambda: [context.run() for _ in range(300)]) / 300 * 1e3)
    both(what, ours, python)


def first(rounds: int) -> None:
    """The first init of a program beside a Python that does the same, started anew each time."""
    code = (
        f"import time; t = time.perf_counter(); import rknnlite; rknnlite.open({str(TINY)!r}, backend='cpu')"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ours, python = [], []
    for _ in range(rounds):
        with Measured(TINY) as program:
            ours.append(program("init", 1) / 1e3)
        command = [str(interpreter()), "-E", "-c", f"import sys; sys.path.pop(0)\n{code}"]
        python.append(milliseconds(lambda: subprocess.run(command, env=environment, check=True)))  # noqa: B023
    both("first init, and a Python that imports and opens", ours, python, "ms")
    tell("a first init beyond that", min(ours) - min(python), FIRST, "ms")


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def both(what: str, ours: list[float], python: list[float], unit: str = "us") -> None:
    """Best rounds, and medians in brackets."""
    told = (f"{min(side):.4g} {unit} (median {statistics.median(side):.4g})" for side in (ours, python))
    print("{}: C {}, Python {}".format(what, *told))


def tell(what: str, figure: float, target: float, unit: str) -> None:
    print(f"  {what}: {figure:.2f} {unit} (target {target:g}: {'met' if figure <= target else 'MISSED'})")


if __name__ == "__main__":
    main()
