"""What a model file holds for the NPU: tensors with their places, nodes, command words, task records, addresses to fill in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Optional

import numpy as np
from rknnlite_graph.reading.blob_locations import parts_of

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.formats import IoTensor, Model
from rknnlite.formats.flat_model import ELEMENT_TYPES, FlatModel
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.mini import RknnMini
from rknnlite.formats.rknn6 import Rknn6
from rknnlite.formats.slots import (
    GraphSlot,
    MiniGraphSlot,
    NodePlace,
    NodeSlot,
    RootSlot,
    TensorKind,
    TensorSlot,
)
from rknnlite.tensor import DType

from .command_words import Words
from .loop_counters import LoopCounter, read_counters
from .relocations import Relocation, read_relocations
from .task import Task, read_tasks
from .weight_buffer import read_weight_buffer

__all__ = ["ACTIVATION_KINDS", "COMMAND_KINDS", "NpuNode", "NpuProgram", "NpuTensor", "read_program"]

COMMAND_KINDS = (TensorKind.TABLE, TensorKind.REGISTER_COMMANDS)
"""Tensors whose address is that of the first command word. Tasks must read and write something while they upload an activation
table: the first words, onto themselves."""
ACTIVATION_KINDS = (TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.ACTIVATION, TensorKind.HELPER)
"""Tensors that lie in the internal buffer, or in one of the caller's."""
_NOTHING = memoryview(b"")
_COUNTERS = "DynamicCMD_StackBuf"
"""Name of the tensor that loops of recurrent nodes count in."""
_ROWS = {"RKNPU lite": 8}
"""NPU family -> bytes that rows of one channel of a picture have a multiple of, where it is not 16."""


@dataclass(frozen=True)
class NpuTensor:
    """A tensor, and where it lies.

    Attributes:
        native: dimensions as the NPU keeps it, e.g. (1, C1, H, W, C2); ``shape`` are those of the network.
        size: bytes, as the file says; of activations with their padding.
        constant: its bytes lie in the weight buffer, else in the internal one.
        offset: of its first byte in that buffer; None where it lies in neither.
        content: the bytes of a constant.
        dtype: of its elements; None where the file does not say (compressed weights).
        surface: positions of a group of channels are padded to a multiple of it.
        row: bytes that rows of one channel of a picture have a multiple of.
    """

    name: str
    kind: int
    native: tuple[int, ...]
    size: int
    constant: bool = False
    offset: Optional[int] = None
    content: memoryview = _NOTHING
    dtype: Optional[DType] = None
    shape: tuple[int, ...] = ()
    surface: int = 1
    row: int = 16


@dataclass(frozen=True)
class NpuNode:
    """A node. ``tasks`` and ``table_tasks`` count its records, those that upload an activation table apart: one number for
    every core of every way of dividing the cores.
    """

    type: str
    name: str
    on_npu: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tasks: tuple[int, ...]
    table_tasks: tuple[int, ...]

    def __str__(self) -> str:
        return f'{self.type} "{self.name}"'


