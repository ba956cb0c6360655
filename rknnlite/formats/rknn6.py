"""Container version 6 (toolkits 1.6 to 2.5): blobs in the root table, register commands in two constants of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from .flat_model import FlatModel, attributes_of, metadata
from .flatbuffer import Table, root
from .frame import CURRENT, HEADER, trailer
from .model import NO_ATTRIBUTES, Attributes
from .registers import RegisterProgram
from .slots import RootSlot
from .storage import Storage

if TYPE_CHECKING:
    from ..graph import Graph

__all__ = ["Rknn6", "read"]


class Rknn6(FlatModel):
    """A model in container version 6."""

    complete_attributes: ClassVar[bool] = True

    def graph(self, index: int = 0, attributes: Attributes = NO_ATTRIBUTES) -> Graph:
        from .builder import build_graph

        return build_graph(self, index, attributes)

    def storage(self, tables: list[Table], first: Iterable[Table]) -> Storage:
        """The bytes of the tensors of a graph."""
        return Storage(list(self.flat.tables(RootSlot.BLOBS)), tables, first)

    def program(self, storage: Storage, graph: Table) -> RegisterProgram:
        """The register commands of a graph: those for one core."""
        return RegisterProgram.from_tasks(*storage.commands())


def read(data: memoryview, version: int = CURRENT) -> Rknn6:
    """Read the metadata; the graph is built later, on demand. Raises ModelInvalid."""
    payload, stub = trailer(data, HEADER)
    flat = root(payload, b"RKNN")
    return metadata(flat, stub, len(data), attributes_of(flat.string(RootSlot.NOTES)), Rknn6, version)
