"""How fast several threads can be on the native engine: what the largest thread's share is, and how often they meet.

    python benchmarks/thread_shares.py MODEL.rknn [...] [--threads 2 4] [--rounds 15]        # needs gcc

The tasks of each op, as the engine cuts them for so many threads, run one after the other in one thread, so that the machine
needs no more processors. Counted are the instructions of each task, where the system counts them, else nanoseconds of its CPU
time: the least of all rounds. The engine's threads take the next task when they are free, and begin the next op when all are
done. So the share of the busiest thread is known: it is what bounds the speed-up. ``bound`` is a frame's tasks for one thread
over the sums of the busiest threads; ``with barriers`` adds a microsecond for each op, which is what it takes threads that
look for work to see it (of time only). Targets are 1.7 for two threads and 2.8 for four.
"""

from __future__ import annotations

import argparse
import ctypes
import heapq
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402
from rknnlite_cpu.engines.native import recipe  # noqa: E402
from rknnlite_cpu.engines.native.description import TAKES, sides_at_edge  # noqa: E402
from rknnlite_cpu.engines.native.library import _SLACK, NativeProgram, _addresses, library  # noqa: E402
from rknnlite_programs import buildcache  # noqa: E402

import rknnlite  # noqa: E402

TARGETS = {2: 1.7, 4: 2.8}
BARRIER = 1000.0
"""Nanoseconds."""
MOST_TASKS = 1 << 16


def busiest(tasks: Sequence[float], threads: int) -> float:
    """The work of the thread that has most, where each takes the next task when it is free."""
    done = [0.0] * threads
    for task in reversed(tasks):  # the engine hands out the last one first
        heapq.heapreplace(done, done[0] + task)
    return max(done)


def counting() -> Any:
    """``shares`` of thread_shares.c, built with the engine's own files."""
    files = [*recipe.files(), Path(__file__).with_suffix(".c")]
    flags = [*recipe.FLAGS, *buildcache.for_this_processor()]
    return ctypes.CDLL(str(buildcache.build_library("shares.so", files, "this benchmark", *flags))).shares


def measured(shares: Any, program: NativeProgram, threads: int, rounds: int) -> tuple[list[list[int]], bool]:
    """What each task of each op takes; whether it is instructions."""
    made, text = NativeProgram(library(), program._content, threads), program._text
    random = np.random.default_rng(0)
    given = [
        random.integers(-100, 100, sides_at_edge(op)).astype(np.float32)
        for op in text.ops
        if op.kind in TAKES
    ]
    results = [np.empty(shape, np.float32) for shape in text.shapes]
    work = np.zeros(made._size + made._scratch + _SLACK, np.uint8)
    found = np.zeros(MOST_TASKS, np.int64)
    address, size = ctypes.c_void_p, ctypes.c_int64
    shares.argtypes = [address, size, address, size, ctypes.c_int, ctypes.c_int, address, address, address]
    start = work.ctypes.data + -work.ctypes.data % 64
    counted = shares(made._ops, made._count, start, made._size, threads, rounds, _addresses(given), _addresses(results),
                     found.ctypes.data)  # fmt: skip
    ops, at = [], 0
    for _ in range(made._count):
        count = int(found[at])
        ops.append(found[at + 1 : at + 1 + count].tolist())
        at += 1 + count
    return ops, bool(counted)


def programs_of(path: Path) -> list[NativeProgram]:
    """The native programs of a network."""
    with rknnlite.open(path, backend="cpu", engine="native", threads=1) as context:
        context.infer([np.zeros(attr.dims, np.uint8) for attr in context.inputs])
        islands = context._shapes.current.plan._accelerator.islands({})  # type: ignore[attr-defined]
        return [island.program(1) for island in islands]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    shares = counting()
    for path in options.models:
        programs = programs_of(path)
        alone = [measured(shares, program, 1, options.rounds) for program in programs]
        total = float(sum(sum(map(sum, ops)) for ops, _ in alone))
        counted = all(each for _, each in alone)
        amount = f"{total / 1e6:.1f} M instructions" if counted else f"{total / 1e6:.2f} ms"
        print(f"{path.name}: {amount} for one thread, {sum(len(ops) for ops, _ in alone)} ops")
        for threads in options.threads:
            found = [
                ops for program in programs for ops in measured(shares, program, threads, options.rounds)[0]
            ]
            most = sum(busiest(tasks, threads) for tasks in found)
            bound = total / most
            told = f"  {threads} threads: {sum(map(len, found))} tasks, busiest thread {most / total:.3f} of all, bound {bound:.2f}"
            if not counted:
                bound = total / (most + BARRIER * len(found))
                told += f", with barriers {bound:.2f}"
            target = TARGETS.get(threads)
            if target is not None:
                told += f" (target {target}: {'met' if bound >= target else 'MISSED'})"
            print(told, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("RKNN_LOG_LEVEL", "1")
    main()
