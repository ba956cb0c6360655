"""Whether there is memory behind an address that somebody hands over: a wild pointer is an error then, not the end."""

from __future__ import annotations

import ctypes as ct
import functools
import mmap
from typing import Any

__all__ = ["is_mapped"]

_MS_ASYNC = 1
_END = 1 << (8 * ct.sizeof(ct.c_void_p))


def is_mapped(address: int, size: int) -> bool:
    """Whether this process has all ``size`` bytes at ``address``; True where the system cannot be asked."""
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
