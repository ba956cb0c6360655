"""Registers of the NPUs in RV1103/RV1106 (t3) and RV1103B/RV1106B (w1): where each parameter lies.

Nodes of the mini format carry almost no attributes: strides, dilations and pads are read from here as well.
Places are facts measured on converted models (docs/rknn-format.md, older containers and the mini format).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Optional

from ..graph import Lut, Stage
from .registers import RegisterProgram

__all__ = ["T3", "W1", "Field", "MiniRegisters"]

Registers = Mapping[int, int]
Pair = tuple[int, int]
_SLOPE_BITS = 14  # slopes are fractions of 2**14


class Field(NamedTuple):
    """``bits`` of a register from bit ``low`` on."""

    register: int
    low: int = 0
    bits: int = 32
    signed: bool = False

    def of(self, regs: Registers) -> int:
        """The value; 0 where the register is not set."""
        value = regs.get(self.register, 0) >> self.low & ((1 << self.bits) - 1)
        return value - (1 << self.bits) if self.signed and value >> (self.bits - 1) else value


@dataclass(frozen=True)
class MiniRegisters:
    """The places of one family; pairs are (y, x) or (top, left).

    ``uses`` are the bits that say whether a layer reads bias, zero points and multipliers per channel; ``tails``
    the fields that are not 0 where a matrix product multiplies by, and else adds, a further operand.
    """

    strides: tuple[Field, Field]
    dilations: tuple[Field, Field]
    growth: tuple[Field, Field]
    pads: tuple[Field, Field]
    uses: tuple[Field, Field, Field]
    common_zero: Field
    bs_shift: Field
    bn_shift: Optional[Field]
    second_unused: Optional[Field]
    out_offset: Field
    out_scale: Field
    out_shift: Field
    slope: Field
    lut_unused: Optional[Field]
    lut_multiplier: Field
    lut_shift: Field
    lut_offset: Field
    lut_high: tuple[Field, Field]
    lut_low: tuple[Field, Field]
    tails: tuple[tuple[Field, ...], tuple[Field, ...]]

    def geometry(self, regs: Registers) -> tuple[Pair, Pair, Pair]:
        """(strides, dilations, (top, left) pads) of a convolution."""
        strides, dilations, pads = (self._pair(p, regs) for p in (self.strides, self.dilations, self.pads))
        return (max(1, strides[0]), max(1, strides[1])), (dilations[0] + 1, dilations[1] + 1), pads

    def deconv_geometry(self, regs: Registers, kernel: Pair) -> tuple[Pair, Pair]:
        """(strides, (top, left) pads as ONNX counts them) of a transposed convolution."""
        growth, inner = self._pair(self.growth, regs), self._pair(self.pads, regs)
        return (growth[0] + 1, growth[1] + 1), (kernel[0] - 1 - inner[0], kernel[1] - 1 - inner[1])

    @staticmethod
    def _pair(places: tuple[Field, Field], regs: Registers) -> Pair:
        return places[0].of(regs), places[1].of(regs)

    def data_use(self, regs: Registers) -> tuple[bool, bool, bool, int]:
        """Whether the layer reads (bias, zero points, multipliers) per channel, and the common zero point."""
        bias, zero, multiplier = (bool(place.of(regs)) for place in self.uses)
        common = self.common_zero.of(regs)
        if self.common_zero.bits == 8 and common == -128:
            common = 128  # the negative of -128 does not fit a byte
        return bias, zero, multiplier, -common

    def stage(self, program: RegisterProgram, node: int, op: str) -> Stage:
        """The output stage of one node."""
        regs = program.first(node)
        stage = Stage(
            scale=self.out_scale.of(regs) * 2.0 ** -self.out_shift.of(regs),
            zero_point=self.out_offset.of(regs),
            pre_scale=2.0 ** -self.bs_shift.of(regs),
        )
        if "LeakyRelu" in op:
            stage.slope = self.slope.of(regs) / (1 << _SLOPE_BITS)
        if self.bn_shift and op.startswith("Conv") and ("LeakyRelu" in op or "PRelu" in op):
            stage.second_scale = 2.0 ** (_SLOPE_BITS - self.bn_shift.of(regs))  # both branches are multiplied
        if (
            self.second_unused
            and "Leaky" not in op
            and op.endswith(("Add", "AddRelu"))
            and not self.second_unused.of(regs)
        ):
            assert self.bn_shift is not None
            stage.second_scale = (self.slope.of(regs) or 1) * 2.0 ** -self.bn_shift.of(regs)
        if self.lut_unused is None or not self.lut_unused.of(regs):
            stage.lut = self._lut(program, node, regs)
        return stage

    def _products(self, program: RegisterProgram, node: int) -> list[Registers]:
        """Registers of the runs that multiply matrices: they set strides."""
        return [regs for regs in program.registers(node) if self.strides[0].register in regs]

    def attention_scale(self, program: RegisterProgram, node: int) -> float:
        """What an attention node multiplies its scores by: the multiplier behind its first product."""
        regs: Registers = next(iter(self._products(program, node)), {})
        return self.lut_multiplier.of(regs) * 2.0 ** -self.lut_shift.of(regs) or 1.0

    def product_tail(self, program: RegisterProgram, node: int) -> Optional[str]:
        """What a product does with its third operand: "mul", "add", None where the registers do not say."""
        runs = self._products(program, node)
        if not runs:
            return None
        multiplies, adds = (any(place.of(runs[-1]) for place in places) for places in self.tails)
        return "mul" if multiplies else "add" if adds else None

    def _lut(self, program: RegisterProgram, node: int, regs: Registers) -> Optional[Lut]:
        tables = program.tables(node)
        if tables is None:
            return None
        multiplier = self.lut_multiplier.of(regs) * 2.0 ** -self.lut_shift.of(regs)
        steps = regs.get(0x410C, 0)
        return Lut(
            low=tables[0], high=tables[1], multiplier=multiplier, offset=self.lut_offset.of(regs) * multiplier,
            low_step=1 << (steps >> 8 & 0x1F), high_step=1 << (steps >> 16 & 0x1F),
            low_slope=self._slope(self.lut_low, regs), high_slope=self._slope(self.lut_high, regs),
        )  # fmt: skip

    @staticmethod
    def _slope(places: tuple[Field, Field], regs: Registers) -> float:
        return places[0].of(regs) * 2.0 ** -places[1].of(regs)


T3 = MiniRegisters(
    strides=(Field(0x1014, 3, 3), Field(0x1014, 0, 3)),
    dilations=(Field(0x1014, 21, 5), Field(0x1014, 16, 5)),
    growth=(Field(0x1014, 11, 3), Field(0x1014, 8, 3)),
    pads=(Field(0x1068, 0, 8), Field(0x1068, 8, 8)),
    uses=(Field(0x501C, 1, 1), Field(0x501C, 2, 1), Field(0x501C, 3, 1)),
    common_zero=Field(0x4054, 0, 16, signed=True),
    bs_shift=Field(0x4054, 24, 6),
    bn_shift=Field(0x4068, 8, 6),
    second_unused=Field(0x4060, 0, 1),
    out_offset=Field(0x4080, signed=True),
    out_scale=Field(0x4084, 0, 16),
    out_shift=Field(0x4088, 0, 12),
    slope=Field(0x4068, 16, 16, signed=True),
    lut_unused=Field(0x4070, 7, 1),
    lut_multiplier=Field(0x4068, 16, 16),
    lut_shift=Field(0x4068, 8, 6),
    lut_offset=Field(0x4064, signed=True),
    lut_high=(Field(0x4128, 16, 16, signed=True), Field(0x412C, 5, 5)),
    lut_low=(Field(0x4120, 0, 16, signed=True), Field(0x4124, 0, 5)),
    tails=((Field(0x4068, 16, 16), Field(0x4070, 2, 1)), (Field(0x4064), Field(0x4070, 7, 1))),
)
"""RV1103 and RV1106."""

W1 = MiniRegisters(
    strides=(Field(0x100C, 4, 4), Field(0x100C, 0, 4)),
    dilations=(Field(0x100C, 24, 8), Field(0x100C, 16, 8)),
    growth=(Field(0x100C, 12, 4), Field(0x100C, 8, 4)),
    pads=(Field(0x1028, 24, 5), Field(0x1084, 8, 8)),
    uses=(Field(0x501C, 0, 1), Field(0x501C, 3, 1), Field(0x501C, 1, 1)),
    common_zero=Field(0x1078, 0, 8, signed=True),
    bs_shift=Field(0x4080, 0, 6),
    bn_shift=None,
    second_unused=None,
    out_offset=Field(0x408C, signed=True),
    out_scale=Field(0x4090, 0, 16),
    out_shift=Field(0x4090, 16, 16),
    slope=Field(0x4050, 0, 16, signed=True),
    lut_unused=None,
    lut_multiplier=Field(0x4038, 0, 16),
    lut_shift=Field(0x4080, 0, 6),
    lut_offset=Field(0x4034, signed=True),
    lut_high=(Field(0x4174, 16, 16, signed=True), Field(0x4184, 24, 8)),
    lut_low=(Field(0x4170, 0, 16, signed=True), Field(0x4184, 0, 5)),
    tails=((Field(0x404C, 1, 1), Field(0x404C, 5, 1)), (Field(0x404C, 2, 1),)),
)
"""RV1103B and RV1106B."""
