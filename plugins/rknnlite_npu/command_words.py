"""Command words, 64 bits each: ``unit << 48 | value << 16 | register``, and the four that end a program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CNA",
    "CORE",
    "DESTINATIONS",
    "DPU",
    "DPU_RDMA",
    "ENABLE",
    "PC",
    "POOLING",
    "PPU",
    "PPU_RDMA",
    "TAIL",
    "UNITS",
    "CommandWord",
    "Words",
    "numbers_of",
    "units_of",
    "values_of",
    "with_values",
]

Words = NDArray[np.uint64]
"""Command words, one behind the other."""

PC, CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 0x0101, 0x0201, 0x0801, 0x1001, 0x2001, 0x4001, 0x8001
ENABLE = 0x0081
UNITS = {
    PC: "PC",
    CNA: "CNA",
    CORE: "CORE",
    DPU: "DPU",
    DPU_RDMA: "DPU_RDMA",
    PPU: "PPU",
    PPU_RDMA: "PPU_RDMA",
    0x0041: "WAIT",
    ENABLE: "ENABLE",
}
"""Number of a unit in a word -> its name; of ``WAIT`` only the zero at the end of programs is known."""

DESTINATIONS = (0x4020, 0x4018, 0x4010, 0x6070)
"""Registers with the address of a result, of all families; which of them a family has its list of addresses tells."""

POOLING = 0x60
"""Bits of ENABLE of the pooling unit and of what reads for it."""

TAIL = 4
"""Words behind those of a task: where the next program begins (absent behind the last one), how many words of it are
fetched, a zero, and the units to start."""

_REGISTER = np.uint64(0xFFFF)
_VALUE = np.uint64(0xFFFFFFFF)
_OTHERS = ~(_VALUE << np.uint64(16))


class CommandWord(NamedTuple):
    """One word, taken apart.

    Examples:
        >>> CommandWord.of(0x0201_FFEFA000_1070)
        CommandWord(unit=513, register=4208, value=4293894144)
        >>> hex(CommandWord(0x201, 0x1070, 0xFFEFA000).number)
        '0x201ffefa0001070'
    """

    unit: int
    register: int
    value: int

    @classmethod
    def of(cls, word: int) -> CommandWord:
        """Take a word apart."""
        word = int(word)
        return cls(word >> 48, word & 0xFFFF, word >> 16 & 0xFFFFFFFF)

    @property
    def number(self) -> int:
        """The word."""
        return self.unit << 48 | self.value << 16 | self.register

    def __str__(self) -> str:
        return f"{UNITS.get(self.unit, f'{self.unit:#06x}')} {self.register:#06x} = {self.value:#x}"


def units_of(words: Words) -> Words:
    """The unit of each word."""
    return words >> np.uint64(48)


def numbers_of(words: Words) -> Words:
    """The register of each word."""
    return words & _REGISTER


def values_of(words: Words) -> Words:
    """The value of each word."""
    return words >> np.uint64(16) & _VALUE


def with_values(words: Words, values: Words) -> Words:
    """The same words with other values, of which the lower 32 bits count."""
    return words & _OTHERS | (values & _VALUE) << np.uint64(16)
