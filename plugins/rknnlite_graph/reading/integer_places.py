"""Where each generation of the NPU keeps the integers of its output stage that ``register_map`` does not need, and how it takes
them; ``OutputRegisters`` of a node are read here.

Places of V1 and T3 are those of public register headers; V2A, V2B and W1 were found by comparing files for all SoCs of the same
networks, whose integers are equal (docs/rknn-format.md, section 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Optional

from ..output_registers import OutputRegisters
from .register_map import (
    SMALL_CONSTANTS,
    T3,
    V1,
    V1_LITE,
    V2A,
    V2B,
    W1,
    Field,
    RegisterMap,
    Registers,
    Scaled,
)

if TYPE_CHECKING:
    from .npu_families import NpuFamily

__all__ = ["IntegerPlaces", "integers_of", "output_registers", "task_registers"]


@dataclass(frozen=True)
class IntegerPlaces:
    """Places of one generation; None is what was not found.

    ``bs_offset`` and ``bs_limit`` (of a Clip) are those of nodes that take a tensor as it is, as are ``bs_multiplier`` and
    ``bs_shifts`` where such nodes keep them elsewhere than convolutions. ``operand`` is (scale, shift) of a second operand,
    ``operand_offset`` what is added to it before; ``product_shift`` divides products with it. ``round_away`` is the bit for
    halves.
    """

    bs_offset: Optional[Field] = None
    bs_limit: Optional[Field] = None
    bs_multiplier: Optional[Field] = None
    bs_shifts: Optional[tuple[Field, Field]] = None
    bn_negative: Optional[Field] = None
    operand: Optional[Scaled] = None
    operand_offset: Optional[Field] = None
    product_shift: Optional[Field] = None
    round_away: Optional[Field] = None


_BS, _SLOT = SMALL_CONSTANTS["Bs"], 16
_V1 = IntegerPlaces(
    bs_offset=Field(0x4044, signed=True),
    bs_limit=Field(0x404C, signed=True),
    bn_negative=Field(0x4010, 10, 6),
    operand=(Field(0x4078, 0, 16, signed=True), Field(0x4078, 16, 6)),
    operand_offset=Field(0x4074, signed=True),
    product_shift=Field(0x4078, 22, 10),
    round_away=Field(0x4088, 30, 1),
)
_V2 = IntegerPlaces(
    bs_offset=Field(0x4040, signed=True),
    bs_limit=Field(0x404C, signed=True),
    operand=(Field(0x4084, 0, 16, signed=True), Field(0x4084, 16, 6)),
    operand_offset=Field(0x4080, 0, 16, signed=True),
    product_shift=Field(0x4084, 22, 10),
    round_away=Field(0x40B4, 30, 1),
)
_W1 = IntegerPlaces(
    bs_offset=Field(0x4034, signed=True),
    operand=(Field(0x4088, 0, 16, signed=True), Field(0x404C, 20, 4)),
    operand_offset=Field(0x4088, 16, 16, signed=True),
)
_NONE: Registers = {}
_PLACES: tuple[tuple[RegisterMap, IntegerPlaces], ...] = (
    (V1, _V1),
    (V1_LITE, _V1),
    (V2A, _V2),
    (
        V2B,
        replace(
            _V2,
            bs_offset=Field(_BS + _SLOT, signed=True),
            bs_multiplier=Field(_BS + 3 * _SLOT, 0, 16, signed=True),
            bs_shifts=(Field(_BS + 4 * _SLOT, 0, 6), Field(_BS + 4 * _SLOT, 8, 6)),
        ),
    ),
    (
        T3,
        replace(
            _V1,
            bs_offset=Field(0x4018, signed=True),
            bs_limit=Field(0x401C, signed=True),
        ),
    ),
    (W1, _W1),
)


def integers_of(places: RegisterMap) -> IntegerPlaces:
    """What belongs to a register map."""
    return next(integers for known, integers in _PLACES if known is places)


def output_registers(
    family: NpuFamily,
    regs: Registers,
    convolves: bool,
    table: bool = False,
    shift: int = 0,
    bn_regs: Registers = _NONE,
) -> OutputRegisters:
    """The integers of a node.

    Args:
        convolves: whether it has weights.
        table: whether BN makes indices.
        shift: of multipliers per channel, where the file keeps none.
        bn_regs: registers with the small constant of its BN unit, where that is another's.
    """
    places, more = family.places, integers_of(family.places)
    bn_regs = bn_regs or regs
    (positive, negative), multiplier = places.shifts(regs), int(places.shared_multiplier(regs))
    if convolves and not (positive or negative):
        positive = negative = shift
    if not convolves and more.bs_shifts is not None and more.bs_multiplier is not None:
        multiplies = places.multipliers is None or not places.multipliers.of(regs)
        positive, negative = (place.of(regs) for place in more.bs_shifts) if multiplies else (0, 0)
        multiplier = more.bs_multiplier.of(regs) if multiplies else 1
    factor, bn_place = places.table_index if table else (places.slope, places.slope_shift)
    bn_shift = _of(bn_place, bn_regs)
    return OutputRegisters(
        bs_shift=positive,
        bs_shift_negative=negative,
        out_multiplier=places.out[0].of(regs),
        out_shift=places.out[1].of(regs),
        out_round_away=bool(_of(more.round_away, regs)),
        out_offset=places.out_offset.of(regs),
        ew_offset=_of(more.operand_offset, regs),
        ew_scale=_of(more.operand[0], regs) if more.operand else 1,
        ew_shift=_of(more.operand[1], regs) if more.operand else 0,
        bn_multiplier=factor.of(bn_regs),
        bn_shift=bn_shift,
        bs_offset=0 if convolves else _of(more.bs_offset, regs),
        bs_limit=0 if convolves else _of(more.bs_limit, regs),
        bs_multiplier=multiplier,
        bn_shift_negative=_of(more.bn_negative, regs) or bn_shift,
        bn_offset=places.table_offset.of(bn_regs),
        bn_offset_first=not family.offset_after_shift,
        ew_product_shift=_of(more.product_shift, regs),
        out_offset_first=family.offset_before_rounding,
        truncation=_of(places.truncation, regs),
    )


def task_registers(family: NpuFamily, runs: Sequence[Registers]) -> tuple[OutputRegisters, ...]:
    """The integers of each task of a node without weights.

    Units have two groups of registers, which take turns: what a task leaves out is what the last but one had.
    """
    whole: list[Registers] = []
    for number, run in enumerate(runs):
        whole.append({**whole[number - 2], **run} if number > 1 else run)
    return tuple(dict.fromkeys(output_registers(family, regs, convolves=False) for regs in whole))


def _of(place: Optional[Field], regs: Registers) -> int:
    return 0 if place is None else place.of(regs)
