"""Container version 6 (toolkits 1.6 to 2.5): blobs in the root table, register commands in two constants of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .flat_model import FlatModel, attributes_of, metadata
from .flatbuffer import root
from .frame import CURRENT, HEADER, trailer
from .slots import RootSlot

if TYPE_CHECKING:
    pass

__all__ = ["Rknn6", "read"]


class Rknn6(FlatModel):
    """A model in container version 6."""

    complete_attributes: ClassVar[bool] = True


def read(data: memoryview, version: int = CURRENT) -> Rknn6:
    """Read the metadata; the graph is built later, on demand. Raises ModelInvalid."""
    payload, stub = trailer(data, HEADER)
    flat = root(payload, b"RKNN")
    return metadata(flat, stub, len(data), attributes_of(flat.string(RootSlot.NOTES)), Rknn6, version)
