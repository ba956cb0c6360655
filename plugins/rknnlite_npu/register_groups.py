"""What registers hold when a task starts: every unit has two groups of them, which take turns, and keeps both.

A task writes into the group that its unit does not use; then the unit is started with it. So what a task leaves unwritten is
what the last task but one of that unit left there: later tasks of a node write differences alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from .command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, Words, numbers_of, units_of, values_of

__all__ = ["STARTED", "Registers", "started_registers", "units_started"]

Registers = Mapping[int, Mapping[int, int]]
"""Unit -> register -> value."""

STARTED = MappingProxyType({CNA: 0x01, CORE: 0x04, DPU: 0x08, DPU_RDMA: 0x10, PPU: 0x20, PPU_RDMA: 0x40})
"""Unit -> its bit among the units that a task starts."""
_TABLE = (0x4100, 0x4104)  # a window into activation tables: each write is an entry, and none a state


def units_started(enable: int) -> tuple[int, ...]:
    """The units of a task's ``enable``."""
    return tuple(unit for unit, bit in STARTED.items() if enable & bit)


def started_registers(programs: Iterable[tuple[int, Words]]) -> Iterator[Registers]:
    """The registers that each task runs with, of the units that it starts.

    Args:
        programs: (enable, command words) of the tasks of one core, in order, from the first of a job on.

    Examples:
        >>> import numpy as np
        >>> word = lambda register, value: 0x4001 << 48 | value << 16 | register
        >>> tasks = [[word(0x600C, 5), word(0x6070, 64)], [word(0x600C, 6)], [word(0x6070, 128)]]
        >>> for registers in started_registers((0x20, np.array(words, np.uint64)) for words in tasks):
        ...     print({hex(register): value for register, value in registers[PPU].items()})
        {'0x600c': 5, '0x6070': 64}
        {'0x600c': 6}
        {'0x600c': 5, '0x6070': 128}
    """
    groups: dict[int, tuple[dict[int, int], dict[int, int]]] = {unit: ({}, {}) for unit in STARTED}
    turn = dict.fromkeys(STARTED, 0)
    for enable, words in programs:
        for unit, register, value in zip(
            units_of(words).tolist(), numbers_of(words).tolist(), values_of(words).tolist()
        ):
            if unit in groups and register not in _TABLE:
                groups[unit][turn[unit]][register] = value
        started = units_started(enable)
        yield {unit: dict(groups[unit][turn[unit]]) for unit in started}
        for unit in started:
            turn[unit] ^= 1
