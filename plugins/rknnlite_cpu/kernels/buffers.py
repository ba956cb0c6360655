"""Memory for float32 arrays that is used again.

Fresh memory from the system costs a page fault every 4 KiB: on the planes of a network that takes longer than most
arithmetic on them (a third of MobileNetV2's time, measured). An array from :func:`empty` gives its memory back when
the last view of it is gone, and a later one takes it over. Little is kept idle, and none when a context has closed.
"""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_left
from collections import deque
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["empty", "trim"]

Array = NDArray[Any]

_SMALLEST, _LARGEST = 1 << 14, 1 << 21
"""Elements. Smaller arrays come from the heap without faults; larger ones would keep too much memory idle."""
_IDLE = 1 << 23
"""Elements kept idle at most: 32 MiB."""
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""Otherwise a forked child would write into its parent's arrays."""
_FIT = 4
"""An array takes no block of more than so many times its size."""


class _Block:
    """Memory straight from the system; from the heap, a block between others would not go back when it is dropped."""

    __slots__ = ("_memory", "interface", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._memory = np.frombuffer(mmap.mmap(-1, size * 4, **_PRIVATE), np.float32)
        self.interface = self._memory.__array_interface__


class _Idle:
    """Blocks that nobody uses, shared by all threads.

    A block may come back at any time, by the garbage collector in the middle of another call as well. So it goes to
    ``returned`` without waiting for anybody; the sorted blocks change only in the hands of who has the lock.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.returned: deque[_Block] = deque()
        self.sizes: list[int] = []
        self.blocks: list[_Block] = []  # in the order of their sizes
        self.elements = 0  # of all sorted blocks

    def clear(self) -> None:
        """Drop all."""
        with self.lock:
            self.returned.clear()
            self.sizes.clear()
            self.blocks.clear()
            self.elements = 0


_idle = _Idle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.__init__)  # type: ignore[misc]


class _Loan:
    """Owner of a block while arrays look at it; numpy keeps it alive as their base."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: _Block, shape: tuple[int, ...]) -> None:
        self._block = block
        self.__array_interface__ = {**block.interface, "shape": shape}

    def __del__(self) -> None:
        """Keep the block, unless many are idle; what came back during another call is kept with the next."""
        _idle.returned.append(self._block)
        if not _idle.lock.acquire(False):
            return
        try:
            while _idle.returned:
                block = _idle.returned.popleft()
                if _idle.elements + block.size <= _IDLE:
                    at = bisect_left(_idle.sizes, block.size)
                    _idle.sizes.insert(at, block.size)
                    _idle.blocks.insert(at, block)
                    _idle.elements += block.size
        finally:
            _idle.lock.release()


def empty(shape: tuple[int, ...]) -> Array:
    """An uninitialised float32 array, writable and contiguous.

    It takes the smallest idle block that fits; without one a new one, in the place of the largest that is too small.
    """
    elements = prod(shape)
    if not _SMALLEST <= elements <= _LARGEST:
        return np.empty(shape, np.float32)
    block = None
    with _idle.lock:
        at = bisect_left(_idle.sizes, elements)
        if at < len(_idle.sizes) and _idle.sizes[at] <= _FIT * elements:
            _idle.elements -= _idle.sizes.pop(at)
            block = _idle.blocks.pop(at)
        elif at:
            _idle.elements -= _idle.sizes.pop(at - 1)
            del _idle.blocks[at - 1]
    return np.asarray(_Loan(block or _Block(elements), shape))


def trim() -> None:
    """Give idle memory back to the system; arrays in use are not touched."""
    _idle.clear()
