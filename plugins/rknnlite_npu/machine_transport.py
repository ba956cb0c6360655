"""The machine as a transport: memory is memfds, and a job is done when ``submit`` returns."""

from __future__ import annotations

import threading
import weakref

from rknnlite_backend.zero_copy import check_size

from rknnlite.errors import OutOfMemory

from .core_jobs import MOST_CORES, run_on_cores
from .machine.machine import Machine
from .machine.memory import Memory
from .transport import DeviceMemory, GivesUp, MemoryUse, SubmittedJob, Transport

__all__ = ["MachineTransport"]

_PAGE = 4096
_MOST = 0xFFFF_F000
_TOP = 0xFFF0_0000  # where the vendor's driver begins, and goes downward


class MachineTransport(Transport):
    """Attributes:
    memory: what the machine sees.
    """

    name = "machine"
    times_jobs = False

    def __init__(self, family: str, cores: int = MOST_CORES, upward: bool = False) -> None:
        """``upward``: buffers lie from 0 upward, as mainline's driver places them.

        Raises MachineRefused for an NPU that the machine does not know.
        """
        self.memory = Memory()
        self._family, self._cores, self._upward = family, cores, upward
        self._reset()
        self._sizes: dict[int, int] = {}  # by address
        self._turn = threading.Lock()  # duplicates of a context may run in threads of their own
        self._placing = (
            threading.RLock()
        )  # a buffer that nobody holds any more is forgotten wherever Python finds out

    def _reset(self) -> None:
        self._machines = [Machine(self._family) for _ in range(self._cores)]

    @property
    def gives_up(self) -> GivesUp:
        return GivesUp.NEVER

    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        check_size(size, _MOST)
        memory = DeviceMemory.allocate(_pages(size), flags)
        memory.size = size  # whole pages, as of a kernel: the NPU reads up to the end of a row
        return self._placed(memory)

    def import_fd(self, fd: int, size: int, offset: int = 0) -> DeviceMemory:
        return self._placed(DeviceMemory.from_fd(fd, size, offset))

    def _placed(self, memory: DeviceMemory) -> DeviceMemory:
        content = memory.mapped
        with self._placing:
            memory.address = self._room(len(content))
            self.memory.map(memory.address, content)
            self._sizes[memory.address] = len(content)
        memory.forget = weakref.finalize(memory, self._forget, memory.address)
        return memory

    def _forget(self, address: int) -> None:
        with self._placing:
            self._sizes.pop(address, None)
            self.memory.unmap(address)

    def _room(self, size: int) -> int:
        """The highest place for a buffer, in whole pages, or the lowest."""
        if self._upward:
            return self._lowest(size)
        need, end = _pages(size), _TOP
        for address, taken in sorted(self._sizes.items(), reverse=True):
            if end - need >= address + _pages(taken):
                break
            end = address
        if end < need + _PAGE:  # nothing begins at 0
            raise _no_room(size)
        return end - need

    def _lowest(self, size: int) -> int:
        at = 0
        for address, taken in sorted(self._sizes.items()):
            if at + _pages(size) <= address:
                break
            at = address + _pages(taken)
        if at + _pages(size) > _TOP:
            raise _no_room(size)
        return at

    def to_device(self, memory: DeviceMemory) -> None:
        """One memory for both."""

    def from_device(self, memory: DeviceMemory) -> None:
        """One memory for both."""

    def submit(self, job: SubmittedJob) -> None:
        with self._turn:
            try:
                run_on_cores(self._machines, self.memory, job.tasks)
            except BaseException:
                self._reset()  # as a kernel does: what registers hold by now is of no use to anybody
                raise

    def wait(self, timeout_ms: int = 0) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        for address in list(self._sizes):
            self._forget(address)


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _no_room(size: int) -> OutOfMemory:
    return OutOfMemory(f"no room for {size} bytes in the 4 GiB that the NPU sees; close other contexts")
