"""Finds the islands of a graph, and proves each before it is used.

The nodes of an island are lowered with all their results to look at, some at a time, and run on random data of the island's
own input ranges; every node is judged alone against its numpy kernel on the engine's own operands. One that differs is
left to numpy, and what remains of its island is proven anew. Last, the island as it will run must give what its nodes gave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rknnlite_graph.graph import MARKERS, Graph, Node, TensorRole
from rknnlite_graph.lowering import Form, NotLowered, Segment
from rknnlite_graph.operators import operator_of

from rknnlite.errors import RknnError
from rknnlite.log import logger

from ..kernels.buffers import give_back_heap, trim
from ..kernels.threads import share
from ..values import Array
from .engine import Engine, Kernels, Program, Stopped
from .partition import islands_of, segment_of
from .proof import agrees, random_value

__all__ = ["Found", "Prover"]

_MOST_ELEMENTS = 1 << 21
"""Of the results that are looked at together, and of the weights behind them with their copies: 8 MiB."""
_COPIES = 4
_CHECKED = (
    "Gather",
    "GatherElements",
    "GatherND",
    "ScatterND",
    "ScatterElements",
    "Scatter",
    "OneHot",
    "RoiAlign",
    "MaxRoiPool",
    "MaxUnpool",
)
"""Read places that the caller's data may give: the numpy kernels say what is wrong with them."""


@dataclass(frozen=True)
class Found:
    """An island that is proven."""

    nodes: Sequence[Node]
    program: Program
    lowered: bytes


