"""Memory for float32 arrays that is used again.

Fresh memory from the system costs a page fault every 4 KiB: on the planes of a network that takes longer than most
arithmetic on them (a third of MobileNetV2's time, measured). An array from :func:`empty` gives its memory back when
the last view of it is gone, and a later one takes it over. Little is kept idle, and none when a context has closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import mmap
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.native.forks import after_fork

__all__ = ["empty", "give_back_heap", "maker", "trim"]

Array = NDArray[Any]

_SMALLEST, _LARGEST = 1 << 14, 1 << 21
"""Elements. Smaller arrays come from the heap without faults; larger ones would keep too much memory idle."""
_IDLE = 1 << 23
"""Elements kept idle at most: 32 MiB."""
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""Otherwise a forked child would write into its parent's arrays."""
_FIT = 4
"""An array takes no block of more than so many times its size."""
_PATIENCE = 0.1
"""Seconds to wait for the idle blocks; then a new one is made."""


_numbers = itertools.count()


class _Block:
    """Memory straight from the system; from the heap, a block between others would not go back when it is dropped."""

    __slots__ = ("_memory", "interface", "number", "size")

    def __init__(self, size: int) -> None:
        self.size, self.number = size, next(_numbers)
        self._memory = np.frombuffer(mmap.mmap(-1, size * 4, **_PRIVATE), np.float32)
        self.interface = self._memory.__array_interface__


class _Idle:
    """Blocks that nobody uses, shared by all threads.

    A block may come back at any time, by the garbage collector in the middle of another call as well. Then it goes to
    ``returned`` without waiting for anybody; the sorted blocks change only in the hands of who has the lock.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.returned: deque[_Block] = deque()
        self.blocks: list[tuple[int, int, _Block]] = []  # by size, then by number
        self.elements = 0  # of all sorted blocks

    def clear(self) -> None:
        """Drop all."""
        with self.lock:
            self.returned.clear()
            self.blocks.clear()
            self.elements = 0


_idle = _Idle()


after_fork(_idle.__init__)  # type: ignore[misc]


class _Loan:
    """Owner of a block while arrays look at it; numpy keeps it alive as their base."""

    __slots__ = ("__array_interface__", "_block")

    def __del__(self) -> None:
        """Keep the block, unless many are idle; what came back during another call is kept with the next."""
        idle, block = _idle, self._block
        if not idle.lock.acquire(False):
            idle.returned.append(block)
            return
        try:
            while True:
                if idle.elements + block.size <= _IDLE:
                    insort(idle.blocks, (block.size, block.number, block))
                    idle.elements += block.size
                if not idle.returned:
                    return
                block = idle.returned.popleft()
        finally:
            idle.lock.release()


def empty(shape: tuple[int, ...]) -> Array:
    """An uninitialised float32 array, writable and contiguous.

    It takes the smallest idle block that fits; without one a new one, in the place of the largest that is too small.
    """
    return maker(shape)()


@functools.lru_cache(maxsize=4096)  # the same from frame to frame
def maker(shape: tuple[int, ...]) -> Callable[[], Array]:
    """What makes arrays as ``empty`` does, one per call."""
    elements = prod(shape)
    if _SMALLEST <= elements <= _LARGEST:
        return partial(_lent, shape, elements)
    return partial(np.empty, shape, np.float32)


def _lent(shape: tuple[int, ...], elements: int) -> Array:
    block, idle = None, _idle
    if idle.lock.acquire(timeout=_PATIENCE):  # who has it may be the thread that a signal handler interrupts
        try:
            at = bisect_left(idle.blocks, (elements,))
            if at < len(idle.blocks) and idle.blocks[at][0] <= _FIT * elements:
                block = idle.blocks.pop(at)[2]
                idle.elements -= block.size
            elif at:
                idle.elements -= idle.blocks.pop(at - 1)[0]
        finally:
            idle.lock.release()
    loan = _Loan()
    loan._block = block or _Block(elements)
    loan.__array_interface__ = {**loan._block.interface, "shape": shape}
    return np.asarray(loan)


def give_back_heap() -> None:
    """Give the system what the C allocator keeps for later, after much was freed that nobody will want again."""
    with contextlib.suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


def trim() -> None:
    """Give idle memory back to the system; arrays in use are not touched."""
    _idle.clear()
