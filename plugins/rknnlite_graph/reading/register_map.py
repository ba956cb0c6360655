"""Registers of the NPUs: where each generation of the design keeps each parameter.

Places are facts measured on converted models (docs/rknn-format.md, sections 4 and 15). V1 is rk3588, rk3566, rk3568; V2A
rk3562; V2B rk3576, rv1126b; T3 rv1103, rv1106; W1 rv1103b, rv1106b. V2B keeps some parameters in two small constants
beside the node; they are read as registers beyond the 16 bits of genuine ones (``SMALL_CONSTANTS``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Optional

__all__ = [
    "SMALL_CONSTANTS",
    "T3",
    "V1",
    "V1_LITE",
    "V2A",
    "V2B",
    "W1",
    "Field",
    "IntLimits",
    "Pair",
    "RegisterMap",
    "Registers",
    "scaled",
]

Registers = Mapping[int, int]
"""Register number -> value, as the compiler sets them for a node."""
Pair = tuple[int, int]

_BS, _BN = 0x10000, 0x20000
_SLOT = 16  # bytes of a number in a small constant
SMALL_CONSTANTS = {"Bs": _BS, "Bn": _BN}
"""Kind of a small constant -> number of the register that stands for its first 32-bit word; the next is 4 more."""


class Field(NamedTuple):
    """``bits`` of a register from bit ``low`` on; ``absent`` is what holds where the register is not set."""

    register: int
    low: int = 0
    bits: int = 32
    signed: bool = False
    absent: int = 0

    def of(self, regs: Registers) -> int:
        """The value."""
        word = regs.get(self.register)
        if word is None:
            return self.absent
        value = word >> self.low & ((1 << self.bits) - 1)
        return value - (1 << self.bits) if self.signed and value >> (self.bits - 1) else value


Scaled = tuple[Field, Field]
"""A number and the power of two that it is divided by."""


def scaled(place: Scaled, regs: Registers) -> float:
    """The value of a number with a shift."""
    return place[0].of(regs) * 2.0 ** -place[1].of(regs)


@dataclass(frozen=True)
class Limits:
    """float32 limits of a Clip, both less ``base``; without ``low`` that is 0. ``base_unused``: ``base`` does not count."""

    low: Optional[Field]
    high: Field
    base: Optional[Field] = None
    base_unused: Optional[Field] = None


_READ_WIDTH = Field(0x500C, 0, 16)
_FROM_ZERO = Field(0x4060, 1, 1)


@dataclass(frozen=True)
class IntLimits:
    """Limits of an int8 Clip, of accumulators behind their multipliers: 0 and ``high`` where ``from_zero`` is set, else
    ``-base`` (nowhere without one) and ``high - base``.

    ``first_step``: whether ``high`` counts in steps of the first channel, not of the one with the largest multiplier,
    where ``from_zero`` is set, and else.
    """

    high: Field
    base: Optional[Field] = None
    from_zero: Field = _FROM_ZERO
    base_sign: int = 1
    first_step: tuple[bool, bool] = (False, False)

    def of(self, regs: Registers, first: float) -> tuple[Optional[float], Optional[float]]:
        """(lower, upper); ``first`` is the multiplier of the first channel, the largest being 1."""
        from_zero = bool(self.from_zero.of(regs))
        high = self.high.of(regs) * (first if self.first_step[not from_zero] else 1.0)
        if from_zero:
            return 0.0, high
        if self.base is None:
            return None, high
        base = float(self.base_sign * self.base.of(regs))
        return -base, high - base


@dataclass(frozen=True)
class RegisterMap:
    """The places of one generation; pairs are (y, x) or (top, left), None is what it does not have.

    Geometry: ``growth`` is the stride of a transposed convolution less one; ``dilated_pads``: its pads are counted from the
    end of the dilated kernel. ``kernel_less``: what kernel sizes are stored less by.

    Output stage: ``out`` and ``out_offset``; ``bs_shift`` (of values below zero where there is a slope: ``negative_shift``)
    and ``truncation`` shift the accumulator; ``common_shifts`` instead of the two where their places hold the common zero
    point. ``uses`` are the bits that say whether a layer reads bias, zero points and multipliers per channel;
    ``common_zero`` (of layers that leave it out, where ``zero_there`` is 0: ``other_zero``) and ``common_multiplier``
    (where ``multipliers`` is 0) stand in for them. ``slope`` is the factor of the unit behind the multipliers, a slope or
    a second factor, off where one of ``second_unused`` is set; ``slope_shift`` belongs to it. ``operand_shift``: of the
    operand of a sum, where there is no second factor. ``early_slope``: where
    float slopes lie if the BS constant of the output is there. ``first_numbers``: whether the first number of a small
    constant (zero point of all channels, slope) is there, and whether those behind it are. ``lower_limit_kept``: not 0
    where the lower limit of an int16 Clip is in the file.

    Tables: ``table_index`` and ``table_offset`` make an index, ``table_unused`` is set without one; ``table_low`` and
    ``table_high`` are slopes beyond the ends, ``table_steps`` logarithms, ``table_starts`` the first indices, ``table_ends`` what
    the lower table begins and the upper one begins or ends with.

    Products: ``operand_factor`` scales a second operand, ``input_factor`` the first one; ``third_multiplies`` and
    ``third_adds`` are fields that are not 0 where a product multiplies by, and else adds, a further operand.

    Data movement: ``read_width`` is the length, less one, of the rows that a run reads.
    """

    growth: tuple[Field, Field]
    pads: tuple[Field, Field]
    uses: tuple[Field, Field, Field]
    common_zero: Field
    bs_shift: Field
    out: Scaled
    out_offset: Field
    slope: Field
    table_index: Scaled
    table_offset: Field
    table_high: Scaled
    table_low: Optional[Scaled] = None
    table_unused: Optional[Field] = None
    table_steps: tuple[Field, Field] = (Field(0x410C, 8, 5), Field(0x410C, 16, 5))
    table_starts: Optional[tuple[Field, Field]] = None
    table_ends: Optional[tuple[Field, Field]] = None
    strides: Optional[tuple[Field, Field]] = None
    dilations: tuple[Field, Field] = (Field(0x1014, 21, 5), Field(0x1014, 16, 5))
    kernel: Optional[tuple[Field, Field]] = None
    kernel_less: int = 0
    dilated_pads: bool = False
    other_zero: Optional[Field] = None
    zero_there: Optional[Field] = None
    negative_shift: Optional[Field] = None
    common_shifts: Optional[tuple[Field, Field]] = None
    first_numbers: Mapping[str, tuple[Field, Field]] = field(default_factory=dict)
    truncation: Optional[Field] = None
    multipliers: Optional[Field] = None
    common_multiplier: Optional[Field] = None
    slope_shift: Optional[Field] = None
    early_slope: Optional[Field] = None
    second_unused: tuple[Field, ...] = ()
    operand_shift: Optional[Field] = None
    limits: Optional[Limits] = None
    int_limits: Optional[IntLimits] = None
    lower_limit_kept: Optional[Field] = None
    input_factor: Scaled = (Field(0x1050, 0, 16), Field(0x104C, 4, 6))
    operand_factor: Optional[Scaled] = None
    third_multiplies: tuple[Field, ...] = ()
    third_adds: tuple[Field, ...] = ()
    read_width: Field = _READ_WIDTH

    def geometry(self, regs: Registers) -> Optional[tuple[Pair, Pair, Pair]]:
        """(strides, dilations, (top, left) pads) of a convolution where registers are the only place for them."""
        if self.strides is None:
            return None
        strides, pads = _pair(self.strides, regs), _pair(self.pads, regs)
        return (max(1, strides[0]), max(1, strides[1])), self.spread(regs), pads

    def deconv_geometry(self, regs: Registers, kernel: Pair) -> tuple[Pair, Pair]:
        """(strides, (top, left) pads as ONNX counts them) of a transposed convolution."""
        growth, inner = _pair(self.growth, regs), _pair(self.pads, regs)
        steps = self.spread(regs) if self.dilated_pads else (1, 1)
        top, left = (steps[i] * (kernel[i] - 1) - inner[i] for i in range(2))
        return (growth[0] + 1, growth[1] + 1), (top, left)

    def spread(self, regs: Registers) -> Pair:
        """Dilations."""
        more = _pair(self.dilations, regs)
        return more[0] + 1, more[1] + 1

    def kernel_size(self, regs: Registers) -> Optional[Pair]:
        """(height, width) of the kernel that the registers are for; None where they do not say."""
        if self.kernel is None:
            return None
        height, width = _pair(self.kernel, regs)
        return height + self.kernel_less, width + self.kernel_less

    def held(self, kernel: Pair) -> Pair:
        """What the registers hold of a kernel: one that is too large loses its upper bits."""
        less = self.kernel_less
        height, width = ((n - less & self._most(i)) + less for i, n in enumerate(kernel))
        return height, width

    @property
    def largest_kernel(self) -> int:
        """The longest side of a kernel that the registers hold, where they say one."""
        return self._most(1) + self.kernel_less

    def _most(self, axis: int) -> int:
        return (1 << self.kernel[axis].bits) - 1 if self.kernel is not None else 0

    def in_order(self, kind: str, words: tuple[int, ...], regs: Registers) -> tuple[int, ...]:
        """The words of a small constant with each number in its place, also where the first is left out."""
        if kind not in self.first_numbers:
            return words
        first, others = (place.of(regs) for place in self.first_numbers[kind])
        return (0,) * (_SLOT // 4) + words if others and not first else words

    def data_use(self, regs: Registers) -> tuple[bool, bool, bool, int]:
        """Whether the layer reads (bias, zero points, multipliers) per channel, and the common zero point."""
        bias, zero, multiplier = (bool(place.of(regs)) for place in self.uses)
        return bias, zero, multiplier, -self._minus_zero(regs)

    def _minus_zero(self, regs: Registers) -> int:
        place = self.common_zero
        there = self.zero_there is None or self.zero_there.of(regs)
        if self.other_zero is not None and not (there and place.of(regs)):
            place = self.other_zero
        minus = place.of(regs)
        return 128 if place.bits == 8 and minus == -128 else minus  # the negative of -128 does not fit a byte

    def shifts(self, regs: Registers) -> Pair:
        """(of all values, of those below zero where there is a slope): powers of two behind the multipliers."""
        places = self.bs_shift, self.negative_shift or self.bs_shift
        if self.common_shifts is not None and not self.uses[2].of(regs):
            if self.multipliers is not None and self.multipliers.of(regs):
                return 0, 0
            places = self.common_shifts
        return _pair(places, regs)

    def shared_multiplier(self, regs: Registers) -> float:
        """The multiplier of all channels where they have none of their own."""
        if self.common_multiplier is None or self.multipliers is None or self.multipliers.of(regs):
            return 1.0
        return float(self.common_multiplier.of(regs))


def _pair(places: tuple[Field, Field], regs: Registers) -> Pair:
    return places[0].of(regs), places[1].of(regs)


V1 = RegisterMap(
    growth=(Field(0x1014, 11, 3), Field(0x1014, 8, 3)),
    pads=(Field(0x1068, 0, 4), Field(0x1068, 4, 4)),
    kernel=(Field(0x1038, 16, 5), Field(0x1038, 24, 5)),
    uses=(Field(0x501C, 1, 1), Field(0x501C, 2, 1), Field(0x501C, 3, 1)),
    common_zero=Field(0x4054, 0, 16, signed=True),
    truncation=Field(0x301C, 0, 5),
    multipliers=Field(0x4040, 4, 1, absent=1),
    common_multiplier=Field(0x4048, 16, 16, signed=True),
    bs_shift=Field(0x4048, 8, 6),
    negative_shift=Field(0x4010, 4, 6),
    out=(Field(0x4084, 0, 16), Field(0x4088, 0, 12)),
    out_offset=Field(0x4080, signed=True),
    slope=Field(0x4068, 16, 16, signed=True),
    slope_shift=Field(0x4068, 8, 6),
    second_unused=(Field(0x4060, 0, 1, absent=1), Field(0x4060, 4, 1, absent=1)),
    limits=Limits(None, Field(0x406C), base=Field(0x4064), base_unused=Field(0x4060, 1, 1)),
    int_limits=IntLimits(Field(0x406C, signed=True), Field(0x4064, signed=True)),
    table_unused=Field(0x4070, 7, 1, absent=1),
    table_index=(Field(0x4068, 16, 16), Field(0x4068, 8, 6)),
    table_offset=Field(0x4064, signed=True),
    table_low=(Field(0x4120, 0, 16, signed=True), Field(0x4124, 0, 5)),
    table_high=(Field(0x4128, 16, 16, signed=True), Field(0x412C, 5, 5)),
    table_starts=(Field(0x4110, signed=True, absent=-16384), Field(0x4118, signed=True)),
    operand_factor=(Field(0x4078, 0, 16), Field(0x4078, 16, 6)),
)

V1_LITE = replace(V1, truncation=Field(0x302C, 0, 5))

V2A = replace(
    V1,
    pads=(Field(0x1080, 0, 8), Field(0x1080, 8, 8)),
    kernel=(Field(0x1024, 16, 5), Field(0x1024, 24, 5)),
    other_zero=Field(0x1074, 0, 8, signed=True),
    multipliers=Field(0x4050, 1, 1, absent=1),
    common_multiplier=Field(0x4044, 16, 16, signed=True),
    bs_shift=Field(0x4038, 8, 6),
    negative_shift=Field(0x4054, 16, 6),
    truncation=Field(0x3024, 0, 5),
    out=(Field(0x40B0, 0, 16), Field(0x40B4, 0, 12)),
    out_offset=Field(0x40AC, signed=True),
    limits=Limits(Field(0x406C), Field(0x4070), base=Field(0x4040)),
    int_limits=IntLimits(Field(0x4070, signed=True), Field(0x4064, signed=True), first_step=(True, False)),
    lower_limit_kept=Field(0x4060, 1, 1, absent=1),
    table_unused=Field(0x407C, 7, 1, absent=1),
    table_starts=None,
    operand_factor=(Field(0x4084, 0, 16), Field(0x4084, 16, 6)),
)

_ZERO_THERE = Field(0x501C, 2, 1)
V2B = replace(
    V2A,
    kernel_less=1,
    dilated_pads=True,
    uses=(Field(0x501C, 8, 1), Field(0x501C, 9, 1), Field(0x501C, 10, 1)),
    common_zero=Field(_BS, 0, 16, signed=True),
    zero_there=_ZERO_THERE,
    multipliers=Field(0x4050, 17, 1, absent=1),
    common_multiplier=Field(_BS + _SLOT, 0, 16, signed=True),
    bs_shift=Field(_BS, 0, 6),
    negative_shift=Field(_BS, 8, 6),
    common_shifts=(Field(_BS + 2 * _SLOT, 0, 6), Field(_BS + 2 * _SLOT, 8, 6)),
    slope=Field(_BN, 0, 16, signed=True),
    slope_shift=Field(_BN + 16, 0, 6),
    early_slope=Field(_BS + _SLOT, 0, 16, signed=True),
    first_numbers={
        "Bs": (_ZERO_THERE, Field(0x501C, 3, 1)),
        "Bn": (Field(0x5028, 3, 1), Field(0x5028, 10, 1)),
    },
    second_unused=tuple(Field(0x4060, bit, 1, absent=1) for bit in (0, 8, 11)),
    limits=Limits(Field(0x4074), Field(0x4078)),
    int_limits=IntLimits(Field(0x4078, signed=True), Field(_BN, signed=True), first_step=(True, False)),
    table_index=(Field(_BN + 32, 0, 16), Field(_BN + 48, 0, 6)),
    table_offset=Field(_BN, signed=True),
    table_low=None,
    table_high=(Field(0x4170, 0, 16, signed=True), Field(0x4184, 0, 5)),
    table_ends=(Field(0x4188, 16, 16, signed=True), Field(0x4190, 16, 16, signed=True)),
)

T3 = RegisterMap(
    truncation=Field(0x301C, 0, 5),
    kernel=(Field(0x1038, 16, 5), Field(0x1038, 24, 5)),
    strides=(Field(0x1014, 3, 3), Field(0x1014, 0, 3)),
    growth=(Field(0x1014, 11, 3), Field(0x1014, 8, 3)),
    pads=(Field(0x1068, 0, 8), Field(0x1068, 8, 8)),
    uses=(Field(0x501C, 1, 1), Field(0x501C, 2, 1), Field(0x501C, 3, 1)),
    common_zero=Field(0x4054, 0, 16, signed=True),
    other_zero=Field(0x1074, 0, 8, signed=True),
    multipliers=Field(0x4050, 1, 1, absent=1),
    common_multiplier=Field(0x4048, 16, 16, signed=True),
    bs_shift=Field(0x4040, 9, 6),
    negative_shift=Field(0x4054, 24, 6),
    out=(Field(0x4084, 0, 16), Field(0x4088, 0, 12)),
    out_offset=Field(0x4080, signed=True),
    slope=Field(0x4068, 16, 16, signed=True),
    slope_shift=Field(0x4068, 8, 6),
    second_unused=(Field(0x4060, 0, 1),),
    table_unused=Field(0x4070, 7, 1),
    table_index=(Field(0x4068, 16, 16), Field(0x4068, 8, 6)),
    table_offset=Field(0x4064, signed=True),
    table_high=(Field(0x4128, 16, 16, signed=True), Field(0x412C, 5, 5)),
    table_low=(Field(0x4120, 0, 16, signed=True), Field(0x4124, 0, 5)),
    limits=Limits(None, Field(0x40E4)),
    lower_limit_kept=Field(0x4060, 1, 1),
    int_limits=IntLimits(Field(0x40E4, signed=True), first_step=(True, True)),
    operand_factor=(Field(0x4078, 0, 16), Field(0x4078, 16, 6)),
    third_multiplies=(Field(0x4068, 16, 16), Field(0x4070, 2, 1)),
    third_adds=(Field(0x4064), Field(0x4070, 7, 1)),
)

W1 = RegisterMap(
    kernel=(Field(0x1018, 16, 5), Field(0x1018, 24, 5)),
    kernel_less=1,
    strides=(Field(0x100C, 4, 4), Field(0x100C, 0, 4)),
    dilations=(Field(0x100C, 24, 8), Field(0x100C, 16, 8)),
    growth=(Field(0x100C, 12, 4), Field(0x100C, 8, 4)),
    pads=(Field(0x1028, 24, 5), Field(0x1084, 8, 8)),
    uses=(Field(0x501C, 0, 1), Field(0x501C, 3, 1), Field(0x501C, 1, 1)),
    common_zero=Field(0x1078, 0, 8, signed=True),
    truncation=Field(0x1048, 8, 5),
    multipliers=Field(0x4030, 5, 1, absent=1),
    common_multiplier=Field(0x4038, 0, 16, signed=True),
    bs_shift=Field(0x4080, 0, 6),
    negative_shift=Field(0x4080, 8, 6),
    out=(Field(0x4090, 0, 16), Field(0x4090, 16, 16)),
    out_offset=Field(0x408C, signed=True),
    slope=Field(0x4050, 0, 16, signed=True),
    operand_shift=Field(0x404C, 20, 4),
    table_index=(Field(0x4038, 0, 16), Field(0x4080, 0, 6)),
    table_offset=Field(0x4034, signed=True),
    table_high=(Field(0x4174, 16, 16, signed=True), Field(0x4184, 24, 8)),
    table_low=(Field(0x4170, 0, 16, signed=True), Field(0x4184, 0, 5)),
    int_limits=IntLimits(
        Field(0x4068, signed=True),
        Field(0x4050, signed=True),
        Field(0x404C, 1, 1),
        base_sign=-1,
        first_step=(True, True),
    ),
    third_multiplies=(Field(0x404C, 1, 1), Field(0x404C, 5, 1)),
    third_adds=(Field(0x404C, 2, 1),),
)
