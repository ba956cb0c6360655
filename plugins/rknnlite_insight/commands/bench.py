"""``rknnlite bench``: how fast a model runs: latencies and frames per second of pools, per size and core mask."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from rknnlite.commandline.options import (
    add_inputs,
    add_model,
    between,
    core_mask,
    mask_name,
    model_file,
    opening,
)
from rknnlite.files.input_arrays import arrays_for
from rknnlite.pool import Cores, Pool
from rknnlite.spi import Context, Input, Memory
from rknnlite.spi.command import Column, Command, Console, Exit, Line, Progress, Table, Tone
from rknnlite.spi.inputs import collect
from rknnlite.tensor import TensorAttr

__all__ = ["COMMAND", "Measured", "Plan"]

_MOST_THREADS, _MOST_RUNS = 64, 1 << 31


@dataclass(frozen=True)
class Plan:
    """One row of the table: workers of the pool, the mask of each (None: as a pool spreads them), and the path."""

    threads: int
    mask: Optional[int]
    zero_copy: bool

    @property
    def cores(self) -> Cores:
        """What ``Pool`` is told."""
        if self.mask is None:
            return "spread"
        return self.mask or "auto"


@dataclass(frozen=True)
class Measured:
    """Latencies in microseconds, resident memory of the process in bytes; ``run_us`` as the backend times it."""

    threads: int
    core_mask: Optional[int]
    zero_copy: bool
    runs: int
    fps: float
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float
    run_us: float
    rss_bytes: int

    @property
    def outside_us(self) -> float | None:
        """Microseconds of a frame that the model did not take, on average; None where the backend does not time it."""
        return max(0.0, self.mean_us - self.run_us) if self.run_us else None

    @classmethod
    def of(cls, plan: Plan, seconds: Sequence[float], wall: float, run_us: Sequence[int]) -> Measured:
        """Sum up the latencies of all workers; ``wall`` is the time from the first call to the last result."""
        microseconds = np.asarray(seconds) * 1e6
        p50, p95, p99 = (float(value) for value in np.percentile(microseconds, (50, 95, 99)))
        return cls(
            plan.threads,
            plan.mask,
            plan.zero_copy,
            len(seconds),
            len(seconds) / wall,
            float(microseconds.mean()),
            p50,
            p95,
            p99,
            float(microseconds.max()),
            float(np.mean(run_us)),
            _resident(),
        )


def _resident() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


class Bench(Command):
    """See the module."""

    name = "bench"
    help = "latency, frames per second and memory of a model"
    examples = (
        "rknnlite bench model.rknn",
        "rknnlite bench model.rknn --device board:8001 --workers 1,3",
        "rknnlite bench model.rknn --workers 1,2,3 --core-masks core_0,core_0_1_2 --zero-copy both",
    )
    common = ("--runs", "--workers", "--core-masks", "--zero-copy", "--backend", "--device")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser)
        add_inputs(parser)
        parser.add_argument(
            "--runs",
            type=between(int, 1, _MOST_RUNS),
            default=50,
            metavar="N",
            help="runs per worker (default: 50)",
        )
        parser.add_argument(
            "--warmup",
            type=between(int, 0, _MOST_RUNS),
            default=5,
            metavar="N",
            help="runs per worker before (default: 5)",
        )
        parser.add_argument(
            "--workers",
            "--threads",
            dest="threads",
            type=_counts,
            default=[1],
            metavar="N,...",
            help="workers of the pool, each with a context (former name: --threads)",
        )
        parser.add_argument(
            "--core-masks",
            type=_masks,
            metavar="MASK,...",
            help="core masks to try (default: one core per worker)",
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
        data = [{**vars(row), "outside_us": row.outside_us} for row in rows]
        told = [Line(_OUTSIDE, Tone.QUIET, 2)] if args.device else []
        console.report(
            {"model": str(args.model), "device": args.device, "rows": data},
            _table(rows, bool(args.device)),
            *told,
        )
        return Exit.OK


def _counts(text: str) -> list[int]:
    return [between(int, 1, _MOST_THREADS)(word) for word in text.split(",")]


def _masks(text: str) -> list[int]:
    return [core_mask(word) for word in text.split(",")]


_COLUMNS = (
    Column("workers", True),
    Column("cores", least=14),
    Column("zero-copy", drop=2),
    Column("FPS", True),
    Column("mean ms", True),
    Column("p50", True),
    Column("p95", True, drop=4),
    Column("p99", True, drop=1),
    Column("max", True, drop=5),
    Column("RSS MiB", True, drop=3),
)


_FAR = (Column("model ms", True, drop=3), Column("outside ms", True))
_OUTSIDE = (
    "outside: what a frame took beside the model: the way there and back, waiting at the server, conversion of "
    "inputs and outputs"
)


def _table(rows: Sequence[Measured], far: bool) -> Table:
    cells = [
        [
            str(row.threads),
            _cores(row),
            "yes" if row.zero_copy else "no",
            f"{row.fps:.1f}",
            f"{row.mean_us / 1000:.2f}",
            f"{row.p50_us / 1000:.2f}",
            f"{row.p95_us / 1000:.2f}",
            f"{row.p99_us / 1000:.2f}",
            f"{row.max_us / 1000:.2f}",
            f"{row.rss_bytes / 2**20:.0f}",
            *(_far(row) if far else []),
        ]
        for row in rows
    ]
    return Table([*_COLUMNS, *(_FAR if far else [])], cells)


def _far(row: Measured) -> list[str]:
    outside = row.outside_us
    return ["-", "-"] if outside is None else [f"{row.run_us / 1000:.2f}", f"{outside / 1000:.2f}"]


def _cores(row: Measured) -> str:
    if row.core_mask is not None:
        return mask_name(row.core_mask)
    return "spread" if row.threads > 1 else "default"


def _measure(plan: Plan, args: argparse.Namespace, progress: Progress) -> Measured:
    """A pool of the plan's size and masks, kept busy; also closed when interrupted."""
    frame = _Frame(args, plan.zero_copy)
    options = opening(argparse.Namespace(**{**vars(args), "core_mask": None}))
    with Pool(model_file(args.model), plan.threads, plan.cores, **options) as pool:
        for _ in pool.map(range(plan.threads * args.warmup), call=frame):
            progress.step()
        started, seconds, run_us = time.perf_counter(), [], []
        for one, one_us in pool.map(range(plan.threads * args.runs), call=frame):
            seconds.append(one)
            run_us.append(one_us)
            progress.step()
        return Measured.of(plan, seconds, time.perf_counter() - started, run_us)


