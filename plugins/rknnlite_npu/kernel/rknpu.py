"""The transport of the vendor's kernels: the driver ``rknpu``, a DRM device beside those of the display, or ``/dev/rknpu``.

All buffers of a process lie in one space of addresses. The kernel reads task records from a buffer, starts all cores of a job at
once and answers when they are done: a job is over when ``submit`` returns. It takes foreign buffers by dma-buf.
"""

from __future__ import annotations

import ctypes as ct
import mmap
import os
import threading
import weakref
from functools import cached_property
from typing import NamedTuple

from rknnlite_backend.zero_copy import NON_CACHEABLE, TRY_SRAM, check_flags, check_size

from rknnlite.errors import OutOfMemory, ParamInvalid, RunTimeout

from .. import rknpu_abi as abi
from ..transport import DeviceMemory, MemoryUse, SubmittedJob, Transport
from .device import KernelDevice
from .rknpu_buffers import Buffer, DrmBuffers, HeapBuffers, RknpuNode

__all__ = ["RknpuTransport"]

_MOST = 0xFFFF_F000
_END = 1 << 32  # addresses have 32 bits
_MILLISECONDS_OF_A_JOB = 6000  # what the vendor's library waits
_SUBMIT_FLAGS = abi.Job.PC | abi.Job.PINGPONG
_DATA_FLAGS = abi.MemFlag.NON_CONTIGUOUS | abi.MemFlag.CACHEABLE | abi.MemFlag.LIMIT_IOVA_ALIGNMENT
_FLAGS = {
    MemoryUse.TASKS: abi.MemFlag.NON_CONTIGUOUS | abi.MemFlag.CACHEABLE | abi.MemFlag.KERNEL_MAPPING,
    MemoryUse.DATA: _DATA_FLAGS,
    MemoryUse.SHARED: _DATA_FLAGS,
}
_CORES_AFTER = {3: 2}
"""Number of cores -> where their ranges of records begin."""


class _Piece(NamedTuple):
    """What is known of a piece of a buffer: the requests that sync it are made in every frame."""

    obj_addr: int
    cached: bool
    to_device: abi.MemSync
    from_device: abi.MemSync


