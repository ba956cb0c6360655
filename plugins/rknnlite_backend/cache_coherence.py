"""Who sees which bytes when: the caches between CPU and NPU, played for programs that sync by themselves.

By default the runtime flushes inputs before a run and outputs after it, and everybody sees the same. A context
opened with ``flush_inputs=False`` or ``flush_outputs=False`` leaves that to the program: the NPU then reads what was
there at the last ``sync(mem, "to_device")``, and results appear with ``sync(mem, "from_device")``.

What the NPU sees belongs to the memory, not to the context: contexts of this process that share a descriptor share it.
So one NPU run reads what another has written without any sync, as on a board. Other processes are not followed.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ContextInvalid
from rknnlite.log import logger

from .host_memory import HostMemory

__all__ = ["CacheCoherence", "has_sides"]

Array = NDArray[Any]


class _DeviceSide:
    """Bytes on the side of the NPU, from the start of the memory's file; there where a context leaves caches alone.

    A byte that the CPU has written is one that differs from ``agreed``: only such bytes travel to the device.
    """

    def __init__(self) -> None:
        self.bytes, self.agreed = np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        self.known, self.newer = (
            np.zeros(0, bool),
            np.zeros(0, bool),
        )  # newer: results that the CPU has not fetched

    def reach(self, mem: HostMemory) -> slice:
        """Where ``mem`` lies; the arrays are made to hold it."""
        stop = mem.offset + mem.size
        if stop > len(self.bytes):
            for name in ("bytes", "agreed", "known", "newer"):
                old = getattr(self, name)
                grown = np.zeros(stop, old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)
        return slice(mem.offset, stop)

    def to_device(self, mem: HostMemory) -> None:
        """Flush: what the CPU has written is what the NPU reads."""
        place, now = self.reach(mem), mem.ndarray
        written = (now != self.agreed[place]) | ~self.known[place]
        np.copyto(self.bytes[place], now, where=written)
        np.copyto(self.newer[place], False, where=written)
        self.agreed[place], self.known[place] = now, True

    def from_device(self, mem: HostMemory) -> None:
        """Invalidate: results that the NPU has written are what the CPU reads."""
        place, now = self.reach(mem), mem.ndarray
        newer = self.newer[place]
        np.copyto(now, self.bytes[place], where=newer)
        np.copyto(self.agreed[place], now, where=newer)
        newer[:] = False

    def write(self, mem: HostMemory, data: Array) -> None:
        """The NPU writes results."""
        start = self.reach(mem).start
        place = slice(start, start + data.size)
        np.copyto(self.agreed[place], mem.ndarray[: data.size], where=~self.known[place])
        self.bytes[place] = data
        self.known[place] = self.newer[place] = True


_sides: weakref.WeakValueDictionary[tuple[int, int], _DeviceSide] = weakref.WeakValueDictionary()
_starting = threading.Lock()


class CacheCoherence:
    """How one context treats the caches of the memory that it runs on."""

    def __init__(self, flush_inputs: Any = True, flush_outputs: Any = True) -> None:
        self._flushes_inputs, self._flushes_outputs = bool(flush_inputs), bool(flush_outputs)

    def own(self, mem: HostMemory) -> None:
        """Memory that was just created or imported: from now on its two sides may differ, if this context lets them."""
        if not (self._flushes_inputs and self._flushes_outputs):
            with _starting:  # contexts in several threads may share a file
                mem.side = _sides.setdefault(mem.file, _DeviceSide())

    def read(self, mem: HostMemory, label: str) -> Array:
        """The bytes that the NPU reads; raises ContextInvalid when nothing was ever synced."""
        side = _side_of(mem)
        if side is None:
            return mem.ndarray
        if self._flushes_inputs:
            side.to_device(mem)
            return side.bytes[side.reach(mem)]
        place = side.reach(mem)
        if not side.known[place].any():
            raise ContextInvalid(
                f"{label}: the context was opened with flush_inputs=False and its memory was never synced; call "
                "sync(mem, 'to_device') after writing"
            )
        if (side.agreed[place] != mem.ndarray)[side.known[place]].any():
            logger.warning(
                "%s was written after the last sync(mem, 'to_device'): the NPU reads the old bytes", label
            )
        return side.bytes[place]

    def write(self, mem: HostMemory, data: Array) -> None:
        """Results of a run; they appear now, or with the next sync."""
        side = _side_of(mem)
        if side is None:
            mem.ndarray[: data.size] = data
            return
        side.write(mem, data)
        if self._flushes_outputs:
            side.from_device(mem)

    def sync(self, mem: HostMemory, direction: str) -> None:
        """``to_device``, ``from_device`` or ``both``."""
        side = _side_of(mem)
        if side is None:
            return
        if direction != "to_device":
            side.from_device(mem)
        if direction != "from_device":
            side.to_device(mem)


def has_sides(mem: HostMemory) -> bool:
    """Whether CPU and NPU may see different bytes of a memory."""
    return _side_of(mem) is not None


def _side_of(mem: HostMemory) -> Optional[_DeviceSide]:
    """What the NPU sees, where that may differ from what the CPU sees."""
    if mem.side is None and _sides.data:  # type: ignore[attr-defined]  # its length is a call, in every frame
        mem.side = _sides.get(mem.file)  # another context lets the sides of this memory differ
    found: Optional[_DeviceSide] = mem.side
    return found
