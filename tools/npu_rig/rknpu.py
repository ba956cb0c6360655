"""The vendor's driver: buffers in one space of addresses, jobs of task records on up to three cores, DRM's own requests."""

from __future__ import annotations

import ctypes as ct
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from rknnlite_npu.core_jobs import tasks_in
from rknnlite_npu.machine.refused import MachineRefused
from rknnlite_npu.machine_transport import MachineTransport
from rknnlite_npu.rknpu_abi import (
    COMMAND_BASE,
    Action,
    Command,
    Job,
    MemCreate,
    MemCreateOld,
    MemDestroy,
    MemMap,
    MemSync,
    Submit,
    SyncFlag,
    UserAction,
)
from rknnlite_npu.transport import DeviceMemory, SubmittedJob

from rknnlite.errors import RknnError

from .driver import Driver, Program, refused

__all__ = ["RknpuDriver"]

_PAGE = 4096
_DRM = ord("d")
_VERSION, _UNIQUE, _SET_VERSION, _GEM_CLOSE, _FLINK, _TO_FD, _FROM_FD = (
    0x00,
    0x01,
    0x07,
    0x09,
    0x0A,
    0x2D,
    0x2E,
)
_OBJECTS = 0xFFFF_FF80_0000_0000  # addresses of the kernel's own, which programs hand back
_CORES_AFTER = 2  # of three cores the ranges begin two places later
_WRITTEN_BACK = 5 * 4  # int_status of a task record
_RECORD = 40
_ACTIONS = {
    Action.GET_HW_VERSION: 0x46495245,
    Action.GET_DRV_VERSION: 908,  # 0.9.8
    Action.GET_FREQ: 1_000_000_000,
    Action.GET_IOMMU_EN: 1,
    Action.GET_TOTAL_SRAM_SIZE: 0,
    Action.GET_FREE_SRAM_SIZE: 0,
}
_DONE = {Action.RESET, Action.SET_PROC_NICE, Action.POWER_ON, Action.POWER_OFF}

Structure = TypeVar("Structure", bound=ct.Structure)


@dataclass
class _Buffer:
    """One buffer, however many handles lead to it."""

    number: int
    memory: DeviceMemory

    @property
    def obj_addr(self) -> int:
        return _OBJECTS + self.number * _PAGE

    @property
    def file(self) -> tuple[int, int]:
        """Which file it is."""
        status = os.fstat(self.memory.fd)
        return status.st_dev, status.st_ino


@dataclass
class _Handles:
    """The buffers of one open device."""

    by_number: dict[int, _Buffer] = field(default_factory=dict)
    last: int = 0

    def add(self, buffer: _Buffer) -> int:
        for handle, known in self.by_number.items():
            if known is buffer:
                return handle
        self.last += 1
        self.by_number[self.last] = buffer
        return self.last

    def of(self, handle: int) -> _Buffer:
        if handle not in self.by_number:
            raise refused(errno.EINVAL)
        return self.by_number[handle]


