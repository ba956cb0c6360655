"""Runs task records as one core of the NPU does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..command_words import (
    CNA,
    CORE,
    DPU,
    DPU_RDMA,
    PC,
    PPU,
    PPU_RDMA,
    UNITS,
    Words,
    numbers_of,
    units_of,
    values_of,
)
from ..task import Task
from .cna import fetch
from .core import accumulate
from .designs import DESIGNS
from .dpu import form_of, put_out
from .lut import Tables
from .memory import Memory
from .ppu import pool
from .prepared_weights import WeightStore
from .rdma import Operands, PerChannel, fetch_operands
from .refused import MachineRefused
from .registers import STARTED, UnitRegisters
from .window_maxima import POOLS, maxima

__all__ = ["Counts", "Machine"]

_TABLES = (0x4100, 0x4104)
_NEXT = ((PC, 0x10), (PC, 0x14))  # where the next program begins, how much of it is fetched
_NO_NUMBERS = PerChannel(None, None, None)
_NO_OPERANDS = Operands(None, None, _NO_NUMBERS, _NO_NUMBERS, 0)
_MOST_WORDS = 1 << 16  # of a task


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
        if family not in DESIGNS:
            known = ", ".join(DESIGNS)
            raise MachineRefused(
                "machine", None, f"family {family}", None, why=f"it knows the registers of {known}"
            )
        self.family = family
        self.counts: list[Counts] = []
        self._design = DESIGNS[family]
        self._tables = Tables()
        self._weights = WeightStore()
        self._registers: dict[int, tuple[dict[int, int], dict[int, int]]] = {u: ({}, {}) for u in STARTED}
        self._turn = dict.fromkeys(STARTED, 0)

    def run(self, memory: Memory, records: Iterable[Task]) -> None:
        """Execute records in order; their words are read from memory when their turn comes.

        Raises:
            MachineRefused: something of it is not understood, or lies in no buffer. What earlier tasks wrote stays written.
        """
        self.counts = []
        for number, task in enumerate(records):
            try:
                words = self._fetched(memory, task)
                units = self._started(task, words, number)
                self.counts.append(self._execute(memory, units))
            except MachineRefused as refused:
                if refused.task is None:
                    refused.task = number
                raise

    @staticmethod
    def _fetched(memory: Memory, task: Task) -> Words:
        if not 0 < task.amount <= _MOST_WORDS:
            raise MachineRefused("PC", None, "regcfg_amount", task.amount, why="no number of command words")
        return memory.view(task.address, 8 * task.amount).copy().view("<u8").astype(np.uint64, copy=False)

    def _started(self, task: Task, words: Words, number: int) -> Mapping[int, UnitRegisters]:
        """Write the words into the groups that are not in use, and give the registers of the units that start."""
        uploads = []
        parts = (units_of(words), numbers_of(words), values_of(words))
        for of, register, value in zip(*(part.tolist() for part in parts)):
            unit = self._design.parts.get(of, of)
            if unit == DPU and register in _TABLES:
                uploads.append((register, value))
            elif unit in self._registers:
                self._registers[unit][self._turn[unit]][register] = value
            elif (
                unit,
                register,
            ) not in _NEXT:  # the order is what the records say; recurrent nodes have such words
                name = UNITS.get(unit, f"unit {unit:#06x}")
                raise MachineRefused(name, register, "word", value, number, "a word among those of a task")
        if uploads:
            self._tables.upload(uploads)
        bits_of = self._design.bits
        known = sum(bits_of.values())
        if task.enable & ~known:
            raise MachineRefused("ENABLE", None, "units", task.enable, number)
        started = {}
        for unit, bits in bits_of.items():
            if task.enable & bits not in (0, bits):
                raise MachineRefused("ENABLE", None, "units", task.enable, number, f"{UNITS[unit]} in part")
            if task.enable & bits:
                values = self._registers[unit][self._turn[unit]]
                started[unit] = UnitRegisters(unit, values, number, self._design)
                if unit == CNA and not self._design.core:
                    started[CORE] = UnitRegisters(CORE, values, number, self._design)
                self._turn[unit] ^= 1
        return started

    def _execute(self, memory: Memory, units: Mapping[int, UnitRegisters]) -> Counts:
        """Run the units that start together."""
        names = set(units)
        if names == {PPU, PPU_RDMA}:
            return Counts(0, *pool(units[PPU], units[PPU_RDMA], memory))
        computing = names & {CNA, CORE}
        if DPU not in names or len(computing) == 1 or names & {PPU, PPU_RDMA}:
            started = " ".join(UNITS[unit] for unit in units) or "nothing"
            raise MachineRefused(
                "ENABLE",
                None,
                "units",
                sum(self._design.bits.get(u, 0) for u in names),
                why=f"{started} alone starts",
            )
        sums, macs, read = None, 0, 0
        if computing:
            if not self._design.core and units[CNA][POOLS]:
                sums = maxima(units[CNA], memory)
            else:
                fetched = fetch(units[CNA], memory, self._weights)
                sums = accumulate(units[CORE], fetched)
                read = fetched.read
            macs = sums.macs
        form = form_of(units[DPU], units.get(DPU_RDMA))
        operands = _NO_OPERANDS
        if DPU_RDMA in units:
            operands = fetch_operands(units[DPU_RDMA], memory, form.flying, form.precision, form.channels)
        written = put_out(units[DPU], form, memory, sums, operands, self._tables)
        return Counts(macs, read + operands.read, written)
