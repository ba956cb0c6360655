"""Memory that NPU and program share: allocated by the runtime, or imported by descriptor or address.

The runtime's object is given back when ``close`` was called (or the context closed, or nobody holds the memory
any more) *and* the last numpy view of it is gone: a view never points to memory that was given back.
"""

from __future__ import annotations

import ctypes as ct
import os
import stat
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import view
from rknnlite_backend.zero_copy import (
    cannot_import,
    cannot_import_phys,
    check_size,
    closed_memory,
    invisible_memory,
)

from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.spi import Memory

from . import abi
from .errors import Native
from .loader import Library

__all__ = ["RknnrtMemory", "allocate", "from_fd", "from_phys", "without_context"]

Array = NDArray[Any]
_BYTE = np.dtype(np.uint8)
_UINT32 = 0xFFFFFFFF
_PROT_READ_WRITE, _MAP_SHARED = 3, 1


def _nobody() -> None:
    return None


class RknnrtMemory(Memory):
    """One ``rknn_tensor_mem``; see ``rknnlite.spi.Memory``."""

    def __init__(self, native: Native, size: int) -> None:
        struct = native.value.contents
        self._native: Native | None = native
        self._user: Callable[[], Any] = _nobody
        self._where = (struct.virt_addr or 0) + struct.offset
        self.pointer = native.value
        self.size = size
        self.offset = struct.offset
        self.fd = struct.fd
        self.phys = struct.phys_addr
        self.flags = struct.flags

    @property
    def closed(self) -> bool:
        """Whether the memory has been closed."""
        return self._native is None or not self._native.alive

    @property
    def native(self) -> Native:
        """The object behind it; raises ContextInvalid after ``close``."""
        self.require()
        assert self._native is not None
        return self._native

    def require(self) -> Any:
        """The pointer for a call; raises ContextInvalid after ``close``."""
        if self.closed:
            raise closed_memory()
        return self.pointer

    @property
    def ndarray(self) -> Array:
        self.require()
        if not self._where:
            raise invisible_memory()
        return view(self._where, (self.size,), _BYTE, self._native)

    @property
    def address(self) -> int:
        """Virtual address of the first byte, 0 where the CPU cannot see it."""
        return int(self._where)

    def belongs_to(self, context: Any) -> None:
        """``context.unbind`` shall be called when the memory is closed."""
        self._user = weakref.ref(context)

    def close(self) -> None:
        native, self._native = self._native, None
        context = self._user()
        if native is not None and context is not None:
            context.unbind(self)  # before C loses it: waits for a run in another thread

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes, fd {self.fd}"
        return f"<RknnrtMemory {state}>"


def allocate(
    library: Library, context: int, size: int, flags: int, parents: tuple[Any, ...], guard: Any
) -> RknnrtMemory:
    """``rknn_create_mem``, or ``rknn_create_mem2`` where flags or more than 4 GiB are asked for."""
    check_size(size)
    if flags or size > _UINT32:
        name = "rknn_create_mem2"
        pointer = library.function(name)(context, size, flags)
    else:
        name = "rknn_create_mem"
        pointer = library.function(name)(context, size)
    return _wrap(library, context, pointer, name, size, parents, guard)


def from_fd(
    library: Library, context: int, fd: int, size: int, offset: int, parents: tuple[Any, ...], guard: Any
) -> RknnrtMemory:
    """``rknn_create_mem_from_fd`` on a mapping of our own, which goes when the memory goes."""
    if fd < 0 or size <= 0 or offset < 0 or size + offset > _UINT32:
        raise cannot_import(size, offset, fd)
    mapping = _map(fd, size + offset)
    try:
        function = library.function("rknn_create_mem_from_fd")
        pointer = function(context, fd, mapping.value, size, offset)
        return _wrap(library, context, pointer, "rknn_create_mem_from_fd", size, (*parents, mapping), guard)
    except BaseException:
        mapping.release()
        raise


def from_phys(
    library: Library, context: int, phys: int, virtual: int, size: int, parents: tuple[Any, ...], guard: Any
) -> RknnrtMemory:
    """``rknn_create_mem_from_phys``; the memory itself stays the caller's."""
    if phys <= 0 or not 0 < size <= _UINT32:
        raise cannot_import_phys(size, phys)
    pointer = library.function("rknn_create_mem_from_phys")(context, phys, virtual or None, size)
    return _wrap(library, context, pointer, "rknn_create_mem_from_phys", size, parents, guard)


def without_context(library: Library, size: int) -> RknnrtMemory:
    """Memory that belongs to no context, for a model buffer that the NPU reads in place."""
    flags = abi.MemAlloc.CACHEABLE | abi.MemAlloc.NO_CONTEXT
    return allocate(library, 0, size, flags, (), None)


def _wrap(
    library: Library, context: int, pointer: Any, call: str, size: int, parents: tuple[Any, ...], guard: Any
) -> RknnrtMemory:
    if not pointer:
        raise OutOfMemory(
            f"{call} gave no memory for {size} bytes; close other contexts, or check the argument"
        )
    native = Native(pointer, library.function("rknn_destroy_mem"), (context, pointer), parents, guard)
    got = pointer.contents.size
    if got < min(size, _UINT32):
        native.release()
        raise OutOfMemory(f"{call} gave {got} of {size} bytes")
    return RknnrtMemory(native, size)


def _libc() -> Any:
    libc = ct.CDLL(None, use_errno=True)
    libc.mmap.restype = ct.c_void_p
    libc.mmap.argtypes = (ct.c_void_p, ct.c_size_t, ct.c_int, ct.c_int, ct.c_int, ct.c_long)
    libc.munmap.argtypes = (ct.c_void_p, ct.c_size_t)
    return libc


def _map(fd: int, length: int) -> Native:
    """Map a descriptor. By hand: Python's mmap refuses dma-bufs, whose files report no size."""
    try:
        status = os.fstat(fd)
    except OSError as error:
        raise ParamInvalid(f"file descriptor {fd} cannot be used: {error.strerror}") from None
    if stat.S_ISREG(status.st_mode) and 0 < status.st_size < length:  # an access past the end would kill us
        raise ParamInvalid(f"file descriptor {fd} holds {status.st_size} bytes, {length} were to be imported")
    libc = _libc()
    where = libc.mmap(None, length, _PROT_READ_WRITE, _MAP_SHARED, fd, 0)
    if where == ct.c_void_p(-1).value:
        raise ParamInvalid(f"file descriptor {fd} cannot be mapped: {_errno_text()}")
    return Native(where, libc.munmap, (where, length))


def _errno_text() -> str:
    return os.strerror(ct.get_errno())
