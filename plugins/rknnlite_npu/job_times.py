"""Jobs that are short enough: a kernel gives up what takes too long, so nodes that may are handed over in several jobs.

An estimate that is meant to be too long: the clock is the lowest that drivers set, and every task waits for an interrupt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rknnlite.errors import ModelUnsupported

from .counts import TaskCount, count_tasks
from .cycles import WIDTHS, Widths, task_cycles
from .submission import Submission

__all__ = ["node_seconds", "short_jobs"]

_CLOCK = 200e6  # hertz: mainline's rocket on RK3588, which vendors run at 1 GHz
_MEMORY_CLOCK = 1e9  # of ``Widths.memory_bytes``
_KICK = 400e-6  # seconds: the longest that was measured, on RK3576
_MARGIN = 2


def node_seconds(plan: Submission, mask: int = 0) -> dict[int, float]:
    """How long each node may take, on the busiest of the cores of a mask; empty for a family whose registers are not known."""
    widths = WIDTHS.get(plan.program.family)
    per_core: dict[tuple[int, int], float] = {}
    try:
        for task in count_tasks(plan, mask) if widths is not None else ():
            assert widths is not None
            key = task.node, task.core
            per_core[key] = per_core.get(key, 0.0) + _task_seconds(task, widths)
    except ModelUnsupported:
        return {}
    found: dict[int, float] = {}
    for (node, _), seconds in per_core.items():
        found[node] = max(found.get(node, 0.0), seconds)
    return found


def _task_seconds(task: TaskCount, widths: Widths) -> float:
    cycles = task_cycles(task, widths)
    return _KICK + max(cycles.computing / _CLOCK, cycles.memory / _MEMORY_CLOCK)


def short_jobs(nodes: Iterable[int], seconds: Mapping[int, float], limit: float) -> list[Collection[int]]:
    """Nodes of one job, in jobs that end before ``limit`` seconds (0: none), as far as whole nodes do."""
    found: list[Collection[int]] = []
    rest, most = 0.0, limit / _MARGIN
    for node in sorted(nodes):
        spent = seconds.get(node, 0.0)
        if found and (not limit or rest + spent <= most):
            found[-1] = [*found[-1], node]
        else:
            found.append([node])
            rest = 0.0
        rest += spent
    return found
