"""Steps of a plan, one per node, and who looks on while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Optional

from rknnlite_graph.graph import Node

from .values import Array, Kernel

__all__ = ["MARKERS", "LateKernel", "Step", "Watch"]

MARKERS = ("InputOperator", "OutputOperator")
"""Node types that only mark where a graph begins and ends."""


@dataclass
class Step:
    """One node: its kernel, where operands come from and results go, and which values die after it."""

    node: Node
    kernel: Kernel
    sources: list[int]
    targets: list[int]
    shapes: list[tuple[int, ...]]
    drops: list[int] = field(default_factory=list)


class LateKernel:
    """The kernel of a node that is prepared when it is first called: an engine computes the node as long as nobody looks."""

    __slots__ = ("_check", "_kernel", "_make")

    def __init__(
        self, make: Callable[[], Kernel], check: Callable[[], None], kernel: Optional[Kernel] = None
    ) -> None:
        self._make, self._check, self._kernel = make, check, kernel

    def __call__(self, values: list[Array]) -> list[Array]:
        kernel = self._kernel
        if kernel is None:
            self._check()  # the file may be another one by now
            kernel = self._kernel = self._make()
        return kernel(values)

    def put_off(self) -> None:
        """Give back what was prepared."""
        self._kernel = None


class Watch:
    """Looks on while a plan runs; a subclass overrides what it needs."""

    def before(self, step: Step, values: dict[int, Array]) -> None:
        """Called before a step; may replace the values of its operands."""

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        """Called when the results of a step are among the values, before operands are dropped."""
