"""What an engine runs of one plan: found out and proven on first use, compiled, and kept on disk for the next process."""

from __future__ import annotations

import ctypes
import json
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Optional

from rknnlite_graph.graph import Graph, Node
from rknnlite_graph.lowering import Form, Segment

from rknnlite.errors import RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.log import logger
from rknnlite.native.forks import after_fork

from ..kernels.buffers import give_back_heap
from ..kernels.threads import share
from ..values import Array
from .engine import Engine, Kernels, Program, Stopped, nothing
from .engine_cache import Store
from .partition import pays, segment_of

__all__ = ["Accelerator", "Island"]

_MOST_PROGRAMS = 2
"""For different numbers of threads; each has the weights."""


@dataclass(eq=False)
class Island:
    """Nodes that an engine runs as one, compiled for each number of threads that callers have."""

    engine: Engine
    graph: Graph
    segment: Segment
    form: Form
    load: Callable[[], Optional[bytes]]
    """The lowered segment, where it was kept."""
    check: Callable[[], None]
    """Raises ModelInvalid when the weights may not be read any more."""
    _programs: dict[int, Program] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        _living.add(self)

    @property
    def label(self) -> str:
        """For messages."""
        first, last = self.segment.nodes[0], self.segment.nodes[-1]
        return f"{first.name} ... {last.name}" if first is not last else first.name

    @property
    def outputs(self) -> list[str]:
        """Names of the results."""
        return [self.segment.tensor_name(index) for index in self.segment.outputs]

    def run(self, values: list[Array]) -> list[Array]:
        """Values of the segment's inputs -> values of its outputs."""
        threads = share()
        program = self._programs.get(threads)  # here, as ``program`` would cost every frame a call
        return (program or self.program(threads)).run(values)

    def program(self, threads: int) -> Program:
        """Compiled for so many threads."""
        found = self._programs.get(threads)
        if found is None:
            with self._lock:
                found = self._programs.get(threads)
                if found is None:
                    found = self.engine.compile(self._lowered(), self.outputs, threads)
                    while len(self._programs) >= _MOST_PROGRAMS:
                        self._programs.pop(next(iter(self._programs)))
                    self._programs[threads] = found
        return found

    def use(self, program: Program, threads: int) -> None:
        """Take over what the proof has compiled."""
        self._programs[threads] = program

    def _lowered(self) -> bytes:
        kept = self.load()
        if kept is not None:
            return kept
        self.check()
        return self.engine.lowering.segment(self.graph, self.segment, self.form)

    def forget(self) -> None:
        """After a fork, which the threads of engines do not survive: whoever dropped a program would wait for them."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._programs))
        self._programs, self._lock = {}, threading.RLock()


@dataclass(frozen=True)
class _Part:
    """What is kept of an island: which engine, by its place among them, and indices of nodes."""

    engine: int
    form: Form
    nodes: list[int]


_living: weakref.WeakSet[Island] = weakref.WeakSet()


def _forget_all() -> None:
    for island in list(_living):
        island.forget()


after_fork(_forget_all)


class Accelerator:
    """The islands of one graph on engines; plans of several contexts share it.

    Args:
        engines: the first has every node that it computes, the next one what is left.
        label: the model, for messages.
        taken: types of nodes that custom operators have.
        precise: whether integers of 8 bits are to be the numpy kernels' to the byte.
        store: where verdicts and lowered islands are kept.
        check: raises ModelInvalid when the file of the weights was changed.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        graph: Graph,
        label: str,
        taken: Collection[str],
        store: Store,
        check: Callable[[], None],
        precise: bool = True,
    ) -> None:
        self.precise = precise
        self._engines, self._graph, self._label, self._taken = engines, graph, label, frozenset(taken)
        self._store, self.check = store, check
        self._lock = threading.RLock()
        self._islands: Optional[list[Island]] = None
        self._kept = self._read()

    @property
    def late(self) -> frozenset[int]:
        """Indices of nodes that an earlier process has proven: their numpy kernels are prepared when somebody looks on."""
        return frozenset(index for part in self._kept or () for index in part.nodes)

    def without(self, op_type: str) -> Accelerator:
        """For a graph in which a custom operator has taken a type of nodes."""
        if all(node.op != op_type for node in self._graph.nodes):
            return self
        taken = {*self._taken, op_type}
        return Accelerator(
            self._engines,
            self._graph,
            self._label,
            taken,
            self._store.beside(sorted(taken)),
            self.check,
            self.precise,
        )

    def islands(
        self, kernels: Kernels, threads: Optional[int] = None, go_on: Callable[[], None] = nothing
    ) -> list[Island]:
        """All islands; proven against ``kernels`` on first use, unless an earlier process has done that.

        They are compiled for ``threads``, the caller's share where none are given. ``go_on`` is called between the steps of a
        proof, and may end it by what it raises.
        """
        if self._islands is None:
            with self._lock:
                if self._islands is None:
                    self._islands = self._found(kernels, threads or share(), go_on)
                    self._tell(self._islands)
        return self._islands

    def _tell(self, islands: Sequence[Island]) -> None:
        """Which engine has how many nodes."""
        shares = Counter[str]()
        for island in islands:
            shares[island.engine.name] += len(island.segment.nodes)
        told = ", ".join(f"{count} on {name}" for name, count in shares.items()) or "none on an engine"
        logger.info("%s: of %d nodes %s", self._label, len(self._graph.nodes), told)

    def _found(self, kernels: Kernels, threads: int, go_on: Callable[[], None]) -> list[Island]:
        if self._kept is None:
            return self._proven(kernels, threads, go_on)
        nodes = {node.index: node for node in self._graph.nodes}
        return [
            self._island(
                self._engines[part.engine], [nodes[index] for index in part.nodes], part.form, number
            )
            for number, part in enumerate(self._kept)
        ]

    def _island(self, engine: Engine, nodes: Sequence[Node], form: Form, number: int) -> Island:
        inside = {node.index for node in nodes}
        others = [node for node in self._graph.nodes if node.index not in inside]
        segment = segment_of(self._graph, nodes, others)
        return Island(engine, self._graph, segment, form, self._store.loader(f"island{number}"), self.check)

    def _proven(self, kernels: Kernels, threads: int, go_on: Callable[[], None]) -> list[Island]:
        self.check()
        islands: list[Island] = []
        for engine in self._engines:
            try:
                self._add_proven(engine, kernels, islands, threads, go_on)
            except (RknnError, Stopped):
                raise
            except Exception as error:  # whatever an engine may do: others are there
                logger.warning(
                    "%s: the engine %s is of no use: %s: %.300s; the numpy kernels compute",
                    self._label,
                    engine.name,
                    type(error).__name__,
                    error,
                )
        parts = [
            {
                "engine": self._engines.index(island.engine),
                "form": island.form.value,
                "nodes": [node.index for node in island.segment.nodes],
            }
            for island in islands
        ]
        give_back_heap()
        self._store.keep("verdict", json.dumps(parts).encode())
        return islands

    def _add_proven(
        self,
        engine: Engine,
        kernels: Kernels,
        islands: list[Island],
        threads: int,
        go_on: Callable[[], None],
    ) -> None:
        """The islands that an engine makes of what is left by those before."""
        from .prover import Prover

        done = {node.index for island in islands for node in island.segment.nodes}
        last = engine is self._engines[-1]
        worth = (lambda part: True) if last else partial(pays, self._graph)
        prover = Prover(
            engine, self._graph, self._label, self._taken, kernels, threads, go_on, self.precise, done, worth
        )
        for found in prover.islands():
            number = len(islands)
            island = self._island(engine, found.nodes, prover.form, number)
            island.use(found.program, threads)
            self._store.keep(f"island{number}", found.lowered)
            islands.append(island)

    def _read(self) -> Optional[list[_Part]]:
        kept = self._store.fetch("verdict")
        if kept is None:
            return None
        try:
            known = {node.index for node in self._graph.nodes}
            parts = [
                _Part(int(part["engine"]), Form(part["form"]), [int(index) for index in part["nodes"]])
                for part in parse_json(kept)
            ]
            whole = all(
                known.issuperset(part.nodes) and part.engine in range(len(self._engines)) for part in parts
            )
            return parts if whole else None
        except (ValueError, KeyError, TypeError):
            return None