class _Frame:
    """What is timed in a worker: one frame from input arrays to output arrays, or on bound buffers."""

    def __init__(self, args: argparse.Namespace, zero_copy: bool) -> None:
        self._args, self._zero_copy = args, zero_copy
        self._ready: dict[Context, Callable[[], object]] = {}

    def __call__(self, context: Context, number: int) -> tuple[float, int]:
        """Seconds, and microseconds of the run as the backend times it."""
        if context not in self._ready:
            self._ready[context] = self._prepared(context)
        frame = self._ready[context]
        started = time.perf_counter()
        frame()
        return time.perf_counter() - started, context.last_run_us

    def _prepared(self, context: Context) -> Callable[[], object]:
        if self._zero_copy and context.shapes:
            context.set_shapes(context.shapes[0])  # buffers have the size of one entry
        arrays = arrays_for(self._args.inputs, context.inputs, self._args.bgr)
        items = collect(arrays, context.inputs, self._args.layout, False, shapes=context.shapes)
        if self._zero_copy:
            return _bound_frame(context, items)

        def frame() -> None:
            context.set_inputs(items)
            context.run()
            context.get_outputs(True)

        return frame


def _bound_frame(context: Context, items: Sequence[Input]) -> Callable[[], object]:
    inputs = [_bound(context, attr) for attr in context.native_inputs]
    outputs = [_bound(context, attr) for attr in context.native_outputs]
    for attr, memory, item in zip(context.native_inputs, inputs, items):
        # What the elements mean does not matter here, that they are numbers does.
        data = item.data.reshape(-1).astype(attr.dtype.numpy).view(np.uint8)[: memory.size]
        memory.ndarray[: data.size] = data

    def frame() -> None:
        for memory in inputs:
            context.sync(memory, "to_device")
        context.run()
        for memory in outputs:
            context.sync(memory, "from_device")

    return frame


def _bound(context: Context, attr: TensorAttr) -> Memory:
    memory = context.create_mem(attr.size_with_stride or attr.size)
    context.bind(attr, memory)
    return memory


COMMAND = Bench()
