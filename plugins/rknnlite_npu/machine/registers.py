"""Registers of a unit as a task starts it, read field by field; what nobody has looked at in the end is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from ..command_words import UNITS
from .refused import MachineRefused

__all__ = ["Field", "UnitRegisters"]

_WORD = 0xFFFFFFFF


class Field:
    """Bits ``high`` to ``low`` of a register, by the name that the chip's manual gives them; ``mask`` are its bits there."""

    __slots__ = ("high", "low", "mask", "name", "register", "sign")

    def __init__(self, name: str, register: int, high: int = 31, low: int = 0, signed: bool = False) -> None:
        self.name, self.register, self.high, self.low = name, register, high, low
        self.mask = (1 << high + 1) - (1 << low)
        self.sign = 1 << high - low if signed else 0


class UnitRegisters:
    """The registers that one unit runs a task with; one that was never written is 0, as after a reset.

    Examples:
        >>> width, height = Field("DATAIN_WIDTH", 0x1020, 26, 16), Field("DATAIN_HEIGHT", 0x1020, 10, 0)
        >>> registers = UnitRegisters(0x0201, {0x1020: 12 << 16 | 5}, task=0)
        >>> registers[width]
        12
        >>> try:
        ...     registers.finish({})
        ... except MachineRefused as refused:
        ...     print(refused)
        task 0: CNA 0x1020 bits 0x5 = 0xc0005: the machine does not know what they do
    """

    def __init__(self, unit: int, values: Mapping[int, int], task: int) -> None:
        """``unit``: its number in command words; ``task``: index of the record, for errors."""
        self.unit, self.task = UNITS[unit], task
        self._values = values
        self._seen: dict[int, int] = {}

    def __getitem__(self, field: Field) -> int:
        register = field.register
        self._seen[register] = self._seen.get(register, 0) | field.mask
        bits = (self._values.get(register, 0) & field.mask) >> field.low
        return bits - (field.sign << 1) if bits & field.sign else bits

    def look(self, field: Field) -> None:
        """Take note of a field that is understood, whatever it holds."""
        self._seen[field.register] = self._seen.get(field.register, 0) | field.mask

    def refuse(self, field: Field, why: str = "") -> NoReturn:
        """Raise MachineRefused for what ``field`` holds."""
        raise MachineRefused(self.unit, field.register, field.name, self[field] & _WORD, self.task, why)

    def need(self, field: Field, *legal: int, why: str = "") -> int:
        """The field, which holds one of ``legal``; else MachineRefused."""
        value = self[field]
        if value not in legal:
            self.refuse(field, why)
        return value

    def finish(self, without_effect: Mapping[int, int]) -> None:
        """Refuse bits that are set and that nobody has read.

        Args:
            without_effect: register -> bits that change no result.
        """
        for register, value in self._values.items():
            rest = value & ~self._seen.get(register, 0) & ~without_effect.get(register, 0) & _WORD
            if rest:
                raise MachineRefused(
                    self.unit,
                    register,
                    f"bits {rest:#x}",
                    value,
                    self.task,
                    "the machine does not know what they do",
                )
