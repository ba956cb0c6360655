"""Task records: 40 bytes that tell the kernel which command words to start, and what to wait for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.reading.registers import TASK_RECORD

__all__ = ["Task", "as_records", "as_table", "read_tasks"]


class Task(NamedTuple):
    """A record. ``node`` counts the nodes of the graph; ``amount`` are command words without the four that end a program,
    ``address`` is that of the first one: in a file counted from the start of all words, in a submission as the NPU sees it.
    """

    flags: int
    node: int
    enable: int
    """A bit per unit that is started."""
    interrupt_mask: int
    interrupt_clear: int
    interrupt_status: int
    amount: int
    offset: int
    address: int

    @property
    def first(self) -> int:
        """Of a task in a file: the index of its first word."""
        return self.address // 8


def read_tasks(data: memoryview) -> tuple[Task, ...]:
    """All records; bytes that are no whole record are left out."""
    records = np.frombuffer(data, TASK_RECORD, len(data) // TASK_RECORD.itemsize)
    return tuple(Task(*record) for record in records.tolist())


def as_table(tasks: Iterable[Task]) -> NDArray[np.uint64]:
    """(n, 9) numbers, in the order of the fields."""
    return np.array(list(tasks), np.uint64).reshape(-1, len(Task._fields))


def as_records(tasks: Iterable[Task]) -> NDArray[np.uint8]:
    """The bytes of a task buffer."""
    return np.array([tuple(task) for task in tasks], TASK_RECORD).view(np.uint8)
