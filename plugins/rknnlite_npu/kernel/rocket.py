"""The transport of mainline Linux: ``/dev/accel/accel*`` with the driver ``rocket``.

Buffers have addresses of one open device, and each device has a core to itself while its jobs run: a context is one device, and a
pool of contexts uses as many cores as it has contexts. A job runs on one core whatever mask is asked for.
"""

from __future__ import annotations

import ctypes as ct
import mmap
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from rknnlite_backend.host_memory import HostMemory
from rknnlite_backend.zero_copy import check_flags, check_size

from ..command_words import POOLING, TAIL
from ..task import Task
from ..transport import DeviceMemory, GivesUp, MemoryUse, SubmittedJob, Transport
from .device import KernelDevice
from .rocket_abi import SINCE, CreateBo, FiniBo, Job, JobFlag, PrepBo, Request, Submit, TaskWords

__all__ = ["RocketTransport"]

_MOST = 0xFFFF_F000
_SECONDS_OF_A_JOB = 1.0  # the driver gives one up after half of it


class _Buffer(NamedTuple):
    """A buffer of the device, and the requests that are made for it in every frame."""

    handle: int
    prepare: PrepBo
    finish: FiniBo


class _Part(NamedTuple):
    """A job as the driver takes it. ``kept``: what its numbers point to."""

    submit: Submit
    what: str
    kept: tuple[object, ...]


class RocketTransport(Transport):
    """One open device. ``device`` is it."""

    job_seconds = _SECONDS_OF_A_JOB / 2

    def __init__(self, device: KernelDevice) -> None:
        self.device = device
        self.name = str(device.driver)
        self._last: Optional[_Buffer] = None  # one that the last job writes
        self._under_way = 0
        self._turn = threading.Lock()
        self._guard = self._create(mmap.PAGESIZE, MemoryUse.DATA, 0)

    def can(self, flag: JobFlag) -> bool:
        """Whether the driver says that it knows a flag."""
        return (self.device.driver.major, self.device.driver.minor) >= SINCE[flag]

    @property
    def ends_pooling(self) -> bool:
        return self.can(JobFlag.PPU_DONE)

    @property
    def gives_up(self) -> GivesUp:
        return GivesUp.SILENTLY

    @property
    def divides(self) -> bool:
        return False

    # -- memory -------------------------------------------------------------------------------------------

    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        check_size(size, _MOST)
        check_flags(flags)
        return self._create(size, use, flags)

    def _create(self, size: int, use: MemoryUse, flags: int) -> DeviceMemory:
        """The first buffer of a device lies at 0, which is no address for an operand: it is kept, and never used."""
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        made = CreateBo(size=pages)
        self.device.request(Request.CREATE_BO, made, f"CREATE_BO of {size} bytes")
        try:
            mapping = self.device.map(pages, made.offset)
            fd = self.device.descriptor_of(made.handle) if use is MemoryUse.SHARED else -1
            memory = DeviceMemory(mapping, size, 0, fd, own=fd >= 0, flags=flags)
        except BaseException:
            self.device.free(made.handle)
            raise
        memory.address, handle = made.dma_address, made.handle
        memory.buffer = _Buffer(handle, PrepBo(handle=handle), FiniBo(handle=handle))
        memory.forget = weakref.finalize(memory, self.device.free, handle)
        return memory

    def import_fd(self, fd: int, size: int, offset: int = 0) -> HostMemory:
        """Memory that the CPU copies to and from: the driver gives foreign buffers no address."""
        return HostMemory.from_fd(fd, size, offset)

    def to_device(self, memory: DeviceMemory) -> None:
        self.device.request(_FINI_BO, memory.buffer.finish, "FINI_BO")

    def from_device(self, memory: DeviceMemory) -> None:
        self._prepare(memory.buffer, self._seconds())

    def _prepare(self, buffer: _Buffer, seconds: float) -> None:
        buffer.prepare.timeout_ns = time.monotonic_ns() + round(seconds * 1e9)
        self.device.request(_PREP_BO, buffer.prepare, "PREP_BO")

    def _seconds(self) -> float:
        return _SECONDS_OF_A_JOB * (1 + self._under_way)

    # -- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: SubmittedJob) -> None:
        """Its tasks on one core: of a job for several, the records must be those for one."""
        if not job.prepared:
            job.prepared.extend(self._prepared(job))
        with self._turn:
            for part in job.prepared:
                self.device.request(_SUBMIT, part.submit, part.what)
                self._under_way += 1
                self._last = job.writes[0].buffer

    def _prepared(self, job: SubmittedJob) -> Iterator[_Part]:
        writes = _handles(job.writes)
        reads = [
            handle for handle in _handles(job.reads) if handle not in writes
        ]  # in both it would never run
        tasks = [task for core in job.tasks for task in core]
        linked = [link for core in job.linked for link in core]
        for part, flags in self._parts(tasks, linked):
            yield _part(part, flags, reads, writes)

    def _parts(self, tasks: Sequence[Task], linked: Sequence[bool]) -> Iterator[tuple[list[Task], JobFlag]]:
        """Tasks that may be one job: those that end in the pooling unit are jobs of their own, and those that lead to each
        other are started once where the driver can.
        """
        part: list[Task] = []
        before = JobFlag(0)
        link = False  # whether the task before leads to this one
        for task, leads in zip(tasks, linked):
            flags = JobFlag.PPU_DONE if task.enable & POOLING else JobFlag(0)
            if link and self.can(JobFlag.BATCHED):
                flags |= JobFlag.BATCHED
            same = flags & JobFlag.PPU_DONE == before & JobFlag.PPU_DONE
            if part and same and (flags == before or (len(part) == 1 and flags & JobFlag.BATCHED)):
                part.append(task)
                before = flags
            else:
                if part:
                    yield part, before
                part, before = [task], flags & ~JobFlag.BATCHED
            link = leads
        if part:
            yield part, before

    def wait(self, timeout_ms: int = 0) -> None:
        with self._turn:
            last, seconds = self._last, timeout_ms / 1e3 or self._seconds()
            if last is None:
                return
            self._prepare(last, seconds)
            self._last, self._under_way = None, 0

    def close(self) -> None:
        self.device.close()


_SUBMIT, _PREP_BO, _FINI_BO = map(int, (Request.SUBMIT, Request.PREP_BO, Request.FINI_BO))


def _handles(memories: Sequence[DeviceMemory]) -> list[int]:
    """Each once."""
    return list(dict.fromkeys(memory.buffer.handle for memory in memories))


def _part(tasks: Sequence[Task], flags: JobFlag, reads: list[int], writes: list[int]) -> _Part:
    rows = (TaskWords * len(tasks))(*(TaskWords(task.address, task.amount + TAIL) for task in tasks))
    ins, outs = (ct.c_uint32 * len(reads))(*reads), (ct.c_uint32 * len(writes))(*writes)
    job = Job(
        tasks=ct.addressof(rows),
        in_bo_handles=ct.addressof(ins),
        out_bo_handles=ct.addressof(outs),
        task_count=len(rows),
        task_struct_size=ct.sizeof(TaskWords),
        in_bo_handle_count=len(ins),
        out_bo_handle_count=len(outs),
        flags=flags,
    )
    size = ct.sizeof(Job) if flags else Job.flags.offset
    submit = Submit(jobs=ct.addressof(job), job_count=1, job_struct_size=size)
    return _Part(submit, f"SUBMIT of {len(tasks)} tasks", (rows, ins, outs, job))
