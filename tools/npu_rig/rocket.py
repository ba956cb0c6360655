"""Mainline Linux's driver: a space of addresses for each open device, from 0 upward, and jobs of tasks on one core.

It looks after what the real one does: sizes, handles, lists of buffers. A job that does not end is given up and told as done.
"""

from __future__ import annotations

import ctypes as ct
import enum
import errno
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from rknnlite_npu.command_words import ENABLE, PC, TAIL, CommandWord, Words
from rknnlite_npu.kernel.rocket_abi import SINCE, CreateBo, FiniBo, Job, JobFlag, PrepBo, Submit, TaskWords
from rknnlite_npu.machine.machine import Machine
from rknnlite_npu.machine.refused import MachineRefused
from rknnlite_npu.machine_transport import MachineTransport
from rknnlite_npu.program_chain import NEXT_PROGRAM
from rknnlite_npu.task import Task

from .driver import Program, refused
from .gem import PAGE, GemDriver, as_structure

__all__ = ["Requests", "RocketDriver"]

_PPU, _DPU = 0x60, 0x08
_MOST_TASKS, _MOST_WORDS = 1 << 16, 1 << 13
Structure = TypeVar("Structure", bound=ct.Structure)


class Requests(enum.IntEnum):
    """Counted from the base of a driver's own."""

    CREATE_BO = 0
    SUBMIT = 1
    PREP_BO = 2
    FINI_BO = 3


