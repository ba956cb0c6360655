"""Who sees which bytes when: the caches between CPU and NPU, played for programs that sync by themselves.

By default the runtime flushes inputs before a run and outputs after it, and everybody sees the same. A context
opened with ``flush_inputs=False`` or ``flush_outputs=False`` leaves that to the program: the NPU then reads what was
there at the last ``sync(mem, "to_device")``, and results appear with ``sync(mem, "from_device")``.
"""

from __future__ import annotations

import weakref
from typing import Any

from rknnlite.errors import ContextInvalid
from rknnlite.log import logger

from .memory import CpuMemory
from .values import Array

__all__ = ["CacheCoherence"]


class CacheCoherence:
    """Bytes on the side of the NPU, as far as they may differ from those on the side of the CPU."""

    def __init__(self, flush_inputs: Any = True, flush_outputs: Any = True) -> None:
        self._flushes_inputs, self._flushes_outputs = bool(flush_inputs), bool(flush_outputs)
        self._synced: weakref.WeakKeyDictionary[CpuMemory, Array] = weakref.WeakKeyDictionary()
        self._results: weakref.WeakKeyDictionary[CpuMemory, Array] = weakref.WeakKeyDictionary()

    def read(self, mem: CpuMemory, label: str) -> Array:
        """The bytes that the NPU reads; raises ContextInvalid when nothing was ever synced."""
        now = mem.ndarray
        if self._flushes_inputs:
            return now
        if mem not in self._synced:
            raise ContextInvalid(
                f"{label}: the context was opened with flush_inputs=False and its memory was never synced; call "
                "sync(mem, 'to_device') after writing"
            )
        before = self._synced[mem]
        if (before != now).any():
            logger.warning(
                "%s was written after the last sync(mem, 'to_device'): the NPU reads the old bytes", label
            )
        return before

    def write(self, mem: CpuMemory, data: Array) -> None:
        """Results of a run; they appear now, or with the next sync."""
        if self._flushes_outputs:
            mem.ndarray[: data.size] = data
        else:
            self._results[mem] = data

    def sync(self, mem: CpuMemory, direction: str) -> None:
        """``to_device``, ``from_device`` or ``both``."""
        if direction != "to_device" and mem in self._results:
            data = self._results.pop(mem)
            mem.ndarray[: data.size] = data
        if direction != "from_device" and not self._flushes_inputs:
            self._synced[mem] = mem.ndarray.copy()
