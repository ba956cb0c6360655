"""``rknnlite bench``: how fast a model runs: latencies and frames per second, per number of threads and core mask."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..command import Command, Console, Exit, Progress
from ..inputs import collect
from ..perf import grid
from ..spi import Context, Input
from .feeding import arrays_for
from .options import add_inputs, add_model, core_mask, open_context

__all__ = ["COMMAND", "Measured", "Plan"]

Array = NDArray[Any]
_MOST_THREADS = 64


@dataclass(frozen=True)
class Plan:
    """One row of the table: how many threads, each with a context of its own, on which cores, by which path."""

    threads: int
    mask: Optional[int]
    zero_copy: bool

    @property
    def label(self) -> str:
        """The plan in a few words."""
        mask = "default" if self.mask is None else f"{self.mask:#x}"
        return f"{self.threads} x {mask}" + (", zero-copy" if self.zero_copy else "")


@dataclass(frozen=True)
class Measured:
    """Latencies in milliseconds, resident memory of the process in bytes; ``run_us`` as the backend times it."""

    threads: int
    core_mask: Optional[int]
    zero_copy: bool
    runs: int
    fps: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    run_us: float
    rss_bytes: int

    @classmethod
    def of(cls, plan: Plan, seconds: Sequence[float], wall: float, run_us: Sequence[int]) -> Measured:
        """Sum up the latencies of all threads; ``wall`` is the time from the first start to the last end."""
        milliseconds = np.asarray(seconds) * 1000
        p50, p95, p99 = (float(value) for value in np.percentile(milliseconds, (50, 95, 99)))
        return cls(
            plan.threads, plan.mask, plan.zero_copy, len(seconds), len(seconds) / wall, float(milliseconds.mean()),
            p50, p95, p99, float(milliseconds.max()), float(np.mean(run_us)), _resident(),
        )  # fmt: skip


def _resident() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


class Bench(Command):
    """See the module."""

    name = "bench"
    help = "latency, frames per second and memory of a model"
    examples = (
        "rknnlite bench model.rknn",
        "rknnlite bench model.rknn --threads 1,2,3 --core-masks core_0,core_0_1_2 --zero-copy both",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser)
        add_inputs(parser)
        parser.add_argument(
            "--runs", type=_positive, default=50, metavar="N", help="runs per thread (default: 50)"
        )
        parser.add_argument("--warmup", type=_whole, default=5, metavar="N", help="runs before (default: 5)")
        parser.add_argument(
            "--threads", type=_counts, default=[1], metavar="N,...", help="numbers of threads"
        )
        parser.add_argument(
            "--core-masks", type=_masks, metavar="MASK,...", help="core masks to try, instead of --core-mask"
        )
        parser.add_argument(
            "--zero-copy",
            choices=("off", "on", "both"),
            default="off",
            help="buffers of the NPU instead of copies",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        masks = args.core_masks or [args.core_mask]
        paths = {"off": (False,), "on": (True,), "both": (False, True)}[args.zero_copy]
        plans = [Plan(threads, mask, path) for path in paths for mask in masks for threads in args.threads]
        total = sum(plan.threads * (args.runs + args.warmup) for plan in plans)
        with console.progress("bench", total) as progress:
            rows = [_measure(plan, args, progress) for plan in plans]
        console.report({"model": str(args.model), "rows": rows}, _table(rows))
        return Exit.OK


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def _counts(text: str) -> list[int]:
    counts = [_positive(word) for word in text.split(",")]
    if max(counts) > _MOST_THREADS:
        raise argparse.ArgumentTypeError(f"at most {_MOST_THREADS} threads")
    return counts


def _masks(text: str) -> list[int]:
    return [core_mask(word) for word in text.split(",")]


def _table(rows: Sequence[Measured]) -> str:
    headers = ("threads", "cores", "zero-copy", "FPS", "mean ms", "p50", "p95", "p99", "max", "RSS MiB")
    cells = [
        [
            str(row.threads), "default" if row.core_mask is None else f"{row.core_mask:#x}",
            "yes" if row.zero_copy else "no", f"{row.fps:.1f}", f"{row.mean_ms:.2f}", f"{row.p50_ms:.2f}",
            f"{row.p95_ms:.2f}", f"{row.p99_ms:.2f}", f"{row.max_ms:.2f}", f"{row.rss_bytes / 2**20:.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    return "\n".join(grid(headers, cells))


def _measure(plan: Plan, args: argparse.Namespace, progress: Progress) -> Measured:
    """Open the contexts, run them side by side, close them; also when interrupted."""
    asked = argparse.Namespace(**{**vars(args), "core_mask": plan.mask})
    with ExitStack() as stack:
        contexts = [stack.enter_context(open_context(asked)) for _ in range(plan.threads)]
        for context in contexts if plan.threads > 1 else ():  # on the CPU reference: share the machine
            context.limit_threads(max(1, (os.cpu_count() or 1) // plan.threads))
        frames = [_frame(context, args, plan.zero_copy) for context in contexts]
        team = _Team(contexts, frames, args.warmup, args.runs, progress)
        return Measured.of(plan, *team.work())


def _frame(context: Context, args: argparse.Namespace, zero_copy: bool) -> Callable[[], object]:
    """What is timed: one frame from input arrays to output arrays, or on bound buffers."""
    if zero_copy and context.shapes:
        context.set_shapes(context.shapes[0])  # buffers have the size of one entry
    arrays = arrays_for(args.inputs, context.inputs, args.bgr)
    items = collect(arrays, context.inputs, args.layout, False, shapes=context.shapes)
    if zero_copy:
        return _bound_frame(context, items)

    def frame() -> None:
        with context.exclusive():
            context.set_inputs(items)
            context.run()
            context.get_outputs(True)

    return frame


def _bound_frame(context: Context, items: Sequence[Input]) -> Callable[[], object]:
    inputs = [
        (attr, context.create_mem(attr.size_with_stride or attr.size)) for attr in context.native_inputs
    ]
    outputs = [
        (attr, context.create_mem(attr.size_with_stride or attr.size)) for attr in context.native_outputs
    ]
    for attr, memory in (*inputs, *outputs):
        context.bind(attr, memory)
    for (_, memory), item in zip(
        inputs, items
    ):  # what the bytes mean does not matter here, that they are there does
        data = np.ascontiguousarray(item.data).view(np.uint8).reshape(-1)[: memory.size]
        memory.ndarray[: data.size] = data

    def frame() -> None:
        with context.exclusive():
            for _, memory in inputs:
                context.sync(memory, "to_device")
            context.run()
            for _, memory in outputs:
                context.sync(memory, "from_device")

    return frame


class _Team:
    """Threads that run one frame after another, one context each."""

    def __init__(
        self,
        contexts: Sequence[Context],
        frames: Sequence[Callable[[], object]],
        warmup: int,
        runs: int,
        progress: Progress,
    ) -> None:
        self._contexts, self._frames, self._warmup, self._runs = contexts, frames, warmup, runs
        self._progress = progress
        self._stop = threading.Event()
        self._barrier = threading.Barrier(len(frames))
        self._errors: list[BaseException] = []
        self._seconds: list[float] = []
        self._run_us: list[int] = []
        self._lock = threading.Lock()
        self._starts: list[float] = []
        self._ends: list[float] = []

    def work(self) -> tuple[list[float], float, list[int]]:
        """Latencies, the time it took in all, and the runs as the backend timed them."""
        threads = [
            threading.Thread(target=self._one, args=pair) for pair in zip(self._contexts, self._frames)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        finally:  # Ctrl-C comes out of join: nobody may be left running
            self._stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if self._errors:
            raise self._errors[0]
        return self._seconds, max(self._ends) - min(self._starts), self._run_us

    def _one(self, context: Context, frame: Callable[[], object]) -> None:
        seconds, run_us = [], []
        try:
            for _ in range(self._warmup):
                self._step(frame)
            self._barrier.wait()
            start = time.perf_counter()
            for _ in range(self._runs):
                before = time.perf_counter()
                self._step(frame)
                seconds.append(time.perf_counter() - before)
                run_us.append(context.last_run_us)
            end = time.perf_counter()
        except threading.BrokenBarrierError:
            return
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()
            self._barrier.abort()
            return
        with self._lock:
            self._seconds += seconds
            self._run_us += run_us
            self._starts.append(start)
            self._ends.append(end)

    def _step(self, frame: Callable[[], object]) -> None:
        if self._stop.is_set():
            self._barrier.abort()
            raise threading.BrokenBarrierError
        frame()
        self._progress.step()


COMMAND = Bench()
