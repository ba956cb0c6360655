"""``rknn_tensor_mem`` for programs that share memory with contexts where no vendor library computes."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass
from typing import Any

from rknnlite.abi.rknn_api import MemSource
from rknnlite.abi.rknn_op import TensorMem
from rknnlite.errors import ParamInvalid
from rknnlite.spi import Context, Memory

from .pointers import address

__all__ = ["CMemories", "CMemory"]


@dataclass
class CMemory:
    """One buffer: the structure that the program sees, and what it stands for."""

    struct: TensorMem
    memory: Memory
    owner: Context
    view: Any
    """Keeps the bytes where ``virt_addr`` says until the program destroys the memory."""


class CMemories:
    """All memory of the contexts of one library, found by the address of its structure, which is never read."""

    def __init__(self) -> None:
        self._known: dict[int, CMemory] = {}

    def add(self, owner: Context, memory: Memory, virtual: int, source: MemSource) -> Any:
        """The pointer for the program. ``virtual`` is the program's own mapping; 0: ours is told."""
        view = memory.ndarray
        base = virtual or view.ctypes.data - memory.offset
        struct = TensorMem(
            virt_addr=base,
            phys_addr=memory.phys,
            fd=memory.fd,
            offset=memory.offset,
            size=memory.size,
            flags=source,
        )
        self._known[ct.addressof(struct)] = CMemory(struct, memory, owner, view)
        return ct.pointer(struct)

    def find(self, pointer: Any) -> CMemory:
        """The memory that is meant; raises ParamInvalid for one that was destroyed, or never was."""
        where = address(pointer)
        if where not in self._known:
            raise ParamInvalid(
                f"there is no rknn_tensor_mem at {where:#x}: it was destroyed, or is none of rknn_create_mem"
            )
        return self._known[where]

    def destroy(self, pointer: Any) -> None:
        """Give the buffer back; the structure leads nowhere afterwards."""
        found = self.find(pointer)
        del self._known[ct.addressof(found.struct)]
        found.struct.virt_addr, found.struct.size, found.struct.fd = None, 0, -1
        found.memory.close()
