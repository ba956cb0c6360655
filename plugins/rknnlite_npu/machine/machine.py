"""Runs task records as one core of the NPU does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..task import Task
from .memory import Memory

__all__ = ["Counts", "Machine"]


class Counts(NamedTuple):
    """What a task did: products, bytes that its units read and wrote (command words apart)."""

    macs: int
    read: int
    written: int


class Machine:
    """One core. Registers and activation tables live on between runs.

    Attributes:
        counts: of each task of the last run.
    """

    def __init__(self, family: str) -> None:
        """``family``: as ``NpuProgram.family`` has it.

        Raises:
            MachineRefused: an NPU whose registers the machine does not know.
        """
        self.family = family
        self.counts: list[Counts] = []

    def run(self, memory: Memory, records: Iterable[Task]) -> None:
        """Execute records in order; their words are read from memory when their turn comes.

        Raises:
            MachineRefused: something of it is not understood, or lies in no buffer. What earlier tasks wrote stays written.
        """
        raise NotImplementedError
