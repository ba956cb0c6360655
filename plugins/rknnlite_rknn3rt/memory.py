"""Memory on a core of the coprocessor with its host side; ``sync`` moves bytes between the two.

C's object is given back when ``close`` was called (or the context closed, or nobody holds the memory any more)
*and* the last numpy view of it is gone: a view never points to memory that was given back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import view
from rknnlite_backend.zero_copy import (
    cannot_import_phys,
    check_direction,
    check_size,
    closed_memory,
    foreign_memory,
    invisible_memory,
)

from rknnlite.abi.rknn3_enums import RKNN3MemAllocFlags, RKNN3MemSyncMode
from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.spi import Memory

from .errors import Native, check
from .native_context import NativeContext

__all__ = ["Rknn3Memory", "allocate", "from_fd", "from_phys", "synchronise"]

Array = NDArray[Any]
_BYTE = np.dtype(np.uint8)
_DIRECTIONS = {
    "to_device": RKNN3MemSyncMode.RKNN3_MEMORY_SYNC_TO_DEVICE,
    "from_device": RKNN3MemSyncMode.RKNN3_MEMORY_SYNC_FROM_DEVICE,
    "both": RKNN3MemSyncMode.RKNN3_MEMORY_SYNC_BIDIRECTIONAL,
}


class Rknn3Memory(Memory):
    """One ``rknn3_tensor_mem``; see ``rknnlite.spi.Memory``. ``core_id``: the core in whose memory it lies."""

    def __init__(self, native: Native, context: NativeContext, size: int) -> None:
        struct = native.value.contents
        self._native: Native | None = native
        self.context: NativeContext | None = context
        self.pointer = native.value
        self.size = size
        self.offset = struct.offset
        self.fd = struct.fd
        self.phys = struct.phys_addr
        self.core_id = struct.core_id
        self._where = (struct.virt_addr or 0) + struct.offset

    @property
    def closed(self) -> bool:
        """Whether the memory has been closed."""
        return self._native is None or not self._native.alive

    @property
    def native(self) -> Native:
        """The object behind it; raises ContextInvalid after ``close``."""
        if self._native is None or not self._native.alive:
            raise closed_memory()
        return self._native

    @property
    def ndarray(self) -> Array:
        native = self.native
        if not self._where:
            raise invisible_memory()
        return view(self._where, (self.size,), _BYTE, native)

    def close(self) -> None:
        self._native = self.context = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes, core {self.core_id}"
        return f"<Rknn3Memory {state}>"


def allocate(
    context: NativeContext, size: int, core_id: int = 0, flags: int = 0, guard: Any = None
) -> Rknn3Memory:
    """``rknn3_create_mem``: ``flags`` are ``RKNN3MemAllocFlags``; raises OutOfMemory or ParamInvalid."""
    check_size(size)
    if flags not in list(RKNN3MemAllocFlags):
        raise ParamInvalid(
            f"memory flags {flags} are none of {[f'{f.value} {f.name}' for f in RKNN3MemAllocFlags]}"
        )
    return _wrap(context, "rknn3_create_mem", size, (size, core_id, flags), f"on core {core_id}", guard)


def from_fd(
    context: NativeContext, fd: int, address: int, size: int, offset: int, guard: Any = None
) -> Rknn3Memory:
    """``rknn3_create_mem_from_fd``; descriptor and mapping at ``address`` stay the caller's."""
    if fd < 0 or size <= 0 or offset < 0 or not address:
        raise ParamInvalid(
            f"cannot import {size} bytes from offset {offset} of file descriptor {fd} at {address:#x}"
        )
    args = (fd, address, size, offset)
    return _wrap(context, "rknn3_create_mem_from_fd", size, args, f"of file descriptor {fd}", guard)


def from_phys(context: NativeContext, phys: int, address: int, size: int, guard: Any = None) -> Rknn3Memory:
    """``rknn3_create_mem_from_phys``; the memory itself stays the caller's. Removed in later runtimes."""
    if phys <= 0 or size <= 0:
        raise cannot_import_phys(size, phys)
    args = (phys, address or None, size)
    return _wrap(context, "rknn3_create_mem_from_phys", size, args, f"at {phys:#x}", guard)


def _wrap(
    context: NativeContext, call: str, size: int, args: tuple[Any, ...], where: str, guard: Any
) -> Rknn3Memory:
    value = context.need()
    destroy = context.api.function("rknn3_destroy_mem")
    pointer = context.api.function(call)(value, *args)
    if not pointer:
        raise OutOfMemory(
            f"{call} gave no memory for {size} bytes {where}; close other contexts, or check the core"
        )
    native = Native(pointer, destroy, (value, pointer), (context.native,), guard)
    got = pointer.contents.size
    if got < size:
        native.release()
        raise OutOfMemory(f"{call} gave {got} of {size} bytes {where}")
    return Rknn3Memory(native, context, size)


def synchronise(
    context: NativeContext, mem: Memory, direction: str, offset: int = 0, length: int | None = None
) -> None:
    """``rknn3_mem_sync``, or ``rknn3_mem_sync_range`` for a part (runtime 1.0.4 and after)."""
    check_direction(direction)
    if not isinstance(mem, Rknn3Memory):
        raise ParamInvalid("this memory belongs to another backend")
    pointer = mem.native.value
    if mem.context is not context:
        raise foreign_memory("sync it there")
    if length is None and not offset:
        check("rknn3_mem_sync", context.call("rknn3_mem_sync", pointer, _DIRECTIONS[direction]))
        return
    length = mem.size - offset if length is None else length
    if offset < 0 or length <= 0 or offset + length > mem.size:
        raise ParamInvalid(
            f"bytes {offset} to {offset + length} are not inside the memory of {mem.size} bytes"
        )
    code = context.call("rknn3_mem_sync_range", pointer, _DIRECTIONS[direction], offset, length)
    check("rknn3_mem_sync_range", code)
