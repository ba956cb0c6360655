"""Registers of a unit as a task starts it, read field by field; what nobody has looked at in the end is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn, Optional, Union

from ..command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, UNITS
from . import numbers as n
from .refused import MachineRefused

__all__ = ["STARTED", "Design", "Field", "Mode", "UnitRegisters"]

_WORD = 0xFFFFFFFF
STARTED = {CNA: 0x01, CORE: 0x04, DPU: 0x08, DPU_RDMA: 0x10, PPU: 0x20, PPU_RDMA: 0x40}
"""Unit -> its bit in the mask of units that start."""


class Field:
    """Bits ``high`` to ``low`` of a register, by the name that the chip's manual gives them; ``mask`` are its bits there.

    Units name their fields as RK3588 has them; a family that has one elsewhere says where it is ``at`` (``families``).
    """

    __slots__ = ("high", "inverted", "low", "mask", "more", "name", "register", "sign")

    def __init__(
        self,
        name: str,
        register: int,
        high: int = 31,
        low: int = 0,
        signed: bool = False,
        inverted: bool = False,
        more: int = 0,
    ) -> None:
        self.name, self.register, self.high, self.low, self.more = name, register, high, low, more
        self.mask = (1 << high + 1) - (1 << low)
        self.sign = 1 << high - low if signed else 0
        self.inverted = self.mask >> low if inverted else 0

    def at(
        self,
        register: int,
        high: int = 31,
        low: int = 0,
        signed: bool = False,
        inverted: bool = False,
        more: int = 0,
    ) -> Field:
        """The same field in another place; ``inverted``: its bits mean the opposite there; ``more``: they hold that much less."""
        return Field(self.name, register, high, low, signed, inverted, more)


class Mode(Enum):
    """What a convolution does, as CNA is told."""

    DENSE = "dense"
    DEPTHWISE = "depthwise"
    PICTURE = "picture"
    PICTURE_BY_ROWS = "picture by rows"
    """Weights of a picture whose kernels have rows of a multiple of four."""


@dataclass(frozen=True, eq=False)
class Design:
    """What is particular to an NPU family; the defaults are RK3588's.

    Attributes:
        atom: bytes of the channels of one position, unless ``least_lanes`` elements take more; strides count it.
        group: channels of a record of numbers per channel.
        rows: outputs, in bytes, of a block of weights; ``lanes``: its inputs; ``depthwise``: bytes of a block of depthwise weights.
        algorithms: of BS, BN and EW that are understood.
        counts_last: channels of which DATAIN_CHANNEL_REAL counts the last ones; 0: it counts all.
        operand_bytes: ERDMA_DATA_SIZE -> bytes of an element of a second operand.
        streams: of compressed weights.
        bits: unit -> its bits in the mask of units that start.
        parts: unit whose registers are counted among those of another -> that one.
        places: fields that lie elsewhere, or the number that one always has where the family has no such field.
        idle: unit -> register -> bits that change no result; units that are not in it have RK3588's.
        line_strides: rows are counted one by one, surfaces from their beginning, in atoms.
        whole_surfaces: surfaces are counted from their beginning, in atoms; rows still in quarters of them.
        modes: CONV_MODE -> what it does.
        run: two kernels of a depthwise convolution are its weights and what is added to them, in runs of so many of each; 0:
            there is no such thing.
        limits: BS, BN and EW keep their results between two numbers, where RK3588 has bits for it.
        apart: EW has bits for sums, products and quotients each, where RK3588 has one operation.
        adds_first: BN adds before it multiplies, as BS does.
        in_memory: numbers of BS and BN for all channels are fetched, too.
        offset_first: the offset of the output is added before its shift.
        offset_in_products: offsets of the conversion are stored times 2^shift.
        regroups: rows may get another length while they are written, and words of 32 bits are moved as two of 16.
        as_stored: weights have as many inputs as the bytes of a kernel say.
        core: it has a unit CORE of its own; else its fields are among those of the CNA.
        joined: BN and EW are one unit, numbers per channel are joined by eight.
        rows_stay: a task may read fewer rows than it has: the first ones are those of the task before.
        pictures_in_line: a picture is read as one line.
        counts_spread: positions that are spread are told by the channels that are written, too.
        flow_by_rdma: DPU_RDMA has the size of what flows, and that of the DPU is the size of what is written.
        precisions: that flow and are right; ``numbers``.
    """

    atom: int = 16
    least_lanes: int = 4
    group: int = 8
    rows: int = 32
    lanes: int = 32
    depthwise: int = 64
    algorithms: tuple[int, ...] = tuple(range(7))
    counts_last: int = 64
    operand_bytes: Mapping[int, int] = field(default_factory=lambda: {1: 1, 2: 2, 3: 4})
    streams: int = 16
    bits: Mapping[int, int] = field(default_factory=lambda: STARTED)
    parts: Mapping[int, int] = field(default_factory=dict)
    places: Mapping[Field, Union[Field, int]] = field(default_factory=dict)
    idle: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    line_strides: bool = False
    whole_surfaces: bool = False
    modes: Mapping[int, Mode] = field(default_factory=lambda: {0: Mode.DENSE, 3: Mode.DEPTHWISE})
    run: int = 0
    limits: bool = False
    apart: bool = False
    adds_first: bool = False
    in_memory: bool = False
    offset_first: bool = False
    offset_in_products: bool = False
    as_stored: bool = False
    regroups: bool = False
    core: bool = True
    joined: bool = False
    rows_stay: bool = False
    pictures_in_line: bool = False
    counts_spread: bool = True
    flow_by_rdma: bool = False
    precisions: tuple[int, ...] = tuple(n.SIZES)

    def atom_of(self, size: int) -> int:
        """Bytes of an atom of elements of ``size`` bytes."""
        return max(self.atom, self.least_lanes * size)


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

    def __init__(
        self, unit: int, values: Mapping[int, int], task: int, design: Optional[Design] = None
    ) -> None:
        """``unit``: its number in command words; ``task``: index of the record, for errors; ``design``: else that of RK3588."""
        self.unit, self.task, self.design = UNITS[unit], task, design or Design()
        self._idle = self.design.idle.get(unit)
        self._places = self.design.places
        self._values = values
        self._seen: dict[int, int] = {}

    def __getitem__(self, field: Field) -> int:
        place = self._places.get(field, field)
        if isinstance(place, int):
            return place
        register = place.register
        self._seen[register] = self._seen.get(register, 0) | place.mask
        bits = (self._values.get(register, 0) & place.mask) >> place.low ^ place.inverted
        return (bits - (place.sign << 1) if bits & place.sign else bits) + place.more

    def has(self, field: Field) -> bool:
        """Whether the design has a place of its own for a field that RK3588 has not."""
        return field in self._places

    def look(self, field: Field) -> None:
        """Take note of a field that is understood, whatever it holds."""
        _ = self[field]

    def refuse(self, field: Field, why: str = "") -> NoReturn:
        """Raise MachineRefused for what ``field`` holds."""
        place = self._places.get(field, field)
        register = None if isinstance(place, int) else place.register
        raise MachineRefused(self.unit, register, field.name, self[field] & _WORD, self.task, why)

    def need(self, field: Field, *legal: int, why: str = "") -> int:
        """The field, which holds one of ``legal``; else MachineRefused."""
        value = self[field]
        if value not in legal:
            self.refuse(field, why)
        return value

    def finish(self, without_effect: Mapping[int, int]) -> None:
        """Refuse bits that are set and that nobody has read.

        Args:
            without_effect: register -> bits that change no result, where the design has no such table of its own.
        """
        if self._idle is not None:
            without_effect = self._idle
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
