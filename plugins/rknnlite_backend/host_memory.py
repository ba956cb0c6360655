"""Memory of the zero-copy path: memfds stand in for the NPU's buffers, so that they can be shared by descriptor.

A numpy view keeps the mapping alive after ``close``: nothing ever points to memory that is gone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import weakref
from collections.abc import Callable
from typing import Any, Optional, TypeVar

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.spi import Memory

from .zero_copy import cannot_import, check_flags, check_size, closed_memory

__all__ = ["HostMemory"]

Array = NDArray[Any]

_MOST = 0xFFFFFFFF  # the C API counts bytes in 32 bits
AnyMemory = TypeVar("AnyMemory", bound="HostMemory")


class HostMemory(Memory):
    """See ``rknnlite.spi.Memory``; ``place`` tells which memory it really is, whatever descriptor leads there."""

    def __init__(self, mapping: Any, size: int, offset: int, fd: int, own: bool, flags: int = 0) -> None:
        self._mapping: Any = mapping
        self.size = size
        self.offset = offset
        self.fd = fd
        self.flags = flags
        status = os.fstat(fd) if fd >= 0 else None
        self.place = (status.st_dev, status.st_ino, offset) if status else (0, id(mapping), offset)
        self.side: Any = None
        """Of ``cache_coherence``: what the NPU sees."""
        self.on_close: Optional[Callable[[Memory], None]] = None
        self._finalizer = weakref.finalize(self, os.close, fd) if own else None

    @property
    def file(self) -> tuple[int, int]:
        """Which file or mapping it lies in: the same for all that share it."""
        return self.place[:2]

    @property
    def closed(self) -> bool:
        """Whether the memory has been closed."""
        return self._mapping is None

    @property
    def mapped(self) -> Array:
        """A view of all that is mapped from ``offset`` on; it may be more than ``size``."""
        if self._mapping is None:
            raise closed_memory()
        return np.frombuffer(self._mapping, np.uint8, offset=self.offset)

    @property
    def ndarray(self) -> Array:
        if self._mapping is None:
            raise closed_memory()
        return np.frombuffer(self._mapping, np.uint8, self.size, self.offset)

    def close(self) -> None:
        if self._mapping is None:
            return
        tell, self.on_close = self.on_close, None
        if tell is not None:
            tell(self)
        self._mapping = self.side = None
        if self._finalizer is not None:
            self._finalizer()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'closed' if self.closed else f'{self.size} bytes, fd {self.fd}'}>"

    @classmethod
    def allocate(cls: type[AnyMemory], size: int, flags: int = 0) -> AnyMemory:
        """Fresh memory of zeros; raises ParamInvalid or OutOfMemory."""
        check_size(size, _MOST)
        check_flags(flags)
        try:
            if not hasattr(os, "memfd_create"):  # another system than Linux: no descriptor to share
                return cls(mmap.mmap(-1, size), size, 0, -1, own=False, flags=flags)
            fd = os.memfd_create("rknnlite")
            try:
                os.ftruncate(fd, size)
                return cls(mmap.mmap(fd, size), size, 0, fd, own=True, flags=flags)
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise OutOfMemory(f"no memory for {size} bytes: {error.strerror}; close other contexts") from None

    @classmethod
    def from_fd(cls: type[AnyMemory], fd: int, size: int, offset: int) -> AnyMemory:
        """Memory behind a descriptor, which stays the caller's; raises ParamInvalid."""
        if fd < 0 or size <= 0 or offset < 0 or size + offset > _MOST:
            raise cannot_import(size, offset, fd)
        try:
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode) and status.st_size < size + offset:
                raise ParamInvalid(
                    f"file descriptor {fd} holds {status.st_size} bytes, {size + offset} were to be imported"
                )
            return cls(mmap.mmap(fd, size + offset), size, offset, fd, own=False)
        except (OSError, ValueError) as error:
            raise ParamInvalid(f"file descriptor {fd} cannot be mapped: {error}") from None

    @classmethod
    def from_address(cls: type[AnyMemory], where: int, size: int, phys: int) -> AnyMemory:
        """Memory that is the caller's, at a virtual address; raises ParamInvalid."""
        from rknnlite_backend.addresses import is_mapped

        if not 0 < size <= _MOST or not is_mapped(where, size):
            raise ParamInvalid(f"cannot import {size} bytes at {where:#x}: they are not this process's")
        memory = cls((ctypes.c_uint8 * size).from_address(where), size, 0, -1, own=False)
        memory.phys, memory.place = phys, (0, where, 0)
        return memory
