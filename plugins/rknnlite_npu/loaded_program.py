"""A program in memory that the NPU sees, ready to run: its words are written once, and where an address changes again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelUnsupported
from rknnlite.spi import CustomOp

from .cores import jobs
from .cpu_nodes import CpuNodes
from .job_times import node_seconds, short_jobs
from .loop_counters import start_values
from .placement import Bases
from .program import NpuProgram
from .program_chain import leads_to
from .program_words import ProgramWords
from .row_moves import RowMove, row_moves
from .stamps import PlacedStamps, Stamps, divided
from .submission import plan_program
from .task import as_records
from .transport import DeviceMemory, GivesUp, MemoryUse, Shared, SubmittedJob, Transport

__all__ = ["LoadedProgram", "SharedWeights"]

Bytes = NDArray[np.uint8]
_LEAST = 64  # bytes of a buffer
_OUTPUT = "OutputOperator"  # puts an output into another order, which is done on the CPU here


class SharedWeights(Shared):
    """The weight buffer of a program."""

    def __init__(self, transport: Transport, program: NpuProgram) -> None:
        super().__init__()
        self.transport = transport
        self.memory = transport.allocate(max(_LEAST, program.weight_size))

    def _free(self) -> None:
        self.memory.close()


class _Step(NamedTuple):
    """What is done next: a job, or the node of the CPU with the number ``last``, which is that of the last node else."""

    last: int
    job: Optional[SubmittedJob] = None
    stamps: Optional[PlacedStamps] = None
    """Where the kernel may lose the job."""
    moves: tuple[RowMove, ...] = ()
    """Before and behind the job."""


class LoadedProgram:
    """Buffers of one program. ``run`` runs it once on what lies in ``io``.

    Attributes:
        io: the memory of each input and output, in the model's order; at first buffers of its own.
        contents: the bytes of each.
    """

    def __init__(
        self,
        program: NpuProgram,
        weights: SharedWeights,
        cpu: CpuNodes,
        duplicate: bool = False,
        internal_flags: int = 0,
    ) -> None:
        """``weights`` belong to this program from now on.

        Args:
            duplicate: it has command words of its own: they hold its addresses.
            internal_flags: those of memory for activations.

        Raises what ``plan`` raises, OutOfMemory.
        """
        self._moves = row_moves(program)
        if self._moves and weights.transport.gives_up is not GivesUp.NEVER:
            raise ModelUnsupported(
                "the runtime moves rows around recurrent nodes, and how was never recorded on a kernel; run the model with "
                "backend='npu-machine', or by the vendor's library"
            )
        self.program, self.cpu = program, cpu
        self._weights, transport = weights, weights.transport
        tensors = [program.tensors[i] for i in (*program.inputs, *program.outputs)]
        self._own = [transport.allocate(max(_LEAST, tensor.size)) for tensor in tensors]
        self.io = list(self._own)
        self.contents = [memory.ndarray for memory in self.io]
        self._internal_flags = internal_flags
        self._internal = transport.allocate(
            max(_LEAST, program.internal_size), MemoryUse.DATA, internal_flags
        )
        self._tasks = transport.allocate(program.record_bytes, MemoryUse.TASKS)
        self._commands = transport.allocate(8 * len(program.words)) if duplicate else None
        bases = Bases(
            weights.memory.address,
            self._internal.address,
            self._tasks.address,
            [memory.address for memory in self.io],
            None if self._commands is None else self._commands.address,
        )
        self.submission = plan_program(program, bases)
        self._closed = False
        self._direct: Mapping[int, DeviceMemory] = {}
        self._steps: dict[tuple[int, bool, bool], list[_Step]] = {}
        self._fill()

    def _fill(self) -> None:
        plan, transport = self.submission, self._weights.transport
        if self._commands is None:
            self._weights.memory.ndarray[: self.program.weight_size] = plan.weight_image()
        else:
            self._commands.ndarray[:] = plan.words.astype("<u8").view(np.uint8)
        records = as_records(plan.tasks)
        self._tasks.ndarray[: len(records)] = records
        for memory in (self._weights.memory, self._commands, self._tasks):
            if memory is not None:
                transport.to_device(memory)

    # -- words that change --------------------------------------------------------------------------------

    @cached_property
    def words(self) -> ProgramWords:
        """The command words in memory."""
        transport, memory = self._weights.transport, self._commands or self._weights.memory
        at = self.program.commands_offset if self._commands is None else 0
        return ProgramWords(self.program, memory, at, transport.to_device)

    def place_all(self, direct: Mapping[int, DeviceMemory]) -> None:
        """Let inputs and outputs lie in memory that is given, by their number (inputs first), the others in the program's own."""
        if direct is not self._direct and (direct or self._direct):
            for number in range(len(self.io)):
                self.place_io(number, direct.get(number))
        self._direct = direct

    def place_io(self, number: int, memory: Optional[DeviceMemory]) -> None:
        """Let input or output ``number`` lie in ``memory`` from its offset on; None: in the program's own."""
        memory = memory or self._own[number]
        if self.io[number] is memory:
            return
        self.io[number], self.contents[number] = memory, memory.ndarray
        self._steps.clear()
        self.words.place(number, memory.address)
        self._start_counters()

    def _start_counters(self) -> None:
        """Let loops count from where tensors lie now."""
        counters, words = self.program.counters, self.words.restored
        if counters and words is not None:
            weights = self._weights.memory
            for place, value in start_values(counters, words, self.submission.placement.commands):
                weights.ndarray[place : place + len(value)] = value
            self._weights.transport.to_device(weights)

    # -- running ------------------------------------------------------------------------------------------

    def view(self, tensor: int) -> Bytes:
        """The bytes of a tensor."""
        named = (*self.program.inputs, *self.program.outputs)
        if tensor in named:
            return self.io[named.index(tensor)].ndarray
        found = self.program.tensors[tensor]
        start = found.offset or 0
        return self._memory_of(tensor).ndarray[start : start + found.size]

    def run(self, mask: int, pixels: bool, after: Optional[Callable[[int], None]] = None) -> None:
        """Run once on the content of ``io``.

        Args:
            mask: cores; 0 is one core.
            pixels: inputs of few channels hold uint8 pixels.
            after: called behind each node with its number; nodes are then jobs of their own.

        Raises what a transport and nodes of the CPU raise.
        """
        self.words.set_pixels(pixels)
        self.words.restore()
        transport, inputs = self._weights.transport, len(self.program.inputs)
        for memory in self.io[:inputs]:
            transport.to_device(memory)
        under_way, steps = False, self._schedule(mask, pixels, after is not None)
        for step in steps:
            if step.job is None:
                if under_way:
                    transport.wait()
                    under_way = False
                self._run_on_cpu(step.last)
            elif step.moves:
                self._run_between(step.job, step.moves)
                under_way = False
            else:
                under_way = self._submit(step.job, step.stamps)
            if after is not None:
                transport.wait()
                transport.from_device(self._internal)
                after(step.last)
        transport.wait()
        last = steps[-1].stamps if steps else None
        for memory in self.io[inputs:]:
            if last is None or memory not in last.memories:  # else it was looked at
                transport.from_device(memory)

    def _submit(self, job: SubmittedJob, stamps: Optional[PlacedStamps]) -> bool:
        """Begin a job; whether it is still under way then. One that may be lost is waited for and looked at."""
        transport = self._weights.transport
        if stamps is None:
            transport.submit(job)
            return True
        stamps.put()
        for memory in stamps.memories:
            transport.to_device(memory)
        transport.submit(job)
        transport.wait()
        for memory in stamps.memories:
            transport.from_device(memory)
        stamps.check()
        return False

    def _run_between(self, job: SubmittedJob, moves: Sequence[RowMove]) -> None:
        """Run a job for which rows are moved, and wait for it."""
        transport = self._weights.transport
        transport.wait()
        for before in (True, False):
            for move in (move for move in moves if move.before is before):
                for source in move.sources:
                    transport.from_device(self._memory_of(source))
                move.run(self.view)
                transport.to_device(self._memory_of(move.target))
            if before:
                transport.submit(job)
                transport.wait()

    def _buffer_memory(self, output: Optional[int]) -> DeviceMemory:
        """That of an output, or the internal one."""
        return self._internal if output is None else self.io[len(self.program.inputs) + output]

    def _run_on_cpu(self, number: int) -> None:
        transport = self._weights.transport
        reads, writes = ({id(m): m for m in map(self._memory_of, part)} for part in self.cpu.touched(number))
        for memory in reads.values():
            transport.from_device(memory)
        self.cpu.run(number, self.view)
        for memory in writes.values():
            transport.to_device(memory)

    def _memory_of(self, tensor: int) -> DeviceMemory:
        named = (*self.program.inputs, *self.program.outputs)
        if tensor in named:
            return self.io[named.index(tensor)]
        return self._weights.memory if self.program.tensors[tensor].constant else self._internal

    def _schedule(self, mask: int, pixels: bool, each: bool) -> list[_Step]:
        """Jobs and nodes of the CPU in order; ``each``: a job per node."""
        key = (mask, pixels, each)
        if key not in self._steps:
            self._steps[key] = self._scheduled(*key)
        return self._steps[key]

    def _scheduled(self, mask: int, pixels: bool, each: bool) -> list[_Step]:
        found, transport = [_Step(number) for number in self.cpu.numbers], self._weights.transport
        seconds = node_seconds(self.submission, mask) if transport.job_seconds else {}
        for job in jobs(self.program, mask, pixels):
            node_of = {i: self.program.tasks[i].node for core in job.cores for i in core}
            node_of = {i: node for i, node in node_of.items() if self.program.nodes[node].type != _OUTPUT}
            parts: list[tuple[Collection[int], Optional[Stamps]]] = []
            for nodes in short_jobs(set(node_of.values()), seconds, transport.job_seconds):
                if each:
                    parts += [({node}, None) for node in nodes]
                elif transport.gives_up is GivesUp.NEVER:
                    parts.append((nodes, None))
                else:
                    tasks = [i for i, node in node_of.items() if node in nodes]
                    parts += divided(self.program, tasks, transport.gives_up is GivesUp.SILENTLY)
            for nodes, stamps, moves in self._parted(parts):
                cores = [[i for i in core if node_of.get(i) in nodes] for core in job.cores]
                if nodes:
                    placed = None if stamps is None else stamps.placed(self._buffer_memory)
                    found.append(_Step(max(nodes), self._job(mask, cores), placed, moves))
        return sorted(found, key=lambda step: step.last)

    def _parted(
        self, parts: Iterable[tuple[Collection[int], Optional[Stamps]]]
    ) -> Iterator[tuple[Collection[int], Optional[Stamps], tuple[RowMove, ...]]]:
        """Parts of a job, with nodes for which rows are moved apart from the others."""
        for nodes, stamps in parts:
            rest: set[int] = set()
            moved = {n: tuple(m for m in self._moves if m.node == n) for n in nodes}
            for node in sorted(nodes):
                if moved[node]:
                    yield rest, None, ()
                    yield {node}, stamps, moved[node]
                    rest = set()
                else:
                    rest = {*rest, node}
            yield rest, stamps, ()

    def _job(self, mask: int, cores: Sequence[Sequence[int]]) -> SubmittedJob:
        """One job; records of a core follow each other in the task buffer."""
        tasks = self.submission.tasks
        constants = (self._weights.memory, self._commands)
        return SubmittedJob(
            mask=mask or 1,
            cores=tuple(range(core[0], core[-1] + 1) if core else range(0) for core in cores),
            tasks=tuple(tuple(tasks[i] for i in core) for core in cores),
            linked=tuple(tuple(map(self._linked, core, [*core[1:], None])) for core in cores),
            task_memory=self._tasks,
            reads=[memory for memory in constants if memory is not None],
            writes=[self._internal, *self.io],
        )

    def _linked(self, task: int, following: Optional[int]) -> bool:
        return following is not None and leads_to(self.program, task) == self.program.tasks[following].address

    def twin(self, ops: Mapping[str, CustomOp]) -> LoadedProgram:
        """The same program for another context: weights are shared, all else is its own. Loops count among the weights."""
        own = bool(self.program.counters)
        weights = SharedWeights(self._weights.transport, self.program) if own else self._weights.share()
        return LoadedProgram(self.program, weights, self.cpu.twin(ops), not own, self._internal_flags)

    def close(self) -> None:
        """Free the buffers; may be called again."""
        if self._closed:
            return
        self._closed = True
        self.cpu.close()
        self._steps.clear()
        for memory in (*self._own, self._internal, self._tasks, self._commands):
            if memory is not None:
                memory.close()
        self._weights.release()
