"""How work reaches an NPU: memory that it sees, and jobs. One class for each kernel interface, and one for the machine.

What a context does with it: allocate, write, ``to_device``, ``submit``, ``wait``, ``from_device``, read.
"""

from __future__ import annotations

import abc
import enum
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rknnlite_backend.host_memory import HostMemory

from .task import Task

__all__ = ["DeviceMemory", "GivesUp", "MemoryUse", "Shared", "SharedTransport", "SubmittedJob", "Transport"]

AnyShared = TypeVar("AnyShared", bound="Shared")


class MemoryUse(enum.Enum):
    """What a buffer is for; some kernels want to know."""

    TASKS = "tasks"
    DATA = "data"
    SHARED = "shared"
    """Of the program's, with a descriptor for other devices."""


class GivesUp(enum.Enum):
    """How a kernel gives up a job that takes too long."""

    NEVER = "never"
    TELLING = "telling"
    """It tells so, as far as it knows."""
    SILENTLY = "silently"
    """It tells success."""


class DeviceMemory(HostMemory):
    """A buffer at an address of the NPU's: ``address``, and the view of the CPU.

    ``forget`` takes it from the NPU's addresses; it is called once, when the buffer is closed or nobody holds it any more.
    ``buffer`` is what its transport knows of it.
    """

    address: int = 0
    buffer: Any = None
    forget: Callable[[], object] = staticmethod(lambda: None)

    def close(self) -> None:
        super().close()
        self.forget()


@dataclass(frozen=True, eq=False)
class SubmittedJob:
    """What a kernel gets at once, frame after frame.

    Attributes:
        mask: cores that share it, a bit each.
        cores: per core its records in the task buffer.
        tasks: the same records, with their addresses, for a kernel that has no task buffer.
        linked: for each of them whether its command words lead to those of the next one.
        task_memory: the task buffer.
        reads, writes: buffers of the job; one that it reads and writes is in ``writes`` alone.
        prepared: what a transport has made of it for its requests, the first time.
    """

    mask: int
    cores: tuple[range, ...]
    tasks: tuple[tuple[Task, ...], ...]
    linked: tuple[tuple[bool, ...], ...]
    task_memory: DeviceMemory
    reads: Sequence[DeviceMemory]
    writes: Sequence[DeviceMemory]
    prepared: list[Any] = field(default_factory=list)


class Transport(abc.ABC):
    """One way to an NPU, opened for one context and its duplicates."""

    name: str = ""
    """What ``Context.versions`` calls it."""
    job_seconds: float = 0.0
    """After which a job is given up; 0: never."""
    times_jobs: bool = True
    """Whether it says something of the NPU how long a job takes."""
    elapsed_ns: int = 0
    """What the kernel has said so far that jobs took; 0 where it tells nothing."""

    @property
    def ends_pooling(self) -> bool:
        """Whether tasks that end in the pooling unit end; else the CPU computes their nodes."""
        return True

    @property
    def gives_up(self) -> GivesUp:
        """What becomes of a job that takes too long."""
        return GivesUp.TELLING

    @property
    def divides(self) -> bool:
        """Whether a job can be divided among cores; else it runs on one."""
        return True

    @abc.abstractmethod
    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        """Fresh memory of zeros; raises OutOfMemory. ``flags`` are those of ``Context.create_mem``."""

    @abc.abstractmethod
    def import_fd(self, fd: int, size: int, offset: int = 0) -> HostMemory:
        """Memory behind a descriptor, which stays the caller's; ``DeviceMemory`` where the NPU reaches it. Raises ParamInvalid."""

    @abc.abstractmethod
    def to_device(self, memory: DeviceMemory) -> None:
        """What the CPU has written is what the NPU reads."""

    @abc.abstractmethod
    def from_device(self, memory: DeviceMemory) -> None:
        """What the NPU has written is what the CPU reads."""

    @abc.abstractmethod
    def submit(self, job: SubmittedJob) -> None:
        """Begin a job; it follows those that were begun before. Raises RknnError for what is refused."""

    @abc.abstractmethod
    def wait(self, timeout_ms: int = 0) -> None:
        """Until all jobs are done; raises what they raise, RunTimeout for one that did not end."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free all; may be called again."""


class Shared(abc.ABC):
    """What a context and its duplicates have in common: freed by the last that lets it go."""

    def __init__(self) -> None:
        self._users, self._lock = 1, threading.Lock()

    @abc.abstractmethod
    def _free(self) -> None:
        """Give it back."""

    def share(self: AnyShared) -> AnyShared:
        """For one more user."""
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self._free()


class SharedTransport(Shared):
    """The transport of a context.

    Attributes:
        another: opens a further device of the same kind, which has a core of its own; None where there is none.
    """

    def __init__(self, transport: Transport, another: Callable[[], Transport] | None = None) -> None:
        super().__init__()
        self.transport, self.another = transport, another

    def _free(self) -> None:
        self.transport.close()
