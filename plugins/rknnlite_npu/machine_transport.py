"""The machine as a transport: memory is memfds, and a job is done when ``submit`` returns."""

from __future__ import annotations

import threading
import weakref

from rknnlite.errors import OutOfMemory

from .core_jobs import MOST_CORES, run_on_cores
from .machine.machine import Machine
from .machine.memory import Memory
from .transport import DeviceMemory, MemoryUse, SubmittedJob, Transport

__all__ = ["MachineTransport"]

_PAGE = 4096
_TOP = 0xFFF0_0000  # where the vendor's driver begins, and goes downward


class MachineTransport(Transport):
    """Attributes:
    memory: what the machine sees.
    """

    name = "machine"

    def __init__(self, family: str, cores: int = MOST_CORES) -> None:
        """Raises MachineRefused for an NPU that the machine does not know."""
        self.memory = Memory()
        self._machines = [Machine(family) for _ in range(cores)]
        self._sizes: dict[int, int] = {}  # by address
        self._turn = threading.Lock()  # duplicates of a context may run in threads of their own

    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        return self._placed(DeviceMemory.allocate(size, flags))

    def import_fd(self, fd: int, size: int, offset: int = 0) -> DeviceMemory:
        return self._placed(DeviceMemory.from_fd(fd, size, offset))

    def _placed(self, memory: DeviceMemory) -> DeviceMemory:
        memory.address = self._room(memory.size)
        self.memory.map(memory.address, memory.ndarray)
        self._sizes[memory.address] = memory.size
        memory.forget = weakref.finalize(memory, self._forget, memory.address)
        return memory

    def _forget(self, address: int) -> None:
        self._sizes.pop(address, None)
        self.memory.unmap(address)

    def _room(self, size: int) -> int:
        """The highest place for a buffer, in whole pages."""
        need, end = -(-size // _PAGE) * _PAGE, _TOP
        for address, taken in sorted(self._sizes.items(), reverse=True):
            if end - need >= address + taken:
                break
            end = address
        if end < need + _PAGE:  # nothing begins at 0
            raise OutOfMemory(
                f"no room for {size} bytes in the 4 GiB that the NPU sees; close other contexts"
            )
        return end - need

    def to_device(self, memory: DeviceMemory) -> None:
        """One memory for both."""

    def from_device(self, memory: DeviceMemory) -> None:
        """One memory for both."""

    def submit(self, job: SubmittedJob) -> None:
        with self._turn:
            run_on_cores(self._machines, self.memory, job.tasks)

    def wait(self, timeout_ms: int = 0) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        for address in list(self._sizes):
            self._forget(address)
