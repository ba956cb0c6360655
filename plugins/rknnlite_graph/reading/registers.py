"""Register commands: which registers the compiler sets for a node, and the tables it uploads.

Containers keep them in different forms: one area of u64 words ``unit << 48 | value << 16 | register`` that task
records (40 bytes) point into, or a blob of words ``value << 32 | register << 16`` per command. Here both are
runs of (registers, values) that belong to a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

__all__ = ["TASK_RECORD", "RegisterProgram"]

TASK_RECORD = np.dtype(
    [
        ("flags", "<u4"),
        ("op", "<u4"),
        ("enable", "<u4"),
        ("int_mask", "<u4"),
        ("int_clear", "<u4"),
        ("int_status", "<u4"),
        ("amount", "<u4"),
        ("offset", "<u4"),
        ("addr", "<u8"),
    ]
)
"""A task: its node (``op``), units, interrupts, and its command words: ``amount`` of them from byte ``addr`` on."""
_LUT_SELECT, _LUT_DATA = 0x4100, 0x4104
_CONVOLUTION = 0x100C  # set by every run that multiplies and accumulates
_LUT_POINTS = 513

Run = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""(register numbers, 32-bit values) in the order of the commands."""


class RegisterProgram:
    """The single-core register program of one graph: runs of commands in the order of their nodes."""

    def __init__(self, nodes: NDArray[np.int64], read: Callable[[int], Run]) -> None:
        """``nodes``: node index per run, ascending; ``read(i)`` decodes run ``i``."""
        self._nodes = nodes
        self._read = read

    @classmethod
    def from_tasks(cls, tasks: memoryview, commands: memoryview, cores: bool = True) -> RegisterProgram:
        """Task records beside one area of words.

        Args:
            cores: programs for one, two and three cores follow each other; only the first is taken. It ends
                where node indices fall.
        """
        records = np.frombuffer(tasks, TASK_RECORD, len(tasks) // TASK_RECORD.itemsize)
        nodes = records["op"].astype(np.int64)
        drop = np.flatnonzero(np.diff(nodes) < 0)
        if cores and len(drop):
            records, nodes = records[: drop[0] + 1], nodes[: drop[0] + 1]
        elif len(drop):
            order = np.argsort(nodes, kind="stable")
            records, nodes = records[order], nodes[order]

        def read(number: int) -> Run:
            task = records[number]
            start, amount = int(task["addr"]), int(task["amount"])
            if start + 8 * amount > len(commands):
                raise ModelInvalid(
                    f"register commands of node {int(task['op'])}: {amount} words at byte {start} leave the blob of "
                    f"{len(commands)} bytes"
                )
            words = np.frombuffer(commands, "<u8", amount, start)
            return words & np.uint64(0xFFFF), (words >> np.uint64(16)) & np.uint64(0xFFFFFFFF)

        return cls(nodes, read)

    @classmethod
    def from_blobs(cls, blobs: Sequence[tuple[int, memoryview]]) -> RegisterProgram:
        """(node, words) per command, ascending by node."""

        def read(number: int) -> Run:
            data = blobs[number][1]
            words = np.frombuffer(data, "<u8", len(data) // 8)
            return (words >> np.uint64(16)) & np.uint64(0xFFFF), words >> np.uint64(32)

        return cls(np.array([node for node, _ in blobs], np.int64), read)

    def _of_node(self, node: int) -> list[Run]:
        low, high = np.searchsorted(self._nodes, [node, node + 1])
        return [self._read(number) for number in range(low, high)]

    def registers(self, node: int) -> list[Mapping[int, int]]:
        """Register number -> value per run of a node; the first one carries all of them."""
        return [
            dict(zip(registers.tolist(), values.tolist()))
            for registers, values in self._of_node(node)
            if not _is_table(registers)
        ]

    def first(self, node: int) -> Mapping[int, int]:
        """Registers of the first run that computes, empty for nodes without.

        Runs that only prepare a convolution, by expanding its 8-bit weights, are passed over.
        """
        chosen: Optional[Run] = None
        low, high = np.searchsorted(self._nodes, [node, node + 1])
        for number in range(low, high):
            run = self._read(number)
            if _is_table(run[0]):
                continue
            if _CONVOLUTION in run[0]:
                chosen = run
                break
            chosen = chosen or run
        return dict(zip(chosen[0].tolist(), chosen[1].tolist())) if chosen else {}

    def tables(self, node: int) -> Optional[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The (LE, LO) tables uploaded for a node, 513 points each; None when there is no upload."""
        found: dict[int, NDArray[np.float64]] = {}
        for registers, values in self._of_node(node):
            if not _is_table(registers):
                continue
            for at in np.flatnonzero(registers == _LUT_SELECT).tolist():
                table = int(values[at]) >> 16 & 1
                points = values[at + 1 : at + 1 + _LUT_POINTS]
                if (
                    len(points) == _LUT_POINTS
                    and (registers[at + 1 : at + 1 + _LUT_POINTS] == _LUT_DATA).all()
                ):
                    signed = (points & np.uint64(0xFFFF)).astype(np.uint16).view(np.int16)
                    found[table] = signed.astype(np.float64)
        if 0 in found and 1 in found:
            return found[0], found[1]
        return None


def _is_table(registers: NDArray[Any]) -> bool:
    return bool(np.count_nonzero(registers == _LUT_DATA) >= _LUT_POINTS)
