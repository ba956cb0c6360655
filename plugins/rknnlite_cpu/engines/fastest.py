"""Which engine has been the fastest for a graph, as an earlier process found it and kept it. No kernels are loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Optional

from rknnlite_graph.graph import MARKERS, Graph

from . import choice
from .engine_cache import Store
from .proof import is_floating

if TYPE_CHECKING:
    from .accelerator import Accelerator
    from .engine import Engine

__all__ = ["NUMPY", "Fastest", "Subject", "keep_choice", "kept_choice", "same_on_all"]


@dataclass(frozen=True)
class Subject:
    """A graph that engines may compute, and what is known of it."""

    graph: Graph
    label: str
    """Of the model, for messages."""
    taken: frozenset[str]
    """Types of nodes that custom operators have."""
    key: tuple[object, ...]
    """What verdicts depend on beside the engine."""
    check: Callable[[], None]
    """Raises ModelInvalid when the file of the weights was changed."""
    precise: bool = True
    """Whether integers of 8 bits are to be the numpy kernels' to the byte."""

    def accelerator(self, engines: Sequence[Engine]) -> Accelerator:
        """What engines compute of it."""
        from .accelerator import Accelerator  # with all kernels; ``info`` needs none

        store = self.store(*(engine.version for engine in engines))
        return Accelerator(engines, self.graph, self.label, self.taken, store, self.check, self.precise)

    def store(self, *more: object) -> Store:
        """Entries about this graph."""
        return Store([*self.key, *more, sorted(self.taken), self.precise])


NUMPY = "numpy"


def same_on_all(graph: Graph) -> bool:
    """Whether every engine gives the bytes of the numpy kernels: no result is a float, or behind one and wider than 8 bits."""
    tensors = graph.tensors
    return all(
        all(
            tensors[i].in_eight_bits
            or not (is_floating(node) or (tensors[i].quant is None and tensors[i].dtype.is_float))
            for i in node.outputs
        )
        for node in graph.nodes
        if node.op not in MARKERS
    )


class Fastest(NamedTuple):
    """An engine, or ``numpy``, and how many nodes of the graph it computes."""

    name: str
    nodes: int = 0


def kept_choice(subject: Subject, names: Sequence[str]) -> Optional[Fastest]:
    """The fastest of some engines as an earlier process has found; None where none has."""
    found, _, nodes = (
        (_choices(subject, names).fetch("fastest") or b"").decode("ascii", "replace").partition(" ")
    )
    return Fastest(found, int(nodes)) if found in (*names, NUMPY) and nodes.isdigit() else None


def keep_choice(subject: Subject, names: Sequence[str], fastest: Fastest) -> None:
    """For later processes."""
    _choices(subject, names).keep("fastest", f"{fastest.name} {fastest.nodes}".encode())


def _choices(subject: Subject, names: Sequence[str]) -> Store:
    return subject.store("fastest of", *map(choice.version, names))
