"""Which core gets which tasks, and in which jobs they reach the kernel.

A file holds one list of records per way of dividing the cores, one after the other, and says where each begins. In a list
that several cores share those of the first core come first. A job is what the runtime hands over at once: nodes that follow
each other, until one runs on the CPU; nodes with an activation table are kept apart from those without (recorded: 19 networks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rknnlite.errors import ModelInvalid, ParamInvalid

from .program import NpuNode, NpuProgram

__all__ = ["Job", "jobs", "legal_masks", "tasks_of_cores"]

_MASKS = {5: (1, 2, 4, 3, 7), 3: (1, 2, 3)}
"""Number of lists that a file names -> the core mask of each."""
_INPUT = "InputOperator"


@dataclass(frozen=True)
class Job:
    """Tasks that are handed over together.

    Attributes:
        nodes: first and last node.
        tables: whether it uploads activation tables.
        cores: per core the indices of its records, in order.
    """

    nodes: tuple[int, int]
    tables: bool
    cores: tuple[tuple[int, ...], ...]


def legal_masks(program: NpuProgram) -> tuple[int, ...]:
    """The core masks that the file has lists for."""
    return _MASKS.get(len(program.first_tasks), (1,))


def tasks_of_cores(program: NpuProgram, mask: int = 0) -> tuple[range, ...]:
    """Per core the indices of its records; mask 0 is one core.

    Raises:
        ParamInvalid: a mask that the file has no list for.
        ModelInvalid: the file's numbers of tasks contradict each other.
    """
    masks, total = legal_masks(program), len(program.tasks)
    if mask not in (0, *masks):
        raise ParamInvalid(
            f"core mask {mask:#x}: the file has tasks for the masks {', '.join(map(hex, masks))}"
        )
    if len(masks) == 1:
        return (range(total),)
    starts = [*program.first_tasks, total]
    if starts[0] != 0 or any(a > b for a, b in zip(starts, starts[1:])):
        raise ModelInvalid(f"damaged file: lists of tasks that begin at {starts[:-1]}, of {total}")
    number = masks.index(mask or masks[0])
    start, end = starts[number : number + 2]
    cores = bin(masks[number]).count("1")
    if cores == 1:  # cores may share their list
        return (range(start, next((at for at in starts[number:] if at > start), total)),)
    if start == end:  # the network was compiled for one core
        return tasks_of_cores(program)
    columns = sum(range(cores))  # one for one core, two for two, three for three
    counts = [_count(program.nodes, column) for column in range(columns, columns + cores)]
    if sum(counts) != end - start:
        raise ModelInvalid(f"damaged file: {counts} tasks for {cores} cores in a list of {end - start}")
    ends = [start + count for count in accumulate(counts)]
    return tuple(range(end - count, end) for end, count in zip(ends, counts))


def _count(nodes: Sequence[NpuNode], column: int) -> int:
    return sum(sum(counts[column : column + 1]) for n in nodes for counts in (n.tasks, n.table_tasks))


def jobs(program: NpuProgram, mask: int = 0, pixels: bool = False) -> tuple[Job, ...]:
    """What the runtime hands over, job by job. With ``pixels`` the NPU reads what the caller gave, and the nodes that
    arrange inputs for it have nothing to do.
    """
    cores = tasks_of_cores(program, mask)
    found = []
    for nodes in _runs(program, {program.tasks[i].node for core in cores for i in core}, pixels):
        lists = tuple(tuple(i for i in core if program.tasks[i].node in nodes) for core in cores)
        found.append(Job((nodes[0], nodes[-1]), any(program.nodes[nodes[0]].table_tasks), lists))
    return tuple(found)


def _runs(program: NpuProgram, used: set[int], pixels: bool) -> Iterator[list[int]]:
    """Nodes that follow each other on the NPU and are alike in that they have tables, or have none."""
    run: list[int] = []
    for index in sorted(used):
        node = program.nodes[index]
        if not node.on_npu or (pixels and node.type == _INPUT):
            continue
        if run and (
            not all(program.nodes[i].on_npu for i in range(run[-1], index))
            or any(node.table_tasks) != any(program.nodes[run[0]].table_tasks)
        ):
            yield run
            run = []
        run.append(index)
    if run:
        yield run