class Prover:
    """See the module.

    Args:
        done: indices of nodes that another engine has.
        pays: says of a run of nodes whether this engine is to have it.
    """

    def __init__(
        self,
        engine: Engine,
        graph: Graph,
        label: str,
        taken: Collection[str],
        kernels: Kernels,
        threads: int,
        go_on: Callable[[], None],
        precise: bool = True,
        done: Collection[int] = (),
        pays: Callable[[Sequence[Node]], bool] = lambda part: True,
    ) -> None:
        self._engine, self._graph, self._label, self._kernels = engine, graph, label, kernels
        self._threads, self._go_on = threads, go_on
        self._precise, self._pays = precise, pays
        self._lowering = engine.lowering
        self.form: Form = engine.form if precise else engine.form.near
        self._lowered = {
            node.index for node in graph.nodes if node.index not in done and self._may_be(node, taken)
        }
        self._random = np.random.default_rng(20)

    def islands(self) -> Iterator[Found]:
        """Every island that holds."""
        nodes = [node for node in self._graph.nodes if node.op not in MARKERS]
        ahead = islands_of(nodes, self._lowered)
        while ahead:
            part = ahead.pop(0)
            if not self._pays(part):
                continue
            left = self._differing(part)
            if isinstance(left, Found):
                yield left
            else:
                self._lowered -= left
                ahead[:0] = islands_of(part, self._lowered)

    def _may_be(self, node: Node, taken: Collection[str]) -> bool:
        """Whether a node is one for engines at all; the proof has the last word."""
        if node.op in taken or node.index not in self._kernels or node.op in MARKERS:
            return False
        tensors = self._graph.tensors
        live = [i for i in node.inputs if i >= 0 and tensors[i].role is not TensorRole.CONST]
        if node.op in _CHECKED and set(live) & set(node.inputs[1:]):
            return False
        row = operator_of(node.op)
        if row is not None and row.partial and any(tensors[i].quant is not None for i in node.outputs):
            return False  # the numpy kernels warn of a NaN
        stage = node.stage
        if stage is not None and stage.by_table and node.conv is None:
            return False
        return bool(live) and not self._lowering.why_not(self._graph, node, self.form)

    def _differing(self, part: Sequence[Node]) -> Found | set[int]:
        """The island, or the indices of the nodes that it cannot have."""
        inside = {node.index for node in part}
        segment = segment_of(self._graph, part, [n for n in self._graph.nodes if n.index not in inside])
        entering = {i: random_value(self._graph.tensors[i], self._random) for i in segment.inputs}
        values, found = dict(entering), set[int]()
        for chunk in self._chunks(part):
            bad = self._judged(chunk, part, values, segment.outputs)
            found |= bad
            if bad:
                return found
        try:
            self._go_on()
            lowered = self._engine.prepared(self._lowering.segment(self._graph, segment, self.form))
            self._go_on()
            names = [segment.tensor_name(i) for i in segment.outputs]
            program = self._engine.compile(lowered, names, self._threads)
            results = program.run([entering[i] for i in segment.inputs])
        except (RknnError, Stopped):
            raise
        except Exception as error:
            self._say(part[0], f"{len(part)} nodes from there on: {type(error).__name__}: {error!s:.300}")
            return inside
        if all(
            np.array_equal(a, values[i], equal_nan=a.dtype.kind == "f")
            for a, i in zip(results, segment.outputs)
        ):
            return Found(part, program, lowered)
        self._say(part[0], f"{len(part)} nodes from there on give other results together than one by one")
        return inside

    def _chunks(self, part: Sequence[Node]) -> Iterator[list[Node]]:
        """Nodes whose results fit the memory that a proof may take."""
        chunk: list[Node] = []
        elements = 0
        for node in part:
            size = sum(int(np.prod(self._graph.tensors[i].shape)) for i in node.outputs) + self._weights(node)
            if chunk and elements + size > _MOST_ELEMENTS:
                yield chunk
                chunk, elements = [], 0
            chunk.append(node)
            elements += size
        yield chunk

    def _weights(self, node: Node) -> int:
        """Numbers that the lowered node holds; while a session is made they lie in memory several times."""
        tensors = self._graph.tensors
        own = 0 if node.conv is None else int(np.prod(node.conv.weight_shape))
        stored = (tensors[i] for i in node.inputs if i >= 0 and tensors[i].role is TensorRole.CONST)
        return _COPIES * (own + sum(int(np.prod(tensor.shape)) for tensor in stored))

    def _judged(
        self, chunk: Sequence[Node], part: Sequence[Node], values: dict[int, Array], wanted: Sequence[int]
    ) -> set[int]:
        """Indices of the nodes of a chunk that differ; its results are added to ``values``, what nobody reads is dropped."""
        made = [index for node in chunk for index in node.outputs]
        segment = Segment(tuple(chunk), segment_of(self._graph, chunk, ()).inputs, tuple(made))
        try:
            self._go_on()
            lowered = self._lowering.segment(self._graph, segment, self.form)
            self._go_on()
            names = [segment.tensor_name(i) for i in made]
            program = self._engine.compile(lowered, names, share())
            results = program.run([values[i] for i in segment.inputs])
        except NotLowered as error:
            self._say(error.node or chunk[0], str(error))
            return {error.node.index} if error.node is not None else {node.index for node in chunk}
        except (RknnError, Stopped):
            raise
        except Exception as error:
            return self._unable(chunk, error)
        values.update(zip(made, results))
        bad = {node.index for node in chunk if not self._agrees(node, values)}
        last = part.index(chunk[-1])
        needed = {i for node in part[last + 1 :] for i in node.inputs} | set(wanted)
        for index in [i for i in values if i not in needed]:
            del values[index]
        del program, results, lowered
        trim()
        give_back_heap()  # else the parts of sessions lie between those of the next
        return bad

    def _unable(self, chunk: Sequence[Node], error: Exception) -> set[int]:
        """An engine that cannot compile or run: without the node that it names, else without all of them."""
        text = str(error)
        named = {node.index for node in chunk if node.name and f"{node.name}/" in text}
        self._say(chunk[0], f"a part from there on: {type(error).__name__}: {text:.300}")
        return named or {node.index for node in chunk}

    def _agrees(self, node: Node, values: dict[int, Array]) -> bool:
        tensors = self._graph.tensors
        live = [i for i in node.inputs if i >= 0 and tensors[i].role is not TensorRole.CONST]
        self._go_on()
        with np.errstate(all="ignore"):  # random data may well be infinite somewhere
            expected = self._kernels[node.index]([values[i] for i in live])
        if agrees(self._graph, node, expected, [values[i] for i in node.outputs], self._precise):
            return True
        self._say(node, "other bytes than those of the numpy kernel")
        return False

    def _say(self, node: Node, why: str) -> None:
        logger.info(
            "%s: node %s is not for the engine %s: %s", self._label, node.label(), self._engine.name, why
        )
