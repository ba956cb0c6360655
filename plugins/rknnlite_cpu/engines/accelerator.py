"""What an engine runs of one plan: found out and proven on first use, compiled, and kept on disk for the next process."""

from __future__ import annotations

import ctypes
import json
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Optional

from rknnlite_graph.graph import Graph, Node
from rknnlite_graph.lowering import Form, Segment

from rknnlite import plugins
from rknnlite.errors import RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.log import logger
from rknnlite.native.forks import after_fork

from ..kernels.threads import share
from ..values import Array
from .engine import Engine, Kernels, Program
from .engine_cache import Store
from .partition import segment_of

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
        return self.program(share()).run(values)

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
        return plugins.lowering(self.engine.lowering).segment(self.graph, self.segment, self.form)

    def forget(self) -> None:
        """After a fork, which the threads of engines do not survive: whoever dropped a program would wait for them."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._programs))
        self._programs, self._lock = {}, threading.RLock()


_living: weakref.WeakSet[Island] = weakref.WeakSet()


def _forget_all() -> None:
    for island in list(_living):
        island.forget()


after_fork(_forget_all)


class Accelerator:
    """The islands of one graph on one engine; plans of several contexts share it.

    Args:
        label: the model, for messages.
        taken: types of nodes that custom operators have.
        precise: whether integers of 8 bits are to be the numpy kernels' to the byte.
        store: where verdicts and lowered islands are kept.
        check: raises ModelInvalid when the file of the weights was changed.
    """

    def __init__(
        self,
        engine: Engine,
        graph: Graph,
        label: str,
        taken: Collection[str],
        store: Store,
        check: Callable[[], None],
        precise: bool = True,
    ) -> None:
        self.precise = precise
        self.engine, self._graph, self._label, self._taken = engine, graph, label, frozenset(taken)
        self._store, self.check = store, check
        self._lock = threading.RLock()
        self._islands: Optional[list[Island]] = None
        self._kept = self._read()

    @property
    def late(self) -> frozenset[int]:
        """Indices of nodes that an earlier process has proven: their numpy kernels are prepared when somebody looks on."""
        return frozenset(index for part in self._kept[1] for index in part) if self._kept else frozenset()

    def without(self, op_type: str) -> Accelerator:
        """For a graph in which a custom operator has taken a type of nodes."""
        if all(node.op != op_type for node in self._graph.nodes):
            return self
        taken = {*self._taken, op_type}
        return Accelerator(
            self.engine,
            self._graph,
            self._label,
            taken,
            self._store.beside(sorted(taken)),
            self.check,
            self.precise,
        )

    def islands(self, kernels: Kernels) -> list[Island]:
        """All islands; proven against ``kernels`` on first use, unless an earlier process has done that."""
        if self._islands is None:
            with self._lock:
                if self._islands is None:
                    self._islands = self._found(kernels)
        return self._islands

    def _found(self, kernels: Kernels) -> list[Island]:
        try:
            if self._kept is None:
                return self._proven(kernels)
            form, parts = self._kept
            nodes = {node.index: node for node in self._graph.nodes}
            return [
                self._island([nodes[index] for index in part], form, number)
                for number, part in enumerate(parts)
            ]
        except RknnError:
            raise
        except Exception as error:  # whatever an engine may do: the numpy kernels are there
            logger.warning(
                "%s: the engine %s is of no use: %s: %.300s; the numpy kernels compute",
                self._label,
                self.engine.name,
                type(error).__name__,
                error,
            )
            return []

    def _island(self, nodes: Sequence[Node], form: Form, number: int) -> Island:
        inside = {node.index for node in nodes}
        others = [node for node in self._graph.nodes if node.index not in inside]
        segment = segment_of(self._graph, nodes, others)
        return Island(
            self.engine, self._graph, segment, form, self._store.loader(f"island{number}"), self.check
        )

    def _proven(self, kernels: Kernels) -> list[Island]:
        from .prover import Prover

        self.check()
        prover = Prover(self.engine, self._graph, self._label, self._taken, kernels, self.precise)
        islands = []
        for number, found in enumerate(prover.islands()):
            island = self._island(found.nodes, prover.form, number)
            island.use(found.program, share())
            self._store.keep(f"island{number}", found.lowered)
            islands.append(island)
        parts = [[node.index for node in island.segment.nodes] for island in islands]
        self._store.keep("verdict", json.dumps({"form": prover.form.value, "islands": parts}).encode())
        return islands

    def _read(self) -> Optional[tuple[Form, list[list[int]]]]:
        kept = self._store.fetch("verdict")
        if kept is None:
            return None
        try:
            found = parse_json(kept)
            known = {node.index for node in self._graph.nodes}
            parts = [[int(index) for index in part] for part in found["islands"]]
            return (Form(found["form"]), parts) if all(known.issuperset(part) for part in parts) else None
        except (ValueError, KeyError, TypeError):
            return None
