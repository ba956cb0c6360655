"""Where the blobs of tensors and the register commands of a graph lie: one class and one row per container."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats.flat_model import FlatModel
from rknnlite.formats.flatbuffer import Table
from rknnlite.formats.model import Model
from rknnlite.formats.slots import (
    ClassicNodeSlot,
    ClassicRootSlot,
    CommandSlot,
    GraphSlot,
    RootSlot,
    TensorKind,
    TensorSlot,
)

from .registers import RegisterProgram
from .tensor_storage import Storage, check_overlap

if TYPE_CHECKING:
    from rknnlite.formats.mini import Areas, RknnMini

__all__ = ["AreaStorage", "Parts", "lent", "parts_of"]

_ONE_CORE = 1
_NO_TABLE = -1  # as good as 0
_BYTES_PER_COMMAND = 24  # no command takes less of a genuine file
_WEIGHT_KINDS = (TensorKind.WEIGHT, TensorKind.OPERAND)


class Parts(ABC):
    """The parts of one model."""

    def __init__(self, model: FlatModel) -> None:
        self.model = model

    @abstractmethod
    def storage(self, tables: list[Table], first: Iterable[Table]) -> Storage:
        """The bytes of the tensors of a graph; ``first``: tensors of the graph that owns shared weights."""

    def program(self, storage: Storage, graph: Table) -> RegisterProgram:
        """The register commands of a graph: those for one core."""
        return RegisterProgram.from_tasks(*storage.commands())


class _Parts6(Parts):
    """Version 6: blobs in the root table, commands in two constants of a graph."""

    def storage(self, tables: list[Table], first: Iterable[Table]) -> Storage:
        return Storage(list(self.model.flat.tables(RootSlot.BLOBS)), tables, first)


class _ClassicParts(Parts):
    """Versions 1 to 5: blobs in another slot; every node lists its commands, each with blobs of its own."""

    def storage(self, tables: list[Table], first: Iterable[Table]) -> Storage:
        late = self.model.flat.has(ClassicRootSlot.BLOBS)
        slot = ClassicRootSlot.BLOBS if late else ClassicRootSlot.OLD_BLOBS
        return Storage(list(self.model.flat.tables(slot)), tables, first)

    def program(self, storage: Storage, graph: Table) -> RegisterProgram:
        """The single-core commands of every node, activation tables before the registers that use them."""
        blobs: list[tuple[int, memoryview]] = []
        known, count = graph.count(GraphSlot.TENSORS), 0
        for index, node in enumerate(graph.tables(GraphSlot.NODES)):
            count += node.count(ClassicNodeSlot.COMMANDS)
            if count * _BYTES_PER_COMMAND > self.model.file_size:
                raise ModelInvalid(f"damaged file: {count} commands and more in {self.model.file_size} bytes")
            for command in node.tables(ClassicNodeSlot.COMMANDS):
                if command.i8(CommandSlot.CORE_MASK) > _ONE_CORE:
                    continue
                words, table = command.i32(CommandSlot.WORDS), command.i32(CommandSlot.TABLE)
                if not (0 < words < known and _NO_TABLE <= table < known):
                    raise ModelInvalid(
                        f'node {node.string(ClassicNodeSlot.TYPE)} "{node.string(ClassicNodeSlot.NAME)}": its commands '
                        f"name the tensors {words} and {table} (there are {known})"
                    )
                if table > 0:
                    blobs.append((index, storage.of(table)))
                blobs.append((index, storage.of(words)))
        return RegisterProgram.from_blobs(blobs) if count else super().program(storage, graph)


class _MiniParts(Parts):
    """The mini format: constants by an offset into their area; one core, every task counts."""

    model: RknnMini

    def storage(self, tables: list[Table], first: Iterable[Table]) -> Storage:
        return AreaStorage(tables, self.model.areas)

    def program(self, storage: Storage, graph: Table) -> RegisterProgram:
        return RegisterProgram.from_tasks(*storage.commands(), cores=False)


class AreaStorage(Storage):
    """Bytes of the tensors of a graph, found by offset and size inside an area."""

    def __init__(self, tables: list[Table], areas: Areas) -> None:
        super().__init__([], tables)
        self._areas = areas
        for kinds in (_WEIGHT_KINDS, (TensorKind.HELPER,)):
            parts = [table for table in tables if table.i8(TensorSlot.KIND) in kinds]
            check_overlap((table.i32(TensorSlot.OFFSET), table.i32(TensorSlot.BYTES)) for table in parts)

    def of(self, index: int) -> memoryview:
        """The bytes of tensor ``index``. Raises ModelInvalid when they leave their area."""
        table = self._tables[index]
        kind, name = table.i8(TensorSlot.KIND), table.string(TensorSlot.NAME)
        size, offset = table.i32(TensorSlot.BYTES), table.i32(TensorSlot.OFFSET)
        area = self._areas.helpers if kind == TensorKind.HELPER else self._areas.weights
        if kind not in TensorKind.CONSTANTS:
            raise ModelInvalid(f"tensor {name} of kind {kind} is no constant")
        if size < 0 or offset < 0 or offset + size > len(area):
            raise ModelInvalid(
                f"constant {name}: {size} bytes at byte {offset} leave their area of {len(area)} bytes"
            )
        return area[offset : offset + size]

    def absent(self, index: int) -> bool:
        """Whether constant ``index`` stands for an operand that is not given: it has no bytes, and is no weight
        (those can be removed)."""
        table = self._tables[index]
        return table.i8(TensorSlot.KIND) != TensorKind.WEIGHT and not table.i32(TensorSlot.BYTES)

    def has(self, index: int) -> bool:
        """Whether tensor ``index`` is a constant with bytes."""
        table = self._tables[index]
        return table.i8(TensorSlot.KIND) in TensorKind.CONSTANTS and table.i32(TensorSlot.BYTES) > 0

    def commands(self) -> tuple[memoryview, memoryview]:
        """(task records, register commands) of the graph."""
        return self._areas.tasks, self._areas.commands


_PARTS: dict[str, type[Parts]] = {"Rknn6": _Parts6, "RknnClassic": _ClassicParts, "RknnMini": _MiniParts}
"""By the class of the model: its module is there when such a file has been read, and only then."""


def parts_of(model: FlatModel) -> Parts:
    """The parts of a model, by its container."""
    return _PARTS[type(model).__name__](model)


def lent(master: Model) -> Storage:
    """The bytes of the first graph of a model, for one whose weights were removed. Raises ModelUnsupported."""
    if not isinstance(master, FlatModel):
        raise ModelUnsupported("a model of this kind lends no weights")
    first = next(iter(master.flat.tables(RootSlot.GRAPHS)))
    return parts_of(master).storage(list(first.tables(GraphSlot.TENSORS)), ())