class RknpuTransport(Transport):
    """One open device. ``device`` is it."""

    job_seconds = _MILLISECONDS_OF_A_JOB / 1e3

    def __init__(self, device: KernelDevice) -> None:
        self.device = device
        self.version = (device.driver.major, device.driver.minor, device.driver.patch)
        self.revision = abi.revision_of(self.version)
        self.name = str(device.driver)
        kind = HeapBuffers if isinstance(device, RknpuNode) else DrmBuffers
        self._kernel = kind(device, self.revision)
        self._buffers: dict[int, Buffer] = {}  # by the kernel's own name
        self._turn = threading.Lock()
        self._sharing = threading.RLock()  # memory that nobody holds is forgotten wherever Python finds out

    @cached_property
    def _has_sram(self) -> bool:
        """Whether the driver has any to give."""
        asked = abi.UserAction(flags=abi.Action.GET_TOTAL_SRAM_SIZE)
        self._kernel.request(abi.Command.ACTION, asked, "ACTION GET_TOTAL_SRAM_SIZE")
        return bool(asked.value)

    # -- memory -------------------------------------------------------------------------------------------

    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        check_size(size, _MOST)
        check_flags(flags)
        buffer = self._kernel.create(size, self._flags(use, flags))
        fd = -1
        try:
            if use is MemoryUse.SHARED:
                fd = self._kernel.descriptor(buffer)
            return self._mapped(buffer, size, fd, fd >= 0, flags)
        except BaseException:
            if not buffer.users:
                self._kernel.destroy(buffer)
            raise

    def _flags(self, use: MemoryUse, flags: int) -> abi.MemFlag:
        """The kernel's, for those of ``Context.create_mem``."""
        found = _FLAGS[use]
        if flags & NON_CACHEABLE:
            found &= ~abi.MemFlag.CACHEABLE
        if flags & TRY_SRAM and self._has_sram:
            found |= abi.MemFlag.TRY_SRAM
        return found

    def _mapped(
        self, buffer: Buffer, size: int, fd: int, own: bool, flags: int = 0, offset: int = 0
    ) -> DeviceMemory:
        """A piece of a buffer. ``fd``: a descriptor of it, ``own``: closed with the piece."""
        try:
            if buffer.address + size + offset > _END:
                raise OutOfMemory(
                    f"{self.device.path}: {size} bytes lie at {buffer.address:#x}, beyond the 4 GiB that the NPU sees; close "
                    "other contexts"
                )
            pages = -(-(size + offset) // mmap.PAGESIZE) * mmap.PAGESIZE
            memory = DeviceMemory(self._kernel.mapping(buffer, pages), size, offset, fd, own, flags)
        except BaseException:
            if own:
                os.close(fd)
            raise
        memory.address = buffer.address + offset
        memory.buffer = _Piece(
            buffer.obj_addr,
            buffer.cached,
            *(abi.MemSync(way, 0, buffer.obj_addr, offset, size) for way in abi.SyncFlag),
        )
        with self._sharing:
            buffer.users += 1
            self._buffers[buffer.obj_addr] = buffer
        memory.forget = weakref.finalize(memory, self._forget, buffer)
        return memory

    def _forget(self, buffer: Buffer) -> None:
        with self._sharing:
            buffer.users -= 1
            if buffer.users or self._buffers.pop(buffer.obj_addr, None) is None:
                return
        self._kernel.destroy(buffer)

    def import_fd(self, fd: int, size: int, offset: int = 0) -> DeviceMemory:
        if fd < 0 or size <= 0 or offset < 0:
            raise ParamInvalid(f"cannot import {size} bytes at {offset} of file descriptor {fd}")
        with self._sharing:
            found = self._kernel.imported(fd, size + offset)
            buffer = self._buffers.get(found.obj_addr, found)  # one that was imported before, or is our own
        try:
            if 0 < found.size < size + offset:
                raise ParamInvalid(
                    f"file descriptor {fd} holds {found.size} bytes, {size + offset} were to be imported"
                )
            return self._mapped(buffer, size, fd, False, offset=offset)
        except BaseException:
            if not buffer.users:
                self._kernel.destroy(buffer)
            raise

    def to_device(self, memory: DeviceMemory) -> None:
        if memory.buffer.cached:
            self.device.request(self._sync_number, memory.buffer.to_device, "MEM_SYNC")

    def from_device(self, memory: DeviceMemory) -> None:
        if memory.buffer.cached:
            self.device.request(self._sync_number, memory.buffer.from_device, "MEM_SYNC")

    @cached_property
    def _sync_number(self) -> int:
        return abi.request(abi.Command.MEM_SYNC, ct.sizeof(abi.MemSync), self._kernel.drm)

    # -- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: SubmittedJob) -> None:
        if not job.prepared:
            job.prepared.append(self._prepared(job))
        asked = job.prepared[0]
        count = asked.task_number
        with self._turn:
            asked.task_counter = asked.hw_elapse_time = 0
            self._kernel.request(abi.Command.SUBMIT, asked, f"SUBMIT of {count} tasks")
            done, elapsed = asked.task_counter, asked.hw_elapse_time
        if done not in (0, count):
            raise RunTimeout(
                f"{self.device.path}: {done} of {count} tasks were done; see dmesg, then run again"
            )
        self.elapsed_ns += max(0, elapsed) if self.revision.tells_time else 0

    def _prepared(self, job: SubmittedJob) -> abi.Submit:
        """The request of a job. Both revisions of it have the same size, and 0 where they differ."""
        asked = abi.Submit(
            flags=_SUBMIT_FLAGS,
            timeout=_MILLISECONDS_OF_A_JOB,
            task_start=job.cores[0].start,
            task_number=sum(map(len, job.cores)),
            task_obj_addr=job.task_memory.buffer.obj_addr,
            core_mask=job.mask,
            fence_fd=-1,
        )
        after = _CORES_AFTER.get(len(job.cores), 0)
        cores = [core for core in range(3) if job.mask >> core & 1]
        places = range(after, after + len(cores)) if after else cores
        for place, records in zip(places, job.cores):
            asked.subcore_task[place] = abi.TaskRange(records.start, len(records))
        return asked

    def wait(self, timeout_ms: int = 0) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        with self._sharing:
            held = list(self._buffers.values())
            self._buffers.clear()
        for buffer in held:
            self._kernel.destroy(buffer)
        self.device.close()
