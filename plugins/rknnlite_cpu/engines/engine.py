"""The contract of an engine: it compiles a lowered segment and runs it."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Protocol

from rknnlite_graph.graph import Graph, Node
from rknnlite_graph.lowering import Form, Segment

from rknnlite import plugins

from ..values import Array, Kernel

__all__ = ["Engine", "Kernels", "Program", "Stopped", "Writes", "nothing"]

Kernels = Mapping[int, Kernel]
"""The numpy kernel of a node by its index."""


class Stopped(Exception):
    """Nobody waits for a proof any more."""


def nothing() -> None:
    """Between the steps of a proof that the caller waits for."""


class Program(abc.ABC):
    """A compiled segment; several threads may run it at once."""

    @abc.abstractmethod
    def run(self, values: Sequence[Array]) -> list[Array]:
        """Values of the segment's inputs, in order -> values of its outputs, float32 as a plan carries them."""


class Writes(Protocol):
    """Writes segments in the format that an engine reads, as ``rknnlite_graph.lowering.Lowering`` says."""

    def why_not(self, graph: Graph, node: Node, form: Form) -> str:
        """Why a node cannot be lowered, or an empty string."""

    def segment(self, graph: Graph, segment: Segment, form: Form) -> bytes:
        """A part of a graph. Raises NotLowered, ModelInvalid."""


class Engine(abc.ABC):
    """One library that runs lowered segments."""

    name = ""

    @property
    def lowering(self) -> Writes:
        """What writes the format that it reads."""
        return plugins.lowering("onnx")

    @property
    @abc.abstractmethod
    def version(self) -> str:
        """What results may depend on: versions, and which instructions the machine has."""

    @property
    @abc.abstractmethod
    def form(self) -> Form:
        """The fastest form whose products are exact here; found out once."""

    def prepared(self, model: bytes) -> bytes:
        """The form in which a lowered segment is kept; ``compile`` takes it as it takes the segment itself."""
        return model

    @abc.abstractmethod
    def compile(self, model: bytes, outputs: Sequence[str], threads: int) -> Program:
        """A program of a segment, whose results are asked for in the order of ``outputs``.

        Whatever it raises makes the caller compute without it.
        """
