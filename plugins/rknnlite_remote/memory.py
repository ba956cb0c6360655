"""Memory of the zero-copy path that stays here: its bytes go to the board with every run, and come back."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.running import partly_bound
from rknnlite_backend.zero_copy import (
    Place,
    check_flags,
    check_size,
    closed_meanwhile,
    closed_memory,
    foreign_memory,
)

from rknnlite.errors import OutOfMemory
from rknnlite.spi import Memory
from rknnlite.tensor import TensorAttr

__all__ = ["Bindings", "BoundFrame", "RemoteMemory"]

Array = NDArray[Any]
_MOST = 0xFFFFFFFF  # the C API counts bytes in 32 bits
_Key = tuple[bool, int]


class RemoteMemory(Memory):
    """See ``rknnlite.spi.Memory``. It has no descriptor: none could be handed to a board."""

    def __init__(self, size: int, flags: int) -> None:
        check_size(size, _MOST)
        check_flags(flags)
        try:
            self._bytes: Optional[Array] = np.zeros(size, np.uint8)
        except MemoryError:
            raise OutOfMemory(f"no memory for {size} bytes; close other contexts") from None
        self.size, self.flags = size, flags
        self.users: list[weakref.ref[Bindings]] = []

    @property
    def closed(self) -> bool:
        """Whether the memory has been closed."""
        return self._bytes is None

    @property
    def ndarray(self) -> Array:
        if self._bytes is None:
            raise closed_memory()
        return self._bytes

    def close(self) -> None:
        for user in self.users:
            bindings = user()
            if bindings is not None:
                bindings.unbind(self)
        self._bytes, self.users = None, []

    def __repr__(self) -> str:
        return f"<RemoteMemory {'closed' if self.closed else f'{self.size} bytes'}>"


class BoundFrame(NamedTuple):
    """The memory of one frame, as it was bound when the frame began: inputs to send, places of results."""

    inputs: list[tuple[TensorAttr, RemoteMemory]]
    outputs: list[tuple[TensorAttr, RemoteMemory]]

    def write(self, arrays: list[Array]) -> None:
        """Put the results where they belong; raises ContextInvalid for memory that was closed meanwhile."""
        for (attr, mem), array in zip(self.outputs, arrays):
            if mem.closed:
                raise closed_meanwhile(f"output {attr.name}")
            mem.ndarray[: array.size] = array


class Bindings:
    """The memory of one context; a duplicate begins with none."""

    def __init__(self) -> None:
        self._memories: weakref.WeakSet[RemoteMemory] = weakref.WeakSet()
        self._bound: dict[_Key, tuple[TensorAttr, RemoteMemory]] = {}

    @property
    def bound(self) -> bool:
        """Whether memory is bound to any tensor."""
        return bool(self._bound)

    def create(self, size: int, flags: int) -> RemoteMemory:
        """Fresh memory of zeros; raises ParamInvalid, OutOfMemory."""
        mem = RemoteMemory(size, flags)
        mem.users.append(weakref.ref(self))
        self._memories.add(mem)
        return mem

    def mine(self, mem: Memory) -> RemoteMemory:
        """The memory, if it belongs here and is open; else ParamInvalid, ContextInvalid."""
        if not isinstance(mem, RemoteMemory) or mem not in self._memories:
            raise foreign_memory("create it with create_mem of this one")
        if mem.closed:
            raise closed_memory()
        return mem

    def bind(self, place: Place, attr: TensorAttr, mem: RemoteMemory) -> None:
        """Use ``mem`` for a tensor until it is bound anew."""
        self._bound[place.is_input, place.index] = (attr, mem)

    def unbind(self, mem: RemoteMemory) -> None:
        """A memory is closed: what it was bound to needs another before the next run."""
        for key in [key for key, (_, bound) in self._bound.items() if bound is mem]:
            del self._bound[key]

    def clear(self) -> None:
        """The shape has changed: everything is to be bound again."""
        self._bound.clear()

    def frame(self, places: list[Place]) -> BoundFrame:
        """What a frame that begins now reads and writes; raises ContextInvalid where something is missing."""
        missing = [place.label for place in places if (place.is_input, place.index) not in self._bound]
        if missing:
            raise partly_bound(missing)
        found: dict[bool, list[tuple[TensorAttr, RemoteMemory]]] = {True: [], False: []}
        for place in places:
            found[place.is_input].append(self._bound[place.is_input, place.index])
        return BoundFrame(found[True], found[False])

    def close(self) -> None:
        """Close all memory."""
        self.clear()
        for mem in list(self._memories):
            mem.close()
