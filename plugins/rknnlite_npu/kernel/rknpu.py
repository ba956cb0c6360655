"""The transport of the vendor's kernels: the driver ``rknpu``, a DRM device beside those of the display.

All buffers of a process lie in one space of addresses. The kernel reads task records from a buffer, starts all cores of a job at
once and answers when they are done: a job is over when ``submit`` returns. It takes foreign buffers by dma-buf.
"""

from __future__ import annotations

import contextlib
import ctypes as ct
import mmap
import os
import threading
import weakref
from dataclasses import dataclass

from rknnlite_backend.zero_copy import check_flags, check_size

from rknnlite.errors import OutOfMemory, ParamInvalid, RknnError, RunTimeout

from .. import rknpu_abi as abi
from ..transport import DeviceMemory, MemoryUse, SubmittedJob, Transport
from .device import KernelDevice

__all__ = ["RknpuTransport"]

_MOST = 0xFFFF_F000
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


@dataclass(frozen=True)
class _Buffer:
    handle: int
    obj_addr: int


class RknpuTransport(Transport):
    """One open device. ``device`` is it."""

    def __init__(self, device: KernelDevice) -> None:
        """Raises DeviceUnavailable, RknnError for a driver that does not tell its version."""
        self.device = device
        number = self._number(abi.Action.GET_DRV_VERSION)
        self.version = (number // 10000, number // 100 % 100, number % 100)
        self.name = f"rknpu {'.'.join(map(str, self.version))}"
        self.elapsed_ns = 0
        """What the kernel says that the last job took; 0 where it does not tell."""
        self._buffers: dict[int, _Buffer] = {}  # by address
        self._turn = threading.Lock()

    def _number(self, action: abi.Action) -> int:
        asked = abi.UserAction(flags=action)
        self._request(abi.Command.ACTION, asked, f"ACTION {action.name}")
        return int(asked.value)

    def _request(self, command: abi.Command, argument: ct.Structure, what: str = "") -> None:
        self.device.request(abi.request(command, ct.sizeof(argument)), argument, what or command.name)

    # -- memory -------------------------------------------------------------------------------------------

    def allocate(self, size: int, use: MemoryUse = MemoryUse.DATA, flags: int = 0) -> DeviceMemory:
        check_size(size, _MOST)
        check_flags(flags)
        made = abi.MemCreate(flags=_FLAGS[use], size=-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._request(abi.Command.MEM_CREATE, made, f"MEM_CREATE of {size} bytes")
        if not made.handle:
            raise OutOfMemory(f"{self.device.path}: no memory for {size} bytes; close other contexts")
        fd = self.device.descriptor_of(made.handle) if use is MemoryUse.SHARED else -1
        return self._mapped(made, size, fd, fd >= 0, flags)

    def _mapped(
        self, made: ct.Structure, size: int, fd: int, own: bool, flags: int = 0, offset: int = 0
    ) -> DeviceMemory:
        """``fd``: a descriptor of the buffer, ``own``: closed with it."""
        buffer = _Buffer(made.handle, made.obj_addr)
        try:
            where = abi.MemMap(handle=buffer.handle)
            self._request(abi.Command.MEM_MAP, where)
            pages = -(-(size + offset) // mmap.PAGESIZE) * mmap.PAGESIZE
            memory = DeviceMemory(self.device.map(pages, where.offset), size, offset, fd, own, flags)
        except BaseException:
            self._destroy(buffer)
            if own:
                os.close(fd)
            raise
        memory.address = made.dma_addr + offset
        self._buffers[memory.address] = buffer
        memory.forget = weakref.finalize(memory, self._forget, memory.address)
        return memory

    def _forget(self, address: int) -> None:
        buffer = self._buffers.pop(address, None)
        if buffer is not None:
            self._destroy(buffer)

    def _destroy(self, buffer: _Buffer) -> None:
        if self.device.usable:
            asked = abi.MemDestroy(handle=buffer.handle, obj_addr=buffer.obj_addr)
            with contextlib.suppress(RknnError):  # the kernel frees all when the device is closed
                self._request(abi.Command.MEM_DESTROY, asked)

    def import_fd(self, fd: int, size: int, offset: int = 0) -> DeviceMemory:
        if fd < 0 or size <= 0 or offset < 0:
            raise ParamInvalid(f"cannot import {size} bytes at {offset} of file descriptor {fd}")
        made = abi.MemCreate(handle=self.device.handle_of(fd), flags=_DATA_FLAGS)
        try:
            self._request(abi.Command.MEM_CREATE, made, f"MEM_CREATE of file descriptor {fd}")
        except RknnError:
            self.device.free(made.handle)
            raise
        if made.size and made.size < size + offset:
            self._destroy(_Buffer(made.handle, made.obj_addr))
            raise ParamInvalid(
                f"file descriptor {fd} holds {made.size} bytes, {size + offset} were to be imported"
            )
        return self._mapped(made, size, fd, False, offset=offset)

    def to_device(self, memory: DeviceMemory) -> None:
        self._sync(memory, abi.SyncFlag.TO_DEVICE)

    def from_device(self, memory: DeviceMemory) -> None:
        self._sync(memory, abi.SyncFlag.FROM_DEVICE)

    def _sync(self, memory: DeviceMemory, flags: abi.SyncFlag) -> None:
        buffer = self._buffers[memory.address]
        asked = abi.MemSync(flags=flags, obj_addr=buffer.obj_addr, offset=memory.offset, size=memory.size)
        self._request(abi.Command.MEM_SYNC, asked)

    # -- jobs ---------------------------------------------------------------------------------------------

    def submit(self, job: SubmittedJob) -> None:
        count = sum(map(len, job.cores))
        asked = abi.Submit(
            flags=_SUBMIT_FLAGS,
            timeout=_MILLISECONDS_OF_A_JOB,
            task_start=job.cores[0].start,
            task_number=count,
            task_obj_addr=self._buffers[job.task_memory.address].obj_addr,
            core_mask=job.mask,
            fence_fd=-1,
        )
        after = _CORES_AFTER.get(len(job.cores), 0)
        cores = [core for core in range(3) if job.mask >> core & 1]
        places = range(after, after + len(cores)) if after else cores
        for place, records in zip(places, job.cores):
            asked.subcore_task[place] = abi.TaskRange(records.start, len(records))
        with self._turn:
            self._request(abi.Command.SUBMIT, asked, f"SUBMIT of {count} tasks")
        if asked.task_counter not in (0, count):
            raise RunTimeout(
                f"{self.device.path}: {asked.task_counter} of {count} tasks were done; see dmesg, then run again"
            )
        self.elapsed_ns = max(0, asked.hw_elapse_time)

    def wait(self, timeout_ms: int = 0) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        self._buffers.clear()
        self.device.close()
