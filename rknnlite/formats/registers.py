"""Register commands: which registers the compiler sets for a node, and the tables it uploads.

A task record (40 bytes) points to a run of u64 words ``unit << 48 | value << 16 | register``. Tasks of the
single-core program come first; their node indices do not decrease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid

__all__ = ["Program"]

_TASK = np.dtype(
    [("flags", "<u4"), ("op", "<u4"), ("enable", "<u4"), ("int_mask", "<u4"), ("int_clear", "<u4"),
     ("int_status", "<u4"), ("amount", "<u4"), ("offset", "<u4"), ("addr", "<u8")]
)  # fmt: skip
_LUT_SELECT, _LUT_DATA = 0x4100, 0x4104
_LUT_POINTS = 513


class Program:
    """The single-core register program of one graph."""

    def __init__(self, tasks: memoryview, commands: memoryview) -> None:
        records = np.frombuffer(tasks, _TASK, len(tasks) // _TASK.itemsize)
        ops = records["op"].astype(np.int64)
        drop = np.flatnonzero(np.diff(ops) < 0)
        self._tasks = records[: drop[0] + 1] if len(drop) else records
        self._ops = ops[: len(self._tasks)]
        self._commands = commands

    def _words(self, task: Any) -> NDArray[np.uint64]:
        start, amount = int(task["addr"]), int(task["amount"])
        if start + 8 * amount > len(self._commands):
            raise ModelInvalid(
                f"register commands of node {int(task['op'])}: {amount} words at byte {start} leave the blob of "
                f"{len(self._commands)} bytes"
            )
        return np.frombuffer(self._commands, "<u8", amount, start)

    def _of_node(self, node: int) -> list[NDArray[np.uint64]]:
        low, high = np.searchsorted(self._ops, [node, node + 1])
        return [self._words(task) for task in self._tasks[low:high]]

    def registers(self, node: int) -> list[Mapping[int, int]]:
        """Register number -> value per task of a node; the first task carries all of them."""
        result: list[Mapping[int, int]] = []
        for words in self._of_node(node):
            registers = words & np.uint64(0xFFFF)
            if not _is_table(registers):
                values = (words >> np.uint64(16)) & np.uint64(0xFFFFFFFF)
                result.append(dict(zip(registers.tolist(), values.tolist())))
        return result

    def first(self, node: int) -> Mapping[int, int]:
        """Registers of the first task that computes, empty for nodes without tasks."""
        low, high = np.searchsorted(self._ops, [node, node + 1])
        for task in self._tasks[low:high]:
            words = self._words(task)
            registers = words & np.uint64(0xFFFF)
            if not _is_table(registers):
                values = (words >> np.uint64(16)) & np.uint64(0xFFFFFFFF)
                return dict(zip(registers.tolist(), values.tolist()))
        return {}

    def tables(self, node: int) -> Optional[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The (LE, LO) tables uploaded for a node, 513 points each; None when there is no upload."""
        found: dict[int, NDArray[np.float64]] = {}
        for words in self._of_node(node):
            registers = (words & np.uint64(0xFFFF)).astype(np.int64)
            if not _is_table(registers):
                continue
            values = (words >> np.uint64(16)) & np.uint64(0xFFFFFFFF)
            for at in np.flatnonzero(registers == _LUT_SELECT).tolist():
                table = int(values[at]) >> 16 & 1
                points = values[at + 1 : at + 1 + _LUT_POINTS]
                if len(points) == _LUT_POINTS and (registers[at + 1 : at + 1 + _LUT_POINTS] == _LUT_DATA).all():
                    signed = (points & np.uint64(0xFFFF)).astype(np.uint16).view(np.int16)
                    found[table] = signed.astype(np.float64)
        if 0 in found and 1 in found:
            return found[0], found[1]
        return None


def _is_table(registers: NDArray[Any]) -> bool:
    return bool(np.count_nonzero(registers == _LUT_DATA) >= _LUT_POINTS)
