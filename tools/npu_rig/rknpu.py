"""The vendor's driver: buffers in one space of addresses, jobs of task records on up to three cores."""

from __future__ import annotations

import ctypes as ct
import enum
import errno
import time
from collections.abc import Callable

from rknnlite_npu.core_jobs import tasks_in
from rknnlite_npu.machine.refused import MachineRefused
from rknnlite_npu.machine_transport import MachineTransport
from rknnlite_npu.rknpu_abi import (
    Action,
    Command,
    Job,
    MemCreate,
    MemCreateOld,
    MemDestroy,
    MemFlag,
    MemMap,
    MemSync,
    Submit,
    SyncFlag,
    UserAction,
    revision_of,
)
from rknnlite_npu.transport import SubmittedJob

from rknnlite.errors import RknnError

from .driver import Program, refused
from .gem import PAGE, Buffer, GemDriver, as_structure

__all__ = ["RknpuDriver", "ranges_of"]

_CORES_AFTER = 2  # of three cores the ranges begin two places later
_WRITTEN_BACK = 5 * 4  # int_status of a task record
_RECORD = 40
_ACTIONS = {
    Action.GET_HW_VERSION: 0x46495245,
    Action.GET_FREQ: 1_000_000_000,
    Action.GET_IOMMU_EN: 1,
    Action.GET_FREE_SRAM_SIZE: 0,
}
_DONE = {Action.RESET, Action.SET_PROC_NICE, Action.POWER_ON, Action.POWER_OFF}


class RknpuDriver(GemDriver):
    """One space of addresses for all programs. See ``GemDriver``.

    Attributes:
        sram: bytes of it.
        flags: those that buffers were asked for with.
        submitted: the requests of jobs, as they came.
    """

    driver = "rknpu"
    version = (0, 9, 8)
    requests = Command

    def __init__(
        self,
        family: str = "RKNPU v2",
        say: Callable[[str], object] = lambda line: None,
        version: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__(say)
        self.version = version or type(self).version
        self.sram = 0
        self.flags: list[MemFlag] = []
        self.submitted: list[bytes] = []
        self._uncached: set[int] = set()  # buffers by number
        self._transport = MachineTransport(family)

    def transport_of(self, program: Program) -> MachineTransport:
        return self._transport

    def call(self, program: Program, request: enum.IntEnum, argument: bytearray) -> None:
        handlers = {
            Command.ACTION: self._action,
            Command.SUBMIT: self._submit,
            Command.MEM_CREATE: self._create,
            Command.MEM_MAP: self._map,
            Command.MEM_DESTROY: self._destroy,
            Command.MEM_SYNC: self._sync,
        }
        handlers[Command(request)](program, argument)

    # -- memory -------------------------------------------------------------------------------------------

    def _create(self, program: Program, argument: bytearray) -> None:
        create = as_structure(MemCreate if len(argument) >= ct.sizeof(MemCreate) else MemCreateOld, argument)
        self.flags.append(MemFlag(create.flags))
        if create.flags & ~revision_of(self.version).flags:
            raise refused(errno.EINVAL)
        if create.handle:
            buffer = self.handles_of(program).of(create.handle)
        else:
            create.handle, buffer = self.new_buffer(program, create.size)
            if not create.flags & MemFlag.CACHEABLE:
                self._uncached.add(buffer.number)
        create.size, create.obj_addr, create.dma_addr = (
            buffer.memory.size,
            buffer.obj_addr,
            buffer.memory.address,
        )
        self._say(
            f"create {create.handle}: {create.size} bytes at {create.dma_addr:#x}, flags {create.flags:#x}"
        )

    def _map(self, program: Program, argument: bytearray) -> None:
        where = as_structure(MemMap, argument)
        self.handles_of(program).of(where.handle)
        where.offset = where.handle * PAGE

    def _destroy(self, program: Program, argument: bytearray) -> None:
        self.drop(program, as_structure(MemDestroy, argument).handle)

    def _sync(self, program: Program, argument: bytearray) -> None:
        sync = as_structure(MemSync, argument)
        buffer = self._object(program, sync.obj_addr)
        if (
            sync.flags > SyncFlag.TO_DEVICE | SyncFlag.FROM_DEVICE
            or sync.offset + sync.size > buffer.memory.size
            or buffer.number in self._uncached
        ):
            raise refused(errno.EINVAL)

    def _object(self, program: Program, obj_addr: int) -> Buffer:
        for buffer in self.handles_of(program).by_number.values():
            if buffer.obj_addr == obj_addr:
                return buffer
        raise refused(errno.EINVAL)

    # -- work ---------------------------------------------------------------------------------------------

    def _action(self, program: Program, argument: bytearray) -> None:
        action = as_structure(UserAction, argument)
        if action.flags == Action.GET_DRV_VERSION:
            major, minor, patch = self.version
            action.value = major * 10000 + minor * 100 + patch
        elif action.flags == Action.GET_TOTAL_SRAM_SIZE:
            action.value = self.sram
        elif action.flags in _ACTIONS:
            action.value = _ACTIONS[Action(action.flags)]
        elif action.flags not in _DONE:
            raise refused(errno.EINVAL)

    def _submit(self, program: Program, argument: bytearray) -> None:
        submit = as_structure(Submit, argument)
        buffer = self._object(program, submit.task_obj_addr)
        if (
            not submit.flags & Job.PC
            or submit.flags & Job.FENCE_OUT
            or not submit.task_number
            or submit.core_mask > 7
        ):
            raise refused(errno.EINVAL)
        self.submitted.append(bytes(argument))
        ranges = ranges_of(submit)
        fault = self.faults.due("CORE")  # another core's ranges, which are empty
        if fault is not None:
            ranges = tuple(range(0) for _ in ranges)
        started = time.perf_counter_ns()
        stale = self.memory_now(program) if self.faults.due("STALE") else []
        try:
            tasks = tuple(tasks_in(buffer.memory.ndarray, part) for part in ranges)
            self._transport.submit(SubmittedJob(submit.core_mask, ranges, tasks, (), buffer.memory, (), ()))
        except MachineRefused as error:
            self.refuse(f"job {self.jobs}, records {ranges}: {error}", errno.ETIMEDOUT)
        except RknnError as error:
            self.refuse(f"job {self.jobs}, records {ranges}: {error}", errno.EINVAL)
        for memory, content in stale:
            memory.mapped[:] = content
        for part, records in zip(ranges, tasks):
            for number, record in zip(part, records):
                at = number * _RECORD + _WRITTEN_BACK
                buffer.memory.ndarray[at : at + 4].view("<u4")[0] = record.interrupt_mask
        submit.task_counter, submit.hw_elapse_time = submit.task_number, time.perf_counter_ns() - started
        self._say(f"submit {self.jobs}: flags {submit.flags:#x} mask {submit.core_mask} records {ranges}")
        self.jobs += 1


def ranges_of(submit: Submit) -> tuple[range, ...]:
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
