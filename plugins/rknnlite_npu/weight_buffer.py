"""Where the constants of container 6 lie: one behind the other in the order of their blobs, command words and records among them.

A model for several sets of shapes has a graph for each. What the file says of its own memory (root slot 19: bytes of weights, of
activations, of helpers) counts the constants of all its graphs, those that they share once, and the activations of the
largest: so they lie in one buffer, and blobs are numbered through all graphs. Measured: 8 files with two and three graphs.
Constants that another model lends lie behind them, which nobody has recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from rknnlite_graph.reading.blob_locations import lent, parts_of
from rknnlite_graph.reading.tensor_storage import Storage

from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.rknn6 import Rknn6
from rknnlite.formats.slots import GraphSlot, RootSlot, TensorKind, TensorSlot

__all__ = ["ALIGNMENT", "Graph6", "WeightBuffer", "read_weight_buffer"]

ALIGNMENT = 64
"""Bytes: constants begin at multiples of it."""


@dataclass(frozen=True)
class Graph6:
    """A graph and its tensors; ``storage`` has the bytes of its constants."""

    graph: Table
    tables: list[Table]
    storage: Storage


@dataclass(frozen=True)
class WeightBuffer:
    """Attributes:
    graphs: one for each set of shapes.
    offsets: of each, index of a tensor -> where it begins.
    constants: of each, (offset, bytes) of those that are its own, without command words and records.
    size: bytes of all.
    """

    graphs: tuple[Graph6, ...]
    offsets: tuple[dict[int, int], ...]
    constants: tuple[tuple[tuple[int, memoryview], ...], ...]
    size: int


def read_weight_buffer(model: Rknn6) -> WeightBuffer:
    """Place every constant. Raises ModelInvalid."""
    graphs: list[Graph6] = []
    for graph in model.flat.tables(RootSlot.GRAPHS):
        tables = list(graph.tables(GraphSlot.TENSORS))
        first = graphs[0].tables if graphs else ()
        storage = parts_of(model).storage(tables, first)
        if model.master is not None:
            storage.borrow(lent(model.master))
        graphs.append(Graph6(graph, tables, storage))
    offsets, parts, size = _after_each_other(graphs)
    constants = tuple(
        tuple((at, one.storage.of(index)) for index, at in mine.items() if _constant(one.tables[index]))
        for one, mine in zip(graphs, parts)
    )
    return WeightBuffer(tuple(graphs), tuple(offsets), constants, size)


def _constant(table: Table) -> bool:
    """Whether a tensor is no command words and no records, which hold addresses."""
    return table.i8(TensorSlot.KIND) not in (TensorKind.REGISTER_COMMANDS, TensorKind.TASKS)


def _after_each_other(
    graphs: list[Graph6],
) -> tuple[list[dict[int, int]], list[dict[int, int]], int]:
    """Per graph the offset of each constant by its tensor, shared ones among them; the same of its own; bytes of all."""
    numbered = sorted(
        (table.i32(TensorSlot.BLOB), number, index)
        for number, one in enumerate(graphs)
        for index, table in enumerate(one.tables)
        if one.storage.has(index)
    )
    own: list[dict[int, int]] = [{} for _ in graphs]
    taken: dict[int, int] = {}
    end = 0
    for blob, number, index in numbered:
        if blob not in taken:
            taken[blob] = end
            end += -(-len(graphs[number].storage.of(index)) // ALIGNMENT) * ALIGNMENT
        own[number][index] = taken[blob]
    kept = (
        {graphs[0].tables[index].string(TensorSlot.NAME): at for index, at in own[0].items()} if own else {}
    )
    offsets = [dict(mine) for mine in own]
    for one, mine in zip(graphs[1:], offsets[1:]):
        for index, table in enumerate(one.tables):
            name = table.string(TensorSlot.NAME)
            if (
                index not in mine
                and table.has(TensorSlot.BLOB)
                and name in kept
                and len(one.storage.of(index))
            ):
                mine[index] = kept[name]
    for one, mine in zip(graphs, offsets):
        for index, table in enumerate(one.tables):
            borrowed = index not in mine and table.i8(TensorSlot.KIND) in TensorKind.CONSTANTS
            if borrowed and len(one.storage.of(index)):
                mine[index] = end
                end += -(-len(one.storage.of(index)) // ALIGNMENT) * ALIGNMENT
    return offsets, own, end
