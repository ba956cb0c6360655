"""What the runs of one context leave behind, and how the items of a batch are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from rknnlite.errors import ContextInvalid
from rknnlite.spi.perf import PerfTable

from .frame import Frame
from .kernels.parallel import run_items
from .observers import Recorder, Watches
from .plan import ExecutionPlan, Watch
from .values import Array

if TYPE_CHECKING:
    from rknnlite.spi.dumps import TensorSink

__all__ = ["Runs", "compute_items"]


@dataclass
class Runs:
    """Inputs of the next run, results and figures of the last; every context begins with none."""

    inputs: Optional[list[list[Array]]] = None
    """Per input of the graph the values of the items of a batch."""
    last: Optional[Frame] = None
    previous: Optional[Frame] = None
    count: int = 0
    fetched: int = 0
    """Number of the frame whose outputs were asked for last."""
    last_us: int = 0
    seconds: Optional[Mapping[int, float]] = None
    """Time per node of the last run that was timed."""
    table: Optional[PerfTable] = None
    """Made of ``seconds``."""

    def forget_inputs(self) -> None:
        """The shape has changed."""
        self.inputs = self.seconds = self.table = None

    def drop_arrays(self) -> None:
        """The context is closed."""
        self.inputs = self.last = self.previous = None

    def add(self, frame: Frame, microseconds: int) -> None:
        """A run is done."""
        self.count += 1
        self.last_us = microseconds
        self.previous, self.last = self.last, frame

    def answer(self, delayed: bool) -> Frame:
        """The frame whose outputs are to be given: the last, ``delayed`` the one before where there is one."""
        frame = self.previous if delayed and self.previous else self.last
        if frame is None:
            raise ContextInvalid("run the model before asking for outputs")
        self.fetched = frame.number
        return frame

    def timed(self, seconds: Mapping[int, float]) -> None:
        """A run was timed."""
        self.seconds, self.table = seconds, None


def compute_items(
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
            recorder = Recorder(plan.graph, writer, item if batch > 1 else None)
            recorder.inputs(feeds)
            looks = Watches(feeder, watch, recorder)
        outputs = plan.run(feeds, looks)
        return [outputs[index] for index in plan.graph.outputs]

    alone = watch is not None or writer is not None or not plan.concurrent
    return run_items(compute, batch, 1 if alone else lanes)
