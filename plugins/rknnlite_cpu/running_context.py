"""How a context begins frames, computes them and waits for them, and what they leave behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

import numpy as np
from rknnlite_backend.begun_frames import BegunFrames
from rknnlite_backend.running import not_prepared, not_run, partly_bound

from rknnlite.log import logger
from rknnlite.spi import Input, PostProcess

from .kernels.parallel import run_items
from .kernels.threads import limited
from .plan import ExecutionPlan, Watch
from .run_outputs import RunOutputs
from .values import Array

if TYPE_CHECKING:
    from rknnlite_backend.bindings import BoundFrame
    from rknnlite_backend.perf import PerfTable
    from rknnlite_insight.dumps import TensorSink

    from .observers import Stopwatch
    from .opened_model import ContextSettings, OpenedModel
    from .shape_variant import IoAttrs, PreparedShapes, ShapeVariant

__all__ = ["FrameBegun", "RecentRuns", "RunningContext", "unshared"]


@dataclass
class FrameBegun:
    """A frame that is about to be computed, with all of the context that a later call may change."""

    number: int
    variant: ShapeVariant
    inputs: list[list[Array]]
    bound: Optional[BoundFrame]
    internal_memory: AbstractContextManager[None]
    """Internal memory that is shared with other contexts."""


@dataclass
class RecentRuns:
    """Inputs of the next run, results and figures of the last; every context begins with none."""

    inputs: Optional[list[list[Array]]] = None
    """Per input of the graph the values of the items of a batch."""
    set_by_caller: Optional[list[list[Array]]] = None
    """Of them what ``set_inputs`` gave: what has no memory of its own is taken from here."""
    last: Optional[RunOutputs] = None
    previous: Optional[RunOutputs] = None
    count: int = 0
    """Frames that have begun, numbered from 0; the last may be under way."""
    fetched: int = 0
    """Number of the frame whose outputs were asked for last."""
    last_us: int = 0
    seconds: Optional[Mapping[int, float]] = None
    """Time per node of the last run that was timed."""
    table: Optional[PerfTable] = None
    """Made of ``seconds``."""

    @property
    def newest(self) -> Optional[int]:
        """Number of the last frame that has begun; None before the first."""
        return self.count - 1 if self.count else None

    def forget_inputs(self) -> None:
        """The shape has changed."""
        self.inputs = self.set_by_caller = self.seconds = self.table = None

    def drop_arrays(self) -> None:
        """The context is closed."""
        self.inputs = self.set_by_caller = self.last = self.previous = None

    def begin(self) -> int:
        """The number of a frame that begins."""
        self.count += 1
        return self.count - 1

    def add(self, frame: Optional[RunOutputs]) -> None:
        """A run is done, or (None) has failed: then there is nothing to be had of it."""
        # In this order: ``frame`` may look from another thread.
        self.previous = self.last
        self.last = frame

    def frame(self, number: int) -> Optional[RunOutputs]:
        """One of the last two frames by its number; None for one that has failed, or never was."""
        for frame in (self.last, self.previous):
            if frame is not None and frame.number == number:
                return frame
        return None

    def timed(self, seconds: Mapping[int, float]) -> None:
        """A run was timed."""
        self.seconds, self.table = seconds, None


class RunningContext(BegunFrames[FrameBegun]):
    """Begins frames and computes them. The parts belong to the subclass."""

    _opened: OpenedModel
    _settings: ContextSettings
    _shapes: PreparedShapes
    _attrs: IoAttrs
    _post: PostProcess | None
    _runs: RecentRuns

    @property
    def _one_at_a_time(self) -> bool:
        return self.soc.generation == "rknpu3"

    @property
    def _newest(self) -> int | None:
        return self._runs.newest

    def _keep_inputs(self, frame: FrameBegun) -> None:
        if frame.bound is not None:
            for index, item in frame.bound.inputs.items():
                frame.inputs[index] = unshared(frame.inputs[index], item)

    def _begin(self) -> FrameBegun:
        """A frame on the inputs of this moment; raises ContextInvalid or RknnError where something is missing."""
        self._opened.check_runs()
        internal_memory, runs = self._bindings.hold_internal(), self._runs
        bound = None
        if self._bindings.bound:
            bound = self._bindings.begin(self._places(), self._attrs.native_inputs, self.mixed_paths)
            runs.inputs = self._read(bound)
        if runs.inputs is None:
            raise not_prepared()
        return FrameBegun(runs.begin(), self._shapes.current, runs.inputs, bound, internal_memory)

    def _read(self, bound: BoundFrame) -> list[list[Array]]:
        """Values of all inputs: what lies in bound memory now, and what was set for those that have none."""
        feeds, set_by_caller = self._shapes.current.feeds, self._runs.set_by_caller
        missing = [attr.name for i, attr in enumerate(self.inputs) if i not in bound.inputs]
        if missing and set_by_caller is None:
            raise partly_bound(missing, how="bind or set")
        return [
            feed.values(bound.inputs[i]) if i in bound.inputs else (set_by_caller or [])[i]
            for i, feed in enumerate(feeds)
        ]

    def _make(self, begun: FrameBegun) -> None:
        """Compute a frame, in whatever thread; others may call meanwhile what does not ``_settle``."""
        opened, current = self._opened, begun.variant
        done: RunOutputs | None = None
        try:
            with begun.internal_memory, limited(self._settings.threads):
                watch = _stopwatch() if opened.times else None
                writer = opened.side_dump() if opened.dumps else None
                started = time.perf_counter()
                frame = self._framed(
                    current, self._compute(current, begun.inputs, watch, writer), begun.number
                )
                if self._post is not None:
                    frame.post = self._post.compute(frame.elements())
                self._runs.last_us = round((time.perf_counter() - started) * 1e6)
                if begun.bound is not None:
                    begun.bound.write(frame, self._attrs.native_outputs)
            done = frame
        finally:
            self._runs.add(done)
        if writer is not None:
            writer.finish()
        if watch is not None:
            self._runs.timed(watch.seconds)
        if opened.logs:
            for line in str(self._table(current)).splitlines():
                logger.debug("%s", line)

    def _framed(self, current: ShapeVariant, items: list[list[Array]], number: int = 0) -> RunOutputs:
        return RunOutputs(current.plan.graph, current.graph, items, number=number)

    def _compute(
        self,
        current: ShapeVariant,
        inputs: list[list[Array]],
        watch: Watch | None = None,
        writer: TensorSink | None = None,
        feeder: Watch | None = None,
    ) -> list[list[Array]]:
        """Outputs of the graph per batch item."""
        limit = self._opened.options.timeout_ms
        if limit and self._one_at_a_time:
            from .observers import Deadline, Watches

            watch = Watches(watch, Deadline(self._opened.label, limit))
        return _compute_items(current.plan, inputs, self.batch, self._settings.lanes, watch, writer, feeder)

    def _answer(self) -> RunOutputs:
        """The frame whose outputs are to be given."""
        runs = self._runs
        newest = runs.count - 1
        for number in (newest - 1, newest) if self._opened.options.async_mode else (newest,):
            if self._flight is not None:
                self._flight.wait(number)
            frame = runs.frame(number)
            if frame is not None:
                runs.fetched = number
                return frame
        raise not_run()

    def _table(self, current: ShapeVariant) -> PerfTable:
        runs = self._runs
        if runs.table is None:
            from .perf import perf_table

            runs.table = perf_table(
                current.graph, current.plan, runs.seconds or {}, self.soc, self._opened.timing_note
            )
        return runs.table


def _compute_items(
    plan: ExecutionPlan,
    inputs: Sequence[Sequence[Array]],
    batch: int,
    lanes: int,
    watch: Optional[Watch] = None,
    writer: Optional[TensorSink] = None,
    feeder: Optional[Watch] = None,
) -> list[list[Array]]:
    """Outputs of the graph per item of a batch, ``lanes`` items side by side, or one by one where somebody looks on."""

    def compute(item: int) -> list[Array]:
        feeds = {index: values[item] for index, values in zip(plan.graph.inputs, inputs)}
        looks = watch
        if writer is not None:
            from .observers import Recorder, Watches

            recorder = Recorder(plan.graph, writer, item if batch > 1 else None)
            recorder.inputs(feeds)
            looks = Watches(feeder, watch, recorder)
        outputs = plan.run(feeds, looks)
        return [outputs[index] for index in plan.graph.outputs]

    if batch == 1:
        return [compute(0)]
    alone = watch is not None or writer is not None or not plan.concurrent
    return run_items(compute, batch, 1 if alone else lanes)


def _stopwatch() -> Stopwatch:
    from .observers import Stopwatch

    return Stopwatch()


def unshared(values: list[Array], item: Input) -> list[Array]:
    """Values of an input that stay as they are when the caller writes into its array again."""
    data = item.data
    if len(values) == 1 and values[0].dtype != data.dtype and not item.pass_through:
        return values  # converted, as in most frames
    return [np.array(value) if np.may_share_memory(value, data) else value for value in values]