@dataclass(frozen=True, eq=False)
class NpuProgram:
    """All of one graph.

    Attributes:
        family: the NPU family, as the file calls it.
        inputs, outputs: tensor numbers, in the model's order; ``io`` describes them in the same order.
        first_tasks: index of the first record per legal core mask, in ascending order of cores; empty: there is one list.
        record_bytes: of all records that are stored, those that no list has among them.
        commands_offset: of the first command word in the weight buffer.
        weight_size, internal_size: bytes of the two buffers.
        moved: the words in the file hold addresses of a memory that begins with them, not bare offsets.
        batch: items that a run goes over, one after the other (``rknn_batch_size``).
        shape: index of the set of shapes; None: there is one.
        shared_internal: bytes of activations that the other sets need at most.
        other_constants: (offset, bytes) of what the graphs of the other sets have in the weight buffer, command words left out.
        counters: addresses among the constants that loops count with.
    """

    family: str
    container: int
    tensors: tuple[NpuTensor, ...]
    nodes: tuple[NpuNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    io: tuple[IoTensor, ...]
    words: Words
    tasks: tuple[Task, ...]
    record_bytes: int
    relocations: tuple[Relocation, ...]
    first_tasks: tuple[int, ...]
    commands_offset: int
    weight_size: int
    moved: bool = False
    batch: int = 1
    shape: Optional[int] = None
    shared_internal: int = 0
    other_constants: tuple[tuple[int, memoryview], ...] = ()
    counters: tuple[LoopCounter, ...] = ()

    @cached_property
    def internal_size(self) -> int:
        """Bytes of the buffer of activations: the largest end of one, for any set of shapes."""
        return max(_internal(self.tensors), self.shared_internal)

    @cached_property
    def extents(self) -> list[tuple[int, int]]:
        """(first word, number of words) of the tasks, in order; those that several tasks share once."""
        return sorted({(task.first, task.amount) for task in self.tasks})

    def tensors_of(self, numbers: Iterable[int]) -> list[NpuTensor]:
        """Those that a node names; operands that are left out are negative."""
        return [self.tensors[i] for i in numbers if 0 <= i < len(self.tensors)]

    def stored_at(self) -> list[int]:
        """The address of each tensor that the words in the file assume."""
        if not self.moved:
            return [0] * len(self.tensors)
        return [
            0 if t.kind in COMMAND_KINDS else (t.offset or 0) + (0 if t.constant else self.weight_size)
            for t in self.tensors
        ]


def read_program(model: Model, shape: Optional[int] = None) -> NpuProgram:
    """What a graph of a model holds; constants that a model lends lie behind its own.

    Args:
        shape: index of a set of shapes, in the order of ``model.shapes``; None: the one that is current after loading.

    Raises:
        ModelUnsupported: a container or model of which nobody has recorded how its commands reach the NPU, or one without any.
        ModelInvalid: damaged.
        ParamInvalid: a set of shapes that is not there.
    """
    if not isinstance(model, (Rknn6, RknnMini)):
        raise ModelUnsupported(
            f"container {model.container}: how the runtime makes command words of its commands was never recorded (the file has "
            "registers, units and addresses of each, not what ends a program, what comes first, and where it lies); convert the "
            "network again with rknn-toolkit2 1.6 or newer"
        )
    count = model.flat.count(RootSlot.GRAPHS)
    number = model.default_shape if shape is None else shape
    if not 0 <= number < count:
        raise ParamInvalid(f"shape {number}: the model has {count} sets of shapes; give 0 to {count - 1}")
    if isinstance(model, RknnMini):
        return _mini(model, list(model.flat.tables(RootSlot.GRAPHS))[number])
    return _container6(model, number)


def _container6(model: Rknn6, number: int) -> NpuProgram:
    """The graph of one set of shapes; constants of all graphs lie in one buffer."""
    buffer = read_weight_buffer(model)
    one, offsets = buffer.graphs[number], buffer.offsets[number]
    tensors, commands, words, tasks = [], 0, _NOTHING, _NOTHING
    for index, table in enumerate(one.tables):
        content = one.storage.of(index) if index in offsets else _NOTHING
        tensor = _tensor(table, offsets.get(index), content)
        tensors.append(tensor)
        if tensor.kind == TensorKind.REGISTER_COMMANDS:
            words, commands = content, offsets.get(index, 0)
        elif tensor.kind == TensorKind.TASKS:
            tasks = content
    io = tuple(chain(*model.io(number)))
    found = _program(
        model, one.graph, tensors, GraphSlot.RELOCATIONS, words, tasks, commands, buffer.size, io
    )
    if len(buffer.graphs) == 1:
        return found
    others = [graph.tables for graph in buffer.graphs if graph is not one]
    return replace(
        found,
        shape=number,
        shared_internal=max(
            _internal(_tensor(t, None, _NOTHING) for t in tables if not _stored(t)) for tables in others
        ),
        other_constants=tuple(
            part for k, parts in enumerate(buffer.constants) if k != number for part in parts
        ),
    )


def _stored(table: Table) -> bool:
    return table.has(TensorSlot.BLOB)


def _internal(tensors: Iterable[NpuTensor]) -> int:
    """The largest end of an activation."""
    ends = [t.offset + t.size for t in tensors if not t.constant and t.offset is not None]
    return max(ends, default=0)


def _mini(model: RknnMini, graph: Table) -> NpuProgram:
    """Words, helpers and weights lie one behind the other, as in the file."""
    areas = model.areas
    helpers, weights = len(areas.commands), len(areas.commands) + len(areas.helpers)
    tables = list(graph.tables(GraphSlot.TENSORS))
    storage = parts_of(model).storage(tables, ())
    tensors = []
    for index, table in enumerate(tables):
        helper = table.i8(TensorSlot.KIND) == TensorKind.HELPER
        start, area = (helpers, areas.helpers) if helper else (weights, areas.weights)
        at, size = table.i32(TensorSlot.OFFSET), table.i32(TensorSlot.BYTES)
        inside = 0 <= at <= at + size <= len(area)  # recurrent nodes name some beyond the end
        if inside and storage.has(index):
            tensors.append(_tensor(table, start + at, storage.of(index)))
        else:
            tensors.append(_tensor(table, None, _NOTHING))
    return _program(
        model,
        graph,
        tensors,
        MiniGraphSlot.RELOCATIONS,
        areas.commands,
        areas.tasks,
        0,
        weights + len(areas.weights),
        (*model.inputs, *model.outputs),
        moved=True,
    )


def _tensor(table: Table, constant_at: Optional[int], content: memoryview) -> NpuTensor:
    kind, size, offset = (table.i8(TensorSlot.KIND), *map(table.i32, (TensorSlot.BYTES, TensorSlot.OFFSET)))
    name = table.string(TensorSlot.NAME)
    if kind in ACTIVATION_KINDS and constant_at is None and (size < 0 or offset < 0):
        raise ModelInvalid(f"damaged file: tensor {name} has {size} bytes at byte {offset}")
    place = offset if kind in ACTIVATION_KINDS else None
    native = tuple(table.i32s(TensorSlot.NATIVE_DIMS).tolist())
    dtype, shape = ELEMENT_TYPES.get(table.i8(TensorSlot.TYPE)), tuple(table.i32s(TensorSlot.DIMS).tolist())
    if constant_at is not None:
        return NpuTensor(name, kind, native, len(content), True, constant_at, content, dtype, shape)
    surface = max(1, table.i32(TensorSlot.SURFACE_ALIGNMENT))
    return NpuTensor(name, kind, native, size, False, place, dtype=dtype, shape=shape, surface=surface)


def _program(
    model: FlatModel,
    graph: Table,
    tensors: list[NpuTensor],
    relocations: int,
    commands: memoryview,
    tasks: memoryview,
    commands_offset: int,
    weight_size: int,
    io: tuple[IoTensor, ...],
    moved: bool = False,
) -> NpuProgram:
    words = np.frombuffer(commands, "<u8", len(commands) // 8).astype(np.uint64, copy=False)
    if not len(words) or not len(tasks):
        raise ModelUnsupported("nothing of this model runs on the NPU: it has no command words")
    names = {tensor.name: index for index, tensor in reversed(list(enumerate(tensors))) if tensor.name}
    for index, tensor in enumerate(tensors):
        if tensor.kind == TensorKind.REGISTER_COMMANDS:
            names[""] = index
    found = read_relocations(graph.tables(relocations), names, words)
    nodes = tuple(map(_node, graph.tables(GraphSlot.NODES)))
    sources, results = (graph.i32s(slot).tolist() for slot in (GraphSlot.INPUTS, GraphSlot.OUTPUTS))
    starts = () if moved else tuple(graph.i32s(GraphSlot.FIRST_TASKS).tolist())
    records = read_tasks(tasks)
    counted = next((t for t in tensors if t.name == _COUNTERS and t.constant), None)
    place = None if counted is None or counted.offset is None else (counted.offset, counted.size)
    program = NpuProgram(
        family=model.family,
        container=model.container,
        tensors=tuple(replace(tensor, row=_ROWS.get(model.family, tensor.row)) for tensor in tensors),
        nodes=nodes,
        inputs=tuple(sources),
        outputs=tuple(results),
        io=io,
        words=words,
        tasks=records[: _used(nodes, starts, len(records))],
        record_bytes=len(tasks),
        relocations=found,
        first_tasks=starts,
        commands_offset=commands_offset,
        weight_size=weight_size,
        moved=moved,
        batch=model.batch,
        counters=() if moved else read_counters(graph, place, words),
    )
    _check_tasks(program)
    return program


def _node(table: Table) -> NpuNode:
    counts = [tuple(table.i32s(slot).tolist()) for slot in (NodeSlot.TASKS, NodeSlot.TABLE_TASKS)]
    return NpuNode(
        table.string(NodeSlot.TYPE),
        table.string(NodeSlot.NAME),
        table.i8(NodeSlot.PLACE) == NodePlace.NPU,
        tuple(table.i32s(NodeSlot.INPUTS).tolist()),
        tuple(table.i32s(NodeSlot.OUTPUTS).tolist()),
        *counts,
    )


def _used(nodes: Sequence[NpuNode], starts: Sequence[int], records: int) -> int:
    """How many records are in a list; in files with recurrent nodes uninitialised memory of the converter follows."""
    cores = {5: 3, 3: 2}.get(len(starts))
    if cores is None:
        return records
    columns = range(sum(range(cores)), sum(range(cores + 1)))
    last = sum(sum(counts[k : k + 1]) for n in nodes for counts in (n.tasks, n.table_tasks) for k in columns)
    return min(records, starts[-1] + last)


def _check_tasks(program: NpuProgram) -> None:
    """Every record's words are there, and its node is one of the NPU's; tasks share words wholly or not at all."""
    for number, task in enumerate(program.tasks):
        if task.address % 8 or not task.amount or task.first + task.amount > len(program.words):
            raise ModelInvalid(
                f"damaged file: task {number} has {task.amount} command words at byte {task.address}, of "
                f"{8 * len(program.words)} bytes"
            )
        if task.node >= len(program.nodes) or not program.nodes[task.node].on_npu:
            raise ModelInvalid(
                f"damaged file: task {number} is of node {task.node}, which the NPU does not run"
            )
    for (first, amount), (following, _) in zip(program.extents, program.extents[1:]):
        if first + amount > following:
            raise ModelInvalid(
                f"damaged file: a task of {amount} command words from word {first} on reaches into another at {following}"
            )