class RknpuDriver(Driver):
    """Attributes:
    jobs: how many were done; ``refusals``: what the machine said of those that it did not do.
    """

    def __init__(self, family: str = "RKNPU v2", say: Callable[[str], object] = lambda line: None) -> None:
        super().__init__()
        self._transport = MachineTransport(family)
        self._programs: dict[Program, _Handles] = {}
        self._buffers = 0
        self._say = say
        self.jobs = 0
        self.refusals: list[str] = []

    def opened(self, program: Program) -> None:
        self._programs[program] = _Handles()

    def closed(self, program: Program) -> None:
        handles = self._programs.pop(program, _Handles())
        for buffer in handles.by_number.values():
            self._let_go(buffer)

    def _let_go(self, buffer: _Buffer) -> None:
        """Free a buffer that no handle leads to any more."""
        if not any(buffer in handles.by_number.values() for handles in self._programs.values()):
            buffer.memory.close()

    def mmap(self, program: Program, offset: int, size: int) -> int:
        buffer = self._programs[program].of(offset // _PAGE)
        if size > -(-buffer.memory.size // _PAGE) * _PAGE:
            raise refused(errno.EINVAL)
        return buffer.memory.fd

    def ioctl(self, program: Program, number: int, argument: bytearray, address: int) -> None:
        kind, command = number >> 8 & 0xFF, number & 0xFF
        if kind != _DRM:
            raise refused(errno.ENOTTY)
        if command < COMMAND_BASE:
            self._drm(program, command, argument, address)
            return
        handlers = {
            Command.ACTION: self._action,
            Command.SUBMIT: self._submit,
            Command.MEM_CREATE: self._create,
            Command.MEM_MAP: self._map,
            Command.MEM_DESTROY: self._destroy,
            Command.MEM_SYNC: self._sync,
        }
        if command - COMMAND_BASE not in handlers:
            raise refused(errno.EINVAL)
        name = Command(command - COMMAND_BASE)
        if not self.faults.lost(name.name):
            handlers[name](self._programs[program], argument)

    # -- DRM ----------------------------------------------------------------------------------------------

    def _drm(self, program: Program, command: int, argument: bytearray, address: int) -> None:
        handles = self._programs[program]
        numbers = memoryview(argument).cast("I") if len(argument) % 4 == 0 else memoryview(b"")
        if command == _VERSION:
            self._version(program, argument)
        elif command == _UNIQUE:
            argument[: len(argument) // 2] = bytes(len(argument) // 2)
        elif command == _GEM_CLOSE:
            self._drop(handles, numbers[0])
        elif command == _FLINK:
            numbers[1] = handles.of(numbers[0]).number
        elif command == _TO_FD:
            program.give_fd(handles.of(numbers[0]).memory.fd, address + 8)
            argument[8:12] = program.peek(address + 8, 4)
        elif command == _FROM_FD:
            numbers[0] = handles.add(self._imported(program.take_fd(numbers[2])))
        elif command != _SET_VERSION:
            raise refused(errno.EINVAL)

    def _version(self, program: Program, argument: bytearray) -> None:
        """Three numbers, then three texts, each with the room that the program has for it."""
        words = memoryview(argument).cast("Q" if len(argument) == 64 else "I")
        first = 2 if len(argument) == 64 else 3
        memoryview(argument)[:12].cast("I")[:] = memoryview(bytes((0, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0))).cast(
            "I"
        )
        for place, text in enumerate((b"rknpu", b"20240828", b"RKNPU driver")):
            room, where = words[first + 2 * place], words[first + 2 * place + 1]
            if where and room:
                program.poke(where, text[:room])
            words[first + 2 * place] = len(text)

    def _imported(self, fd: int) -> _Buffer:
        status = os.fstat(fd)
        for handles in self._programs.values():
            for buffer in handles.by_number.values():
                if buffer.file == (status.st_dev, status.st_ino):
                    os.close(fd)
                    return buffer
        try:
            memory = self._transport.import_fd(fd, status.st_size)
        except RknnError:
            os.close(fd)
            raise refused(errno.EINVAL) from None
        return self._buffer(memory)

    # -- memory -------------------------------------------------------------------------------------------

    def _buffer(self, memory: DeviceMemory) -> _Buffer:
        self._buffers += 1
        return _Buffer(self._buffers, memory)

    def _create(self, handles: _Handles, argument: bytearray) -> None:
        create = _as(MemCreate if len(argument) >= ct.sizeof(MemCreate) else MemCreateOld, argument)
        if create.handle:
            buffer = handles.of(create.handle)
        else:
            if not 0 < create.size < 1 << 32:
                raise refused(errno.EINVAL)
            try:
                buffer = self._buffer(self._transport.allocate(-(-create.size // _PAGE) * _PAGE))
            except RknnError:
                raise refused(errno.ENOMEM) from None
            create.handle = handles.add(buffer)
        create.size, create.obj_addr, create.dma_addr = (
            buffer.memory.size,
            buffer.obj_addr,
            buffer.memory.address,
        )
        self._say(
            f"create {create.handle}: {create.size} bytes at {create.dma_addr:#x}, flags {create.flags:#x}"
        )

    def _map(self, handles: _Handles, argument: bytearray) -> None:
        where = _as(MemMap, argument)
        handles.of(where.handle)
        where.offset = where.handle * _PAGE

    def _destroy(self, handles: _Handles, argument: bytearray) -> None:
        self._drop(handles, _as(MemDestroy, argument).handle)

    def _drop(self, handles: _Handles, handle: int) -> None:
        buffer = handles.of(handle)
        del handles.by_number[handle]
        self._let_go(buffer)

    def _sync(self, handles: _Handles, argument: bytearray) -> None:
        sync = _as(MemSync, argument)
        buffer = self._object(handles, sync.obj_addr)
        if (
            sync.flags > SyncFlag.TO_DEVICE | SyncFlag.FROM_DEVICE
            or sync.offset + sync.size > buffer.memory.size
        ):
            raise refused(errno.EINVAL)

    def _object(self, handles: _Handles, obj_addr: int) -> _Buffer:
        for buffer in handles.by_number.values():
            if buffer.obj_addr == obj_addr:
                return buffer
        raise refused(errno.EINVAL)

    # -- work ---------------------------------------------------------------------------------------------

    def _action(self, handles: _Handles, argument: bytearray) -> None:
        action = _as(UserAction, argument)
        if action.flags in _ACTIONS:
            action.value = _ACTIONS[Action(action.flags)]
        elif action.flags not in _DONE:
            raise refused(errno.EINVAL)

    def _submit(self, handles: _Handles, argument: bytearray) -> None:
        submit = _as(Submit, argument)
        buffer = self._object(handles, submit.task_obj_addr)
        if (
            not submit.flags & Job.PC
            or submit.flags & Job.FENCE_OUT
            or not submit.task_number
            or submit.core_mask > 7
        ):
            raise refused(errno.EINVAL)
        ranges = _ranges(submit)
        started = time.perf_counter_ns()
        try:
            tasks = tuple(tasks_in(buffer.memory.ndarray, part) for part in ranges)
            self._transport.submit(SubmittedJob(submit.core_mask, ranges, tasks, buffer.memory, (), ()))
        except MachineRefused as error:
            self._refuse(f"job {self.jobs}, records {ranges}: {error}", errno.ETIMEDOUT)
        except RknnError as error:
            self._refuse(f"job {self.jobs}, records {ranges}: {error}", errno.EINVAL)
        for part, records in zip(ranges, tasks):
            for number, record in zip(part, records):
                at = number * _RECORD + _WRITTEN_BACK
                buffer.memory.ndarray[at : at + 4].view("<u4")[0] = record.interrupt_mask
        submit.task_counter, submit.hw_elapse_time = submit.task_number, time.perf_counter_ns() - started
        self._say(f"submit {self.jobs}: flags {submit.flags:#x} mask {submit.core_mask} records {ranges}")
        self.jobs += 1

    def _refuse(self, line: str, error: int) -> None:
        self.refusals.append(line)
        self._say(f"refused: {line}")
        raise refused(error) from None


def _ranges(submit: Submit) -> tuple[range, ...]:
    """The records of each core. A job that names no core, or no ranges, runs on the first one."""
    cores = [core for core in range(3) if submit.core_mask >> core & 1] or [0]
    after = _CORES_AFTER if len(cores) == 3 else 0
    found = tuple(_range(submit, core + after) for core in cores)
    if not any(len(part) for part in found):
        return (range(submit.task_start, submit.task_start + submit.task_number),)
    return found


def _range(submit: Submit, place: int) -> range:
    part = submit.subcore_task[place]
    return range(part.start, part.start + part.number)


def _as(kind: type[Structure], argument: bytearray) -> Structure:
    """The argument as a structure, in place."""
    if len(argument) < ct.sizeof(kind):
        raise refused(errno.EINVAL)
    return kind.from_buffer(argument)
