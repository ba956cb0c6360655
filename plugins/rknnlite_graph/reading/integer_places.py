"""Where each generation of the NPU keeps the integers of its output stage that ``register_map`` does not need, and how it takes
them; ``OutputRegisters`` of a node are read here.

Places of V1 and T3 are those of public register headers; V2A, V2B and W1 were found by comparing files for all SoCs of the same
networks, whose integers are equal (docs/rknn-format.md, section 21).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Optional

from ..output_registers import OutputRegisters
from .register_map import T3, V1, V1_LITE, V2A, V2B, W1, Field, RegisterMap, Registers, Scaled

if TYPE_CHECKING:
    from .npu_families import NpuFamily

__all__ = ["IntegerPlaces", "integers_of", "output_registers"]


@dataclass(frozen=True)
class IntegerPlaces:
    """Places of one generation; None is what was not found.

    ``bs_offset`` and ``bs_limit`` (of a Clip) are those of nodes that take a tensor as it is. ``operand`` is (scale, shift) of a second operand, ``operand_offset`` what is added to it before; ``product_shift`` divides
    products with it. ``round_away`` is the bit for halves.
    """

    bs_offset: Optional[Field] = None
    bs_limit: Optional[Field] = None
    bn_negative: Optional[Field] = None
    operand: Optional[Scaled] = None
    operand_offset: Optional[Field] = None
    product_shift: Optional[Field] = None
    round_away: Optional[Field] = None


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
_PLACES: tuple[tuple[RegisterMap, IntegerPlaces], ...] = (
    (V1, _V1),
    (V1_LITE, _V1),
    (V2A, _V2),
    (V2B, replace(_V2, bs_offset=None)),
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
    family: NpuFamily, regs: Registers, shift: int, bn_regs: Registers, table: bool
) -> OutputRegisters:
    """The integers of a node.

    Args:
        shift: of its multipliers, where the file keeps none.
        bn_regs: registers with the small constant of its BN unit, which makes indices where there is a ``table``.
    """
    places, more = family.places, integers_of(family.places)
    positive, negative = places.shifts(regs)
    if not (positive or negative):
        positive = negative = shift
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
        bs_offset=_of(more.bs_offset, regs),
        bs_limit=_of(more.bs_limit, regs),
        bs_multiplier=int(places.shared_multiplier(regs)),
        bn_shift_negative=_of(more.bn_negative, regs) or bn_shift,
        bn_offset=places.table_offset.of(bn_regs),
        bn_offset_first=not family.offset_after_shift,
        ew_product_shift=_of(more.product_shift, regs),
        out_offset_first=family.offset_before_rounding,
        truncation=_of(places.truncation, regs),
    )


def _of(place: Optional[Field], regs: Registers) -> int:
    return 0 if place is None else place.of(regs)
