"""Runs a whole file on the machine: buffers, jobs, and the CPU's nodes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rknnlite.formats import Model

from .machine.memory import Bytes, Memory
from .program import NpuNode
from .submission import Submission

__all__ = ["MachineRun", "RunCpuNode"]

RunCpuNode = Callable[[NpuNode, Sequence[Bytes]], Sequence[Bytes]]
"""Computes a node of the CPU: (node, native bytes of its activation inputs) -> native bytes of its outputs, in their orders
in ``NpuNode.inputs`` (constants left out) and ``NpuNode.outputs``."""


class MachineRun:
    """A file made ready once and run as often as one likes.

    Attributes:
        submission: the plan; ``memory``: its buffers.
    """

    submission: Submission
    memory: Memory

    def __init__(self, model: Model, run_cpu_node: RunCpuNode, pixels: bool = False) -> None:
        """Raises what ``plan`` raises."""
        raise NotImplementedError

    def input_view(self, number: int) -> Bytes:
        """Bytes of input ``number`` as the NPU keeps it; write there before a run."""
        raise NotImplementedError

    def output_view(self, number: int) -> Bytes:
        """Bytes of output ``number`` as the NPU left it."""
        raise NotImplementedError

    def run(self) -> None:
        """All jobs and nodes of the CPU, in order; raises MachineRefused."""
        raise NotImplementedError
