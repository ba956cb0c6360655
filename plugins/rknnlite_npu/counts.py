"""What a submission costs, counted from its registers: tasks, command words, products, bytes fetched and written.

A pure function of a plan. Bytes are those that the units ask memory for: a row tile that its neighbour needs as well counts
twice, weights that stay in the buffer of the NPU count once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType

from .command_words import CNA, DPU, DPU_RDMA, PPU, PPU_RDMA, TAIL, Words, with_values
from .program import COMMAND_KINDS, NpuProgram, NpuTensor
from .register_groups import started_registers, units_started
from .submission import Submission
from .task_sizes import Pair, SizeMap, size_map

__all__ = ["NodeCount", "TaskCount", "Work", "count", "count_tasks"]

_IMAGE_CHANNELS = (1, 3, 4)
_UPLOAD = 16
"""Bytes that a task copies onto themselves while it uploads an activation table."""
_MOST_SHARED = 256  # times that a word runs, on average: 20 at most in genuine files
_BLOCK = 5  # dims of a tensor in NC1HWC2


class Work(NamedTuple):
    """What one task computes, padding of channels not counted.

    Attributes:
        positions: height times width of what it writes.
        taps: elements of a kernel in height and width; 0 where nothing is multiplied.
        inputs, outputs: channels.
        depthwise: each output channel has one input channel.
        bits: of an element of what it reads.
    """

    positions: int
    outputs: int
    taps: int = 0
    inputs: int = 0
    depthwise: bool = False
    bits: int = 8

    @property
    def macs(self) -> int:
        """Products."""
        return self.positions * self.outputs * self.taps * (1 if self.depthwise else self.inputs)


@dataclass(frozen=True)
class TaskCount:
    """One task on the core that runs it.

    Attributes:
        task: index of its record.
        words: command words with those that end it.
        features, constants, operands: bytes fetched: of the activation that it goes over, of weights and biases, of what is
            added, multiplied or copied.
        written: bytes.
        sizes: (height, width) of what ``CNA`` reads, (height, width, channels) of what ``DPU`` writes; 0 where it does not.
        group: (channels that RK3588 computes together, whether they are wider than 8 bits); (0, False) on other families.
    """

    task: int
    node: int
    core: int
    words: int
    work: Work
    features: int
    constants: int
    operands: int
    written: int
    sizes: tuple[int, int, int, int, int]
    group: tuple[int, bool] = (0, False)

    @property
    def fetched(self) -> int:
        """Bytes fetched, command words among them."""
        return self.features + self.constants + self.operands + 8 * self.words

    @property
    def moved(self) -> int:
        """Bytes fetched and written."""
        return self.fetched + self.written


@dataclass(frozen=True)
class NodeCount:
    """All tasks of one node; ``cores`` has its share of them for each core."""

    node: int
    type: str
    name: str
    tasks: tuple[TaskCount, ...]
    cores: int

    @property
    def words(self) -> int:
        """Command words."""
        return sum(task.words for task in self.tasks)

    @property
    def macs(self) -> int:
        """Products."""
        return sum(task.work.macs for task in self.tasks)

    @property
    def fetched(self) -> int:
        """Bytes."""
        return sum(task.fetched for task in self.tasks)

    @property
    def written(self) -> int:
        """Bytes."""
        return sum(task.written for task in self.tasks)

    @property
    def tasks_of_cores(self) -> tuple[int, ...]:
        """Tasks per core."""
        return tuple(sum(task.core == core for task in self.tasks) for core in range(self.cores))


def count(plan: Submission, mask: int = 0) -> tuple[NodeCount, ...]:
    """Per node what the cores of a mask do, nodes without tasks among them; 0 is one core.

    Raises:
        ParamInvalid: a mask that the file has no tasks for.
        ModelInvalid: the file is damaged.
        ModelUnsupported: a family whose registers are not known.
    """
    found: dict[int, list[TaskCount]] = {}
    for task in count_tasks(plan, mask):
        found.setdefault(task.node, []).append(task)
    cores = max((len(job.cores) for job in plan.jobs(mask)), default=1) or 1
    return tuple(
        NodeCount(number, node.type, node.name, tuple(found.get(number, ())), cores)
        for number, node in enumerate(plan.program.nodes)
    )


def count_tasks(plan: Submission, mask: int = 0) -> Iterator[TaskCount]:
    """The tasks that the cores of a mask run, job after job, core after core."""
    program, sizes = plan.program, size_map(plan.program.family)
    entries = _entries(program)
    handed = [(core, tasks) for job in plan.jobs(mask) for core, tasks in enumerate(job.cores)]
    _check_work(program, [task for _, tasks in handed for task in tasks])
    spans = _spans(program, [task for _, tasks in handed for task in tasks])
    for core, tasks in handed:
        records = [program.tasks[task] for task in tasks]
        values = started_registers((r.enable, plan.words_of(t)[:-TAIL]) for r, t in zip(records, tasks))
        marks = started_registers((r.enable, entries[r.first : r.first + r.amount]) for r in records)
        for task, registers, relocated in zip(tasks, values, marks):
            flat = {number: value for unit in registers.values() for number, value in unit.items()}
            yield _Reads(program, sizes, flat, spans).count(task, core, relocated)


def _check_work(program: NpuProgram, tasks: Sequence[int]) -> None:
    """Records may share words; a file that lets thousands share thousands of them would cost hours."""
    words = sum(program.tasks[task].amount for task in tasks)
    if words > _MOST_SHARED * len(program.words):
        raise ModelInvalid(
            f"damaged file: its {len(tasks)} tasks run {words} command words, of which it holds {len(program.words)}"
        )


def _entries(program: NpuProgram) -> Words:
    """The words with the number of their entry in the list of addresses, plus one, as value; 0 where they have none."""
    numbers = np.zeros(len(program.words), np.uint64)
    for number, relocation in enumerate(program.relocations):
        numbers[relocation.word] = number + 1
    return with_values(program.words, numbers)


Spans = Mapping[tuple[int, int], Sequence[int]]
"""(tensor, register) -> offsets in it that some task begins at, ascending."""


def _spans(program: NpuProgram, tasks: Sequence[int]) -> Spans:
    """Where the parts of constants begin that tasks read one each."""
    ranges = sorted({(program.tasks[t].first, program.tasks[t].amount) for t in tasks})
    starts = [first for first, _ in ranges]
    found: dict[tuple[int, int], set[int]] = {}
    for tensor, offset, word in program.relocations:
        at = bisect_right(starts, word) - 1
        if at >= 0 and word < sum(ranges[at]) and program.tensors[tensor].constant:
            found.setdefault((tensor, int(program.words[word]) & 0xFFFF), set()).add(offset)
    return {key: sorted(offsets) for key, offsets in found.items()}


@dataclass(frozen=True)
class _Reads:
    """One task and its registers."""

    program: NpuProgram
    sizes: SizeMap
    registers: Mapping[int, int]
    spans: Spans

    def count(self, task: int, core: int, relocated: Mapping[int, Mapping[int, int]]) -> TaskCount:
        """``relocated``: per unit that starts, register -> number of its entry plus one."""
        record, sizes = self.program.tasks[task], self.sizes
        features = constants = operands = written = 0
        work, bits = Work(0, 0), 8
        units = units_started(record.enable)
        entries = {
            unit: {number: entry - 1 for number, entry in relocated.get(unit, {}).items() if entry}
            for unit in units
        }
        if CNA in units:
            source = self._tensor(entries[CNA].get(sizes.features))
            if source is not None:
                bits = _bits(source)
                deep = sizes.channels_fetched(self.registers, bits)
                features = self._cube(sizes.fetched, deep, source)
            work, constants = self._product(entries[CNA], bits)
        if DPU_RDMA in units:
            deep, seen = sizes.operand_channels.of(self.registers), set()
            for number, entry in entries[DPU_RDMA].items():
                tensor = self._tensor(entry)
                if tensor is None:
                    operands += _UPLOAD
                elif tensor.constant:
                    constants += self._part(entry, number)
                elif tensor.name not in seen:  # two channels of the unit share the surfaces of one operand
                    seen.add(tensor.name)
                    operands += self._cube(sizes.operand, deep, tensor)
        if PPU_RDMA in units:
            deep = sizes.pool_fetched_channels.of(self.registers)
            for entry in entries[PPU_RDMA].values():
                features += self._cube(sizes.pool_fetched, deep, self._tensor(entry))
        for unit, cube, channels in (
            (DPU, sizes.written, sizes.stored_outputs or sizes.written_channels),
            (PPU, sizes.pool_written, sizes.pool_written_channels),
        ):
            if unit in units:
                deep = channels.of(self.registers)
                tensor = next(map(self._tensor, entries[unit].values()), None)
                written += self._cube(cube, deep, tensor) if entries[unit] else 0
                if not work.positions:
                    work = Work(
                        cube[0].of(self.registers) * cube[1].of(self.registers), deep, bits=_bits(tensor)
                    )
        fetched = [size.of(self.registers) if CNA in units else 0 for size in sizes.fetched]
        size = [s.of(self.registers) if DPU in units else 0 for s in (*sizes.written, sizes.written_channels)]
        return TaskCount(
            task=task,
            node=record.node,
            core=core,
            words=record.amount + TAIL,
            work=work,
            features=features,
            constants=constants,
            operands=operands,
            written=written,
            sizes=(fetched[0], fetched[1], size[0], size[1], size[2]),
            group=sizes.group(self.registers) if work.taps else (0, False),
        )

    def _product(self, entries: Mapping[int, int], bits: int) -> tuple[Work, int]:
        """What ``CNA`` and ``CORE`` multiply, and the bytes of weights that are fetched for it."""
        sizes, registers = self.sizes, self.registers
        height, width = (size.of(registers) for size in sizes.written)
        outputs = sizes.written_channels.of(registers)
        entry = entries.get(sizes.weights)
        if entry is None:  # windows of a pool
            return Work(height * width, outputs, bits=bits), 0
        taps = sizes.kernel[0].of(registers) * sizes.kernel[1].of(registers)
        inputs = sizes.channels_fetched(registers, bits)
        work = Work(height * width, outputs, taps, inputs, bool(sizes.depthwise.of(registers)), bits)
        if sizes.weights_kept.of(registers):
            return work, 0
        tensor = self._tensor(entry)
        if tensor is not None and tensor.constant:
            return work, self._part(entry, sizes.weights)
        return work, outputs * taps * (1 if work.depthwise else inputs) * bits // 8

    def _tensor(self, entry: Optional[int]) -> Optional[NpuTensor]:
        """What an entry of the list names; None for command words."""
        if entry is None:
            return None
        tensor = self.program.tensors[self.program.relocations[entry].tensor]
        return None if tensor.kind in COMMAND_KINDS else tensor

    def _part(self, entry: int, number: int) -> int:
        """Bytes of a constant from an offset on, up to where another task begins."""
        relocation = self.program.relocations[entry]
        offsets = self.spans.get((relocation.tensor, number), ())
        at = bisect_right(offsets, relocation.offset)
        end = offsets[at] if at < len(offsets) else self.program.tensors[relocation.tensor].size
        return max(0, end - relocation.offset)

    def _cube(self, sizes: Pair, deep: int, tensor: Optional[NpuTensor]) -> int:
        """Bytes of so many rows, columns and channels of a tensor, padding of channels among them."""
        if tensor is None:
            return _UPLOAD
        height, width = (size.of(self.registers) for size in sizes)
        lanes = tensor.native[-1] if len(tensor.native) == _BLOCK else 1
        if lanes > max(_IMAGE_CHANNELS):
            deep = -(-deep // lanes) * lanes
        size = height * width * deep * _bits(tensor) // 8
        return min(size, tensor.size) if tensor.size else size


def _bits(tensor: Optional[NpuTensor]) -> int:
    """Of an element."""
    return 8 if tensor is None else (tensor.dtype or DType.INT8).bits
