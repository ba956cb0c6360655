"""Never two jobs at once: on RK3576 both cores stage in the same memory, and two jobs that overlap are wrong, whoever began them.

A lock on the folder of the device is what all contexts of all processes that see it share; the kernel lets it go with a process
that ends. The vendor's own programs do not take it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from pathlib import Path

from rknnlite_backend.host_memory import HostMemory

from rknnlite.errors import DeviceUnavailable
from rknnlite.native.forks import Owner

from ..transport import DeviceMemory, GivesUp, MemoryUse, SubmittedJob, Transport

__all__ = ["FAMILIES", "OneJobAtATime"]

FAMILIES = ("RKNPU f2",)
"""Designs whose jobs must not overlap."""


class OneJobAtATime(Transport):
    """A transport whose jobs run alone, and on one core: from ``submit`` until ``wait`` nobody else's are begun."""

    def __init__(self, inner: Transport, device: str) -> None:
        """Raises DeviceUnavailable."""
        self._inner, self.name, self.job_seconds = inner, inner.name, inner.job_seconds
        folder = str(Path(device).parent)
        try:
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise DeviceUnavailable(
                f"{folder}: {error.strerror}; jobs of this NPU must not overlap, which a lock there sees to"
            ) from None
        self._close = weakref.finalize(self, os.close, self._folder)
        self._owner = Owner()
        self._turn = threading.RLock()  # of the contexts that share this one
        self._held = False

    @property
    def times_jobs(self) -> bool:  # type: ignore[override]
        return self._inner.times_jobs

    @property
    def elapsed_ns(self) -> int:  # type: ignore[override]
        return self._inner.elapsed_ns

    @property
    def ends_pooling(self) -> bool:
        return self._inner.ends_pooling

    @property
    def gives_up(self) -> GivesUp:
        return self._inner.gives_up

    @property
    def divides(self) -> bool:
        return False

    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        return self._inner.allocate(size, use, flags)

    def import_fd(self, fd: int, size: int, offset: int = 0) -> HostMemory:
        return self._inner.import_fd(fd, size, offset)

    def to_device(self, memory: DeviceMemory) -> None:
        self._inner.to_device(memory)

    def from_device(self, memory: DeviceMemory) -> None:
        self._inner.from_device(memory)

    def submit(self, job: SubmittedJob) -> None:
        self._owner.check(self.name)
        with self._turn:
            if not self._held:
                fcntl.flock(self._folder, fcntl.LOCK_EX)
                self._held = True
            try:
                self._inner.submit(job)
            except BaseException:
                self._settle()
                raise

    def wait(self, timeout_ms: int = 0) -> None:
        with self._turn:
            try:
                self._inner.wait(timeout_ms)
            finally:
                self._let_go()

    def _settle(self) -> None:
        """Jobs that were begun before one that failed may still run."""
        try:
            self._inner.wait()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._held:
            self._held = False
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def close(self) -> None:
        with self._turn:
            self._inner.close()
            self._held = False
            self._close()
