"""A job on machines: one for each core, which meet behind every node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rknnlite_graph.reading.registers import TASK_RECORD

from rknnlite.errors import InputInvalid

from .machine.machine import Machine
from .machine.memory import Bytes, Memory
from .machine.refused import MachineRefused
from .task import Task

__all__ = ["MOST_CORES", "run_on_cores", "tasks_in"]

MOST_CORES = 3


def tasks_in(content: Bytes, records: range) -> tuple[Task, ...]:
    """Records of a task buffer. Raises InputInvalid where it does not hold them."""
    count = len(content) // TASK_RECORD.itemsize
    if records.start < 0 or records.stop > count:
        raise InputInvalid(f"task records {records.start} to {records.stop}, the buffer holds {count}")
    found = content[: count * TASK_RECORD.itemsize].view(TASK_RECORD)[records.start : records.stop]
    return tuple(Task(*record) for record in found.tolist())


def run_on_cores(machines: Sequence[Machine], memory: Memory, cores: Sequence[Sequence[Task]]) -> None:
    """Run the records of each core on its machine, node by node: what a core has written the others read behind it.

    Raises:
        MachineRefused: what came before stays written.
        InputInvalid: more cores than machines.
    """
    if len(cores) > len(machines):
        raise InputInvalid(f"a job for {len(cores)} cores, there are {len(machines)}")
    for node in np.unique([task.node for tasks in cores for task in tasks]).tolist():
        for machine, tasks in zip(machines, cores):
            part = [task for task in tasks if task.node == node]
            try:
                if part:
                    machine.run(memory, part)
            except MachineRefused as refused:
                refused.node = node
                raise
