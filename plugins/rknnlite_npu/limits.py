"""Where a submission comes near to what the NPU or its driver bear: sizes of registers, whole groups of channels, time.

Sizes of fields, groups and the time of a job are those that people measured on chips (docs/npu.md names them).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .counts import NodeCount
from .cycles import WIDTHS, node_cycles
from .program import NpuNode, NpuProgram
from .submission import Submission

__all__ = ["Limit", "limits"]

_SIZE = 8191  # 13 bits
_WRITTEN = 8192  # the same, stored less one; a softmax of the converter has as many channels
_RK3588_PICTURE = 2047  # 11 bits of what CNA reads
_NEAR = 15 / 16
_TASKS = {"RKNPU v2": 4095, "RKNPU lite": 4095}  # 12 bits of the number of tasks, elsewhere 16
_MANY_TASKS = 65535
_JOB_SECONDS = 0.5
_CLOCK = 1e9
_RK3588 = "RKNPU v2"
_GROUPS = {(False, False): 32, (False, True): 16, (True, False): 64, (True, True): 32}
"""(depthwise, wider than int8) -> channels that a convolution of RK3588 must compute together; so does every genuine file."""


@dataclass(frozen=True)
class Limit:
    """One of them: ``value`` of at most ``bound``, of a node or of a whole job.

    Attributes:
        name: ``size``, ``group``, ``time``, ``tasks`` or ``nothing``: a node that computes nothing.
        node: which one it is of; "" for a job.
        text: a sentence.
    """

    name: str
    node: str
    value: float
    bound: float
    text: str


def limits(plan: Submission, counts: Sequence[NodeCount], mask: int = 0) -> tuple[Limit, ...]:
    """What comes near a limit, or is beyond it; ``counts`` are those for the mask. One of a kind for each node: the worst."""
    found: dict[tuple[str, str], Limit] = {}
    for one in (*_idle(plan.program), *_sizes(plan.program, counts), *_jobs(plan, counts, mask)):
        worst = found.setdefault((one.name, one.node), one)
        if one.value > worst.value:
            found[one.name, one.node] = one
    return tuple(found.values())


def _idle(program: NpuProgram) -> Iterator[Limit]:
    """Nodes of the NPU without a task whose result is not where their input lies: the converter has dropped their commands."""
    busy = {task.node for task in program.tasks}
    for number, node in enumerate(program.nodes):
        if node.on_npu and node.type and number not in busy and not _in_place(program, node):
            yield Limit(
                "nothing",
                str(node),
                0,
                1,
                f"{node} has no task and its result lies elsewhere: nothing computes it; the converter left its commands out, "
                "so change its sizes (its log says REGTASK)",
            )


def _in_place(program: NpuProgram, node: NpuNode) -> bool:
    """Whether a result lies where an input does; True for nodes without either."""
    sources, results = ({t.offset for t in program.tensors_of(side)} for side in (node.inputs, node.outputs))
    return not results or bool(sources & results)


def _sizes(program: NpuProgram, counts: Sequence[NodeCount]) -> Iterator[Limit]:
    """Sizes that registers hardly hold, and groups of channels that are not whole; what only copies is cut to fit."""
    picture = _RK3588_PICTURE if program.family == _RK3588 else _SIZE
    for node in counts:
        label = str(program.nodes[node.node])
        for task in node.tasks if node.macs else ():
            for verb, bound, sizes in (
                ("reads", picture, task.sizes[:2]),
                ("writes", _WRITTEN, task.sizes[2:]),
            ):
                value = max(sizes)
                if value >= _NEAR * bound:
                    text = f"{label} {verb} {value} in a row, a column or channels, registers hold {bound}"
                    yield Limit("size", label, value, bound, text)
            channels, wide = task.group
            group = _GROUPS[task.work.depthwise, wide]
            if channels % group:
                text = f"{label} ends inside a group of {group} channels ({channels}): on boards such a task does not end"
                yield Limit("group", label, channels % group, group, text)


def _jobs(plan: Submission, counts: Sequence[NodeCount], mask: int) -> Iterator[Limit]:
    widths = WIDTHS[plan.program.family]
    bound = _TASKS.get(plan.program.family, _MANY_TASKS)
    for number, job in enumerate(plan.jobs(mask)):
        first, last = job.nodes
        busy = {plan.program.tasks[task].node for core in job.cores for task in core}
        seconds = sum(node_cycles(counts[node], widths).total for node in busy) / _CLOCK
        if seconds > _JOB_SECONDS / 2:
            yield Limit(
                "time",
                f"job {number}",
                seconds,
                _JOB_SECONDS,
                f"job {number} (nodes {first} to {last}) takes an estimated {seconds:.2g} s at least; the kernel driver of "
                f"mainline ends a job after {_JOB_SECONDS} s and calls that success",
            )
        tasks = max(map(len, job.cores))
        if tasks > _NEAR * bound:
            yield Limit(
                "tasks",
                f"job {number}",
                tasks,
                bound,
                f"job {number} (nodes {first} to {last}) has {tasks} tasks, the NPU counts to {bound}: a driver has to hand them "
                "over in parts",
            )
