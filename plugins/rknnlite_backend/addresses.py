"""Addresses of numpy's buffers, arrays on foreign bytes, and whether there is any memory behind an address."""

from __future__ import annotations

import ctypes as ct
import functools
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["address", "is_mapped", "view"]

Array = NDArray[Any]
_from_buffer: Any = ct.c_char.from_buffer  # numpy's types tell of buffers from Python 3.12 on
_addressof = ct.addressof
_MS_ASYNC = 1
_END = 1 << (8 * ct.sizeof(ct.c_void_p))


def address(array: Array) -> int:
    """Address of the first byte of a C-contiguous array; a third of what ``array.ctypes.data`` costs."""
    try:
        return _addressof(_from_buffer(array))
    except (TypeError, ValueError):  # read-only, or empty
        return int(array.ctypes.data)


class _Region:
    """Foreign bytes that numpy can look at; whatever array is made of it keeps ``owner`` alive."""

    __slots__ = ("__array_interface__", "__weakref__", "owner")

    def __init__(self, where: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (where, False), "shape": shape, "typestr": dtype.str, "version": 3,
        }  # fmt: skip


def view(where: int, shape: tuple[int, ...], dtype: Any, owner: object = None) -> Array:
    """An array on foreign bytes; the caller says how long they stay (``owner``)."""
    return np.asarray(_Region(where, shape, np.dtype(dtype), owner))


def is_mapped(address: int, size: int) -> bool:
    """Whether this process has all ``size`` bytes at ``address``; True where the system cannot be asked.

    A wild pointer that somebody hands over is an error then, and not the end of the process.
    """
    first = address - address % mmap.PAGESIZE
    if address <= 0 or size < 0 or address + size > _END:
        return False
    msync = _msync()
    return msync is None or msync(first, address + max(size, 1) - first, _MS_ASYNC) == 0


@functools.cache
def _msync() -> Any:
    """``msync``, which writes nothing with this flag and answers an error for pages that are not there."""
    try:
        function = ct.CDLL(None).msync
    except (AttributeError, OSError, TypeError):  # a system without it
        return None
    function.argtypes, function.restype = (ct.c_void_p, ct.c_size_t, ct.c_int), ct.c_int
    return function
