"""Memory for float32 arrays that is used again.

Fresh memory from the system costs a page fault every 4 KiB: on the planes of a network that takes longer than most
arithmetic on them (a third of MobileNetV2's time, measured). An array from :func:`empty` gives its memory back when
the last view of it is gone, and a later one takes it over. Little is kept idle, and none when a context has closed.
"""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_left, insort
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


class _Blocks:
    """Blocks that nobody uses, shared by all threads.

    ``give`` may be called at any time, by the garbage collector in the middle of ``take`` as well: it waits for nobody,
    and touches the sorted blocks only when no other call does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._returned: deque[Array] = deque()
        self._sizes: list[int] = []
        self._blocks: dict[int, list[Array]] = {}

    def take(self, elements: int) -> Array:
        """The smallest block that fits; without one a new one, in the place of the largest that is too small."""
        with self._lock:
            self._sort_in()
            at = bisect_left(self._sizes, elements)
            if at < len(self._sizes) and self._sizes[at] <= _FIT * elements:
                return self._pop(at)
            if at:
                self._pop(at - 1)
        # Not from the heap: there a block between others would not go back to the system when it is dropped.
        return np.frombuffer(mmap.mmap(-1, elements * 4, **_PRIVATE), np.float32)

    def give(self, block: Array) -> None:
        """Keep a block, unless many are idle."""
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._returned.clear()
            self._sizes.clear()
            self._blocks.clear()

    def _sort_in(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            if sum(self._sizes) + len(block) <= _IDLE:
                self._blocks.setdefault(len(block), []).append(block)
                insort(self._sizes, len(block))

    def _pop(self, at: int) -> Array:
        return self._blocks[self._sizes.pop(at)].pop()


_idle = _Blocks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.__init__)  # type: ignore[misc]


class _Loan:
    """Owner of a block while arrays look at it; numpy keeps it alive as their base."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: Array, shape: tuple[int, ...]) -> None:
        self._block = block
        self.__array_interface__ = {**block.__array_interface__, "shape": shape, "strides": None}

    def __del__(self) -> None:
        _idle.give(self._block)


def empty(shape: tuple[int, ...]) -> Array:
    """An uninitialised float32 array, writable and contiguous."""
    elements = prod(shape)
    if not _SMALLEST <= elements <= _LARGEST:
        return np.empty(shape, np.float32)
    return np.asarray(_Loan(_idle.take(elements), shape))


def trim() -> None:
    """Give idle memory back to the system; arrays in use are not touched."""
    _idle.clear()
