"""How long the NPU needs at least, by what it counts: an estimate from widths, never a measurement.

Widths are those that the converter itself reckons with: on 22 convolutions of all kinds, for every family in int8 and float16, its
log says exactly the cycles that ``multiplying`` gives; its cycles of memory are bytes at ``Widths.memory_bytes``. Of tasks that
multiply nothing it says none; here they are as fast as the output stage. A board adds what no file tells: the time to hand
over jobs, other traffic, its clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .counts import NodeCount, TaskCount, Work

__all__ = ["WIDTHS", "Cycles", "Widths", "node_cycles", "task_cycles"]

_POSITIONS = 16
"""The multipliers take positions of a picture by as many."""
_NARROW = 8  # bits


@dataclass(frozen=True)
class Widths:
    """Of one core.

    Attributes:
        outputs: int8 channels of a result that are multiplied in one cycle; half as many of wider elements.
        inputs: channels of the features that are; ``wide_inputs`` of wider elements.
        depthwise: channels of a depthwise convolution.
        written: elements that the output stage gives per cycle.
        memory_bytes: per cycle of a clock of 1 GHz.
        cores: how many there are.
    """

    outputs: int
    inputs: int
    wide_inputs: int
    depthwise: int
    written: int
    memory_bytes: float
    cores: int = 1

    @property
    def macs(self) -> int:
        """int8 products per cycle of one core."""
        return self.outputs * self.inputs


WIDTHS = {
    "RKNPU v2": Widths(32, 32, 32, 64, 8, 23.65, cores=3),
    "RKNPU f2": Widths(32, 32, 32, 64, 8, 7.465, cores=2),
    "RKNPU f3": Widths(32, 32, 32, 64, 8, 7.465),
    "RKNPU lite": Widths(16, 32, 16, 32, 4, 6.571),
    "RKNPU t4": Widths(16, 32, 32, 64, 4, 7.465),
    "RKNPU t3": Widths(16, 32, 32, 32, 4, 6.159),
    "RKNPU w1": Widths(8, 16, 16, 16, 2, 7.465),
}
"""One row per family, by the container's word for it."""


class Cycles(NamedTuple):
    """Of one core: the multipliers or the output stage, and memory; they work at the same time."""

    computing: float
    memory: float

    @property
    def total(self) -> float:
        """The slower of the two."""
        return max(self)

    @property
    def bound(self) -> str:
        """Which of them that is."""
        return "memory" if self.memory > self.computing else "computing"


def task_cycles(task: TaskCount, widths: Widths) -> Cycles:
    """Of one task."""
    return Cycles(_computing(task.work, widths), task.moved / widths.memory_bytes)


def node_cycles(node: NodeCount, widths: Widths) -> Cycles:
    """Of a node: its busiest core, and all bytes through the memory that the cores share."""
    cores = range(node.cores)
    busiest = max((_sum(node.tasks, core, widths) for core in cores), default=0.0)
    return Cycles(busiest, (node.fetched + node.written) / widths.memory_bytes)


def _sum(tasks: Iterable[TaskCount], core: int, widths: Widths) -> float:
    return sum(_computing(task.work, widths) for task in tasks if task.core == core)


def _computing(work: Work, widths: Widths) -> float:
    """Cycles of the multipliers, or of the output stage where that is slower."""
    positions = _up(work.positions, _POSITIONS) * _POSITIONS
    if work.taps and work.depthwise:
        return positions * work.taps * _up(work.outputs, widths.depthwise)
    narrow = work.bits <= _NARROW
    wide = widths.outputs if narrow else widths.outputs // 2
    groups = _up(work.outputs, wide)
    written = groups * wide / widths.written
    if not work.taps:
        return positions * written
    if work.inputs == 1 and groups > 1:  # first layers of grey pictures
        groups = _up(groups, 2)
    return positions * max(
        work.taps * groups * _up(work.inputs, widths.inputs if narrow else widths.wide_inputs), written
    )


def _up(amount: int, group: int) -> int:
    return -(-amount // group)