class RocketDriver(GemDriver):
    """See ``GemDriver``.

    Attributes:
        given_up: jobs that were told as done though they were not.
        overlaps: jobs that began while another open device had not waited for its own.
        flags: those of all jobs.
    """

    driver = "rocket"
    requests = Requests

    def __init__(
        self,
        family: str = "RKNPU v2",
        version: tuple[int, int, int] = (1, 0, 0),
        say: Callable[[str], object] = lambda line: None,
    ) -> None:
        super().__init__(say)
        self.version = version
        self._family = family
        self._transports: dict[Program, MachineTransport] = {}
        self.given_up: list[str] = []
        self.overlaps = 0
        self.flags: list[JobFlag] = []
        self._under_way: set[Program] = set()

    def opened(self, program: Program) -> None:
        super().opened(program)
        self._transports[program] = MachineTransport(self._family, cores=1, upward=True)

    def closed(self, program: Program) -> None:
        super().closed(program)
        self._under_way.discard(program)
        transport = self._transports.pop(program, None)
        if transport is not None:
            transport.close()

    def transport_of(self, program: Program) -> MachineTransport:
        return self._transports[program]

    def call(self, program: Program, request: enum.IntEnum, argument: bytearray) -> None:
        handlers = {
            Requests.CREATE_BO: self._create,
            Requests.SUBMIT: self._submit,
            Requests.PREP_BO: self._prepare,
            Requests.FINI_BO: self._finish,
        }
        handlers[Requests(request)](program, argument)

    def _create(self, program: Program, argument: bytearray) -> None:
        create = as_structure(CreateBo, argument)
        create.handle, buffer = self.new_buffer(program, create.size)
        create.dma_address, create.offset = buffer.memory.address, create.handle * PAGE

    def _prepare(self, program: Program, argument: bytearray) -> None:
        asked = as_structure(PrepBo, argument)
        self.handles_of(program).of(asked.handle)
        if asked.reserved:
            raise refused(errno.EINVAL)
        if asked.timeout_ns and asked.timeout_ns < time.monotonic_ns() - 10**12:
            raise refused(errno.ETIMEDOUT)  # it is a time, and was taken for a span
        self._under_way.discard(program)

    def _finish(self, program: Program, argument: bytearray) -> None:
        asked = as_structure(FiniBo, argument)
        self.handles_of(program).of(asked.handle)
        if asked.reserved:
            raise refused(errno.EINVAL)

    # -- jobs ---------------------------------------------------------------------------------------------

    def _submit(self, program: Program, argument: bytearray) -> None:
        asked = as_structure(Submit, argument)
        if asked.reserved or asked.job_struct_size < Job.flags.offset:
            raise refused(errno.EINVAL)
        for number in range(asked.job_count):
            raw = program.peek(
                asked.jobs + number * asked.job_struct_size, min(asked.job_struct_size, ct.sizeof(Job))
            )
            self._job(program, _of(Job, raw))

    def _job(self, program: Program, job: Job) -> None:
        if not 0 < job.task_count <= _MOST_TASKS or job.task_struct_size < ct.sizeof(TaskWords):
            raise refused(errno.EINVAL)
        flags = JobFlag(job.flags & 7)
        if job.flags & ~sum(JobFlag) or any(
            self.version[:2] < SINCE[flag] for flag in JobFlag if flag in flags
        ):
            raise refused(errno.EINVAL)
        handles = self.handles_of(program)
        lists = [
            np.frombuffer(program.peek(where, 4 * count), "<u4").tolist() if count else []
            for where, count in (
                (job.in_bo_handles, job.in_bo_handle_count),
                (job.out_bo_handles, job.out_bo_handle_count),
            )
        ]
        for handle in (*lists[0], *lists[1]):
            handles.of(handle)
        if len({*lists[0], *lists[1]}) < len(lists[0]) + len(lists[1]):
            raise refused(errno.EALREADY)
        rows = program.peek(job.tasks, job.task_count * job.task_struct_size)
        size = job.task_struct_size
        tasks = [_of(TaskWords, rows[at : at + size]) for at in range(0, len(rows), size)]
        if any(task.regcmd_count == 0 for task in tasks):
            raise refused(errno.EINVAL)
        listed = [handles.of(handle).memory for handle in (*lists[0], *lists[1])]
        self.overlaps += bool(self._under_way - {program})
        self._under_way.add(program)
        self.flags.append(flags)
        stale = self.memory_now(program) if self.faults.due("STALE") else []
        self._run(program, tasks, flags, {memory.address for memory in listed})
        for memory, content in stale:
            memory.mapped[:] = content
        self.jobs += 1

    def _run(self, program: Program, tasks: list[TaskWords], flags: JobFlag, listed: set[int]) -> None:
        """One start for each task; a job whose last interrupt does not come is given up."""
        transport = self._transports[program]
        machine = Machine(self._family)
        for number, row in enumerate(tasks):
            name = f"job {self.jobs}, task {number}"
            fault = self.faults.due("TASK")
            if fault is not None:
                if fault.error:
                    self._give_up(f"{name}: lost")
                    return
                continue
            try:
                task = self._task(transport, row)
                if not self._listed(transport, row.regcmd, listed):
                    self._give_up(f"{name}: its words lie in no buffer of the job")
                    return
                machine.run(transport.memory, [task])
            except MachineRefused as error:
                self.refusals.append(f"{name}: {error}")
                self._say(self.refusals[-1])
                self._give_up(f"{name}: {error}")
                return
            if JobFlag.BATCHED in flags and number + 1 < len(tasks):  # one start: its words lead to the next
                if self._leads_to(transport, row) != tasks[number + 1].regcmd:
                    self._give_up(f"{name}: its words do not lead to the next one")
                    return
                continue
            ends = _PPU if JobFlag.PPU_DONE in flags else _DPU
            if not task.enable & ends:
                self._give_up(f"{name}: no interrupt")
                return

    def _give_up(self, line: str) -> None:
        """What half a second later looks to the program as if it were done."""
        self.given_up.append(line)

    def _task(self, transport: MachineTransport, row: TaskWords) -> Task:
        """The record of a task: what it starts stands in its last word."""
        amount = row.regcmd_count - TAIL
        if not 0 < amount < _MOST_WORDS:
            raise MachineRefused(
                "PC", 0x14, "PC_DATA_AMOUNT", row.regcmd_count, why="no such number of words"
            )
        words: Words = transport.memory.view(row.regcmd, 8 * row.regcmd_count).view(np.uint64)
        last = int(words[-1])
        enable = last >> 16 & 0xFF if last >> 48 == ENABLE else 0
        return Task(0, 0, enable, 0, 0, 0, amount, 0, row.regcmd)

    def _leads_to(self, transport: MachineTransport, row: TaskWords) -> int:
        """The address that the words behind a task name."""
        words: Words = transport.memory.view(row.regcmd, 8 * row.regcmd_count).view(np.uint64)
        found = (CommandWord.of(int(word)) for word in words[-TAIL:])
        return next((word.value for word in found if word.unit == PC and word.register == NEXT_PROGRAM), 0)

    def _listed(self, transport: MachineTransport, address: int, listed: set[int]) -> bool:
        start = transport.memory.start_of(address)
        return start is not None and start in listed


def _of(kind: type[Structure], raw: bytes) -> Structure:
    """A structure that may be shorter than ours."""
    return kind.from_buffer_copy(raw + bytes(max(0, ct.sizeof(kind) - len(raw))))
