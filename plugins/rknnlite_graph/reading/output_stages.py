"""Output stages of nodes, decoded from their registers.

Register meanings are facts measured on converted models (docs/rknn-format.md, sections 4, 7 and 15); where a family keeps
what, and how it differs from others, is asked of its row (``npu_families``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Optional

import numpy as np

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType

from ..graph import Activation, FusedOp, Join, Lut, Node, Stage
from .npu_families import NpuFamily
from .register_map import SMALL_CONSTANTS, Limits, Registers, scaled
from .registers import RegisterProgram

if TYPE_CHECKING:
    from ..output_registers import OutputRegisters

__all__ = ["ConstBytes", "DataUse", "StageReader", "data_use"]

ConstBytes = Callable[[str], Optional[memoryview]]
"""Looks up the bytes of a constant tensor by name, None when there is none."""

_WHOLE = (DType.INT8, DType.INT16)
_SLOPED = (Activation.LEAKY_RELU, Activation.PRELU)
_MULTIPLIER_BITS = 14  # multipliers per channel are fractions of 2**14
_SMALL = struct.Struct("<16I")
_TABLE_STARTS = (-16384, 0)
_LAST_SHIFT = 29  # the largest that the converter writes
_CUT = (
    "the scale of its sum is the smallest that its register holds: the convolution may be 2, 4 or 8 times too large beside "
    "what is added"
)
_EARLY_SLOPE = "{}_BsCfg_BScfgTensor"
_PRODUCTS = ("ii", "ri")  # x W and h R of the first gate


class DataUse(NamedTuple):
    """Which per-channel operands the output stage reads, and the common ones used in their place."""

    bias: bool
    zero_point: bool
    multiplier: bool
    common_zero_point: int
    common_multiplier: float


def data_use(family: NpuFamily, regs: Registers) -> DataUse:
    """Which operands the bias blob of a node holds."""
    return DataUse(*family.places.data_use(regs), family.places.shared_multiplier(regs))


class StageReader:
    """Decodes the output stages of one graph."""

    def __init__(self, family: NpuFamily, program: RegisterProgram, consts: ConstBytes) -> None:
        self._family = family
        self._places = family.places
        self._program = program
        self._consts = consts

    def registers(self, node: int, output: str) -> Registers:
        """Registers of a node, with those that its family keeps in small constants named after the output."""
        regs = self._program.first(node)
        return {**regs, **self._small(output, regs, "Bs", "Bn")} if self._family.small_constants else regs

    def of_gates(self, output: str, product: int, regs: Registers) -> Registers:
        """``regs`` of x W (0) or h R (1) of a recurrent node, with their small constants: all gates have the same."""
        if not self._family.small_constants:
            return regs
        name = f"{output}_compute_zone_fc_{_PRODUCTS[product]}"
        if self._consts(f"{name}_BScfgTensor") is None:
            raise ModelInvalid(
                f"constant {name}_BScfgTensor is missing: it has the zero point of all weights"
            )
        return {**regs, **self._small(name, regs, "Bs")}

    def _small(self, tensor: str, regs: Registers, *kinds: str) -> dict[int, int]:
        """Contents of BS and BN constants by the registers that stand for them; zeros when one is absent."""
        found: dict[int, int] = {}
        for kind in kinds:
            words: tuple[int, ...] = (0,) * 16
            data = self._small_bytes(tensor, kind)
            if data is not None:
                words = _SMALL.unpack_from(data)
            words = self._places.in_order(kind, words, regs)
            found.update({SMALL_CONSTANTS[kind] + 4 * i: word for i, word in enumerate(words)})
        return found

    def _small_bytes(self, tensor: str, kind: str) -> Optional[memoryview]:
        """The BS or BN constant of a tensor, None where it is absent or too short."""
        for name in (f"{tensor}_{kind}Cfg_{kind.upper()}cfgTensor", f"{tensor}_{kind.upper()}cfgTensor"):
            data = self._consts(name)
            if data is not None and len(data) >= _SMALL.size:
                return data
        return None

    def read(self, node: Node, regs: Registers, output: str, source: DType, operand: str = "") -> Stage:
        """The stage of one node.

        Args:
            regs: its registers. output: name of its first result.
            source: element type of its first input; with float types and int16, limits are real values.
            operand: name of the tensor that is added.
        """
        places = self._places
        shift = 0 if places.truncation is None else places.truncation.of(regs)
        bs_shift = self._shift(node, regs)
        stage = Stage(
            scale=scaled(places.out, regs),
            zero_point=places.out_offset.of(regs),
            pre_scale=2.0 ** -(bs_shift + shift),
            bias_scale=2.0**shift,
        )
        if node.fused is not None:
            self._read_fused(stage, node.fused, node.op, regs, output, source, operand)
            looked_up = node.fused.after is Activation.TABLE and source in _WHOLE
            if looked_up and self._family.small_constants and self._small_bytes(output, "Bn") is None:
                node.doubts.append(
                    "the constant with multiplier and offset of its table is missing; 0 is taken"
                )
        if self._may_be_cut(node, regs):
            node.doubts.append(_CUT)
        if places.table_unused is None or not places.table_unused.of(regs):
            self._read_table(stage, node.index, regs, source)
        table = stage.lut is not None  # parts of the node, which has the stage: no circle
        stage.read_registers = partial(
            self._integers, node.index, node.fused, output, operand, bs_shift, table
        )
        stage.read_tasks = partial(self._tasks, node.index)
        return stage

    def _integers(
        self, node: int, fused: Optional[FusedOp], output: str, operand: str, shift: int, table: bool
    ) -> OutputRegisters:
        """The integers of a node's first task."""
        from .integer_places import output_registers  # few ask for a chip's arithmetic

        regs = self.registers(node, output)
        with_second = fused is not None and fused.join is Join.ADD and not fused.applies(*_SLOPED)
        beside = self._family.small_constants and with_second
        bn_regs = {**regs, **self._small(operand, regs, "Bn")} if beside else regs
        convolves = fused is not None and fused.convolves
        return output_registers(self._family, regs, convolves, table, shift, bn_regs)

    def _tasks(self, node: int) -> tuple[OutputRegisters, ...]:
        """The integers of all tasks of a node."""
        from .integer_places import task_registers

        return task_registers(self._family, self._program.registers(node))

    def _may_be_cut(self, node: Node, regs: Registers) -> bool:
        """Whether the scale of a sum is at the end of its register where no second factor could make up for it."""
        fused, shift = node.fused, self._places.operand_shift
        if shift is None or fused is None or not fused.convolves or fused.join is not Join.ADD:
            return False
        return not shift.of(regs) and self._places.out[1].of(regs) == _LAST_SHIFT

    def _shift(self, node: Node, regs: Registers) -> int:
        """The power of two behind the multipliers; where a small constant should hold it and holds nothing, that of all
        other layers: multipliers are fractions of it."""
        shift = self._places.shifts(regs)[0]
        fused = node.fused
        if shift or fused is None or not fused.convolves or not self._family.small_constants:
            return shift
        if fused.applies(Activation.LEAKY_RELU, Activation.PRELU) or not self._places.data_use(regs)[2]:
            return shift
        node.doubts.append(
            f"the shift of its multipliers is not in the file; {_MULTIPLIER_BITS} bits are taken"
        )
        return _MULTIPLIER_BITS

    def _read_fused(
        self, stage: Stage, fused: FusedOp, op: str, regs: Registers, output: str, source: DType, operand: str
    ) -> None:
        """What the parts of a fused operator keep in registers."""
        places = self._places
        if fused.applies(Activation.LEAKY_RELU):
            self._read_slope(stage, regs, output, source)
        elif fused.applies(Activation.CLIP) and source is not DType.INT8 and places.limits is not None:
            stage.clip = _clip(places.limits, regs)
            kept = places.lower_limit_kept
            if source is DType.INT16 and kept is not None and not kept.of(regs):
                raise ModelUnsupported(
                    f'the limits of {op} that gives "{output}" are incomplete: for this SoC the converter leaves the '
                    "lower limit of an int16 layer out when it is not 0; convert this layer in int8 or float16"
                )
        if fused.before in _SLOPED and fused.join in (Join.ADD, Join.MUL):
            if places.slope_shift is not None and not self._floating(source):
                stage.second_scale = 2.0 ** -places.slope_shift.of(regs)
        elif fused.join is Join.ADD and source in _WHOLE and not fused.applies(*_SLOPED):
            stage.second_scale = self._second_scale(regs, operand)

    def _read_slope(self, stage: Stage, regs: Registers, output: str, source: DType) -> None:
        place, early = self._places.slope, self._places.early_slope
        if early is not None and source.is_float and self._consts(_EARLY_SLOPE.format(output)) is not None:
            place = early
        raw = place.of(regs)
        stage.slope = _f16(raw) if self._floating(source) else raw * 2.0 ** -self._slope_bits(regs)

    def _floating(self, source: DType) -> bool:
        """Whether slopes are float16 numbers."""
        return source.is_float or (source is DType.INT16 and self._family.half_slopes)

    def _slope_bits(self, regs: Registers) -> int:
        """Of what power of two a slope is a fraction: values below zero have a shift of their own."""
        positive, negative = self._places.shifts(regs)
        return negative - positive

    def _second_scale(self, regs: Registers, operand: str) -> float:
        """Multiplier of the unit behind the one with a multiplier per channel, 1 where it is switched off.

        The converter uses it where the scale of the added operand would not fit its register otherwise.
        """
        places = self._places
        unused = any(place.of(regs) for place in places.second_unused)
        if places.slope_shift is None or unused:
            return 1.0
        if self._family.small_constants:
            regs = self._small(operand, regs, "Bn")
        factor = scaled((places.slope, places.slope_shift), regs)
        return factor if factor > 0 else 1.0

    def _read_table(self, stage: Stage, node: int, regs: Registers, source: DType) -> None:
        """The table of a node, its index scale, and the straight line (slope, offset) of its fp16 form."""
        places, tables = self._places, self._program.tables(node)
        multiplier = scaled(places.table_index, regs)
        raw, shift = (place.of(regs) for place in places.table_index)
        raw_offset = places.table_offset.of(regs)
        offset = raw_offset * (2.0**-shift if self._family.offset_after_shift else multiplier)
        if not self._family.mini or source is DType.INT16:  # layers of other types than int8 have no tables
            half, single = (_bf16 if source is DType.BFLOAT16 else _f16)(raw), _f32(raw_offset)
            stage.float_line = (half, single if self._family.offset_after_shift else single * half)
            stage.index_scale, stage.index_offset = multiplier, offset
        if tables is None:
            return
        low_start, high_start = (
            _TABLE_STARTS if places.table_starts is None else (p.of(regs) for p in places.table_starts)
        )
        low_step, high_step = (1 << place.of(regs) for place in places.table_steps)
        stage.lut = Lut(
            low=tables[0],
            high=tables[1],
            multiplier=multiplier,
            offset=offset,
            low_step=low_step,
            high_step=high_step,
            low_start=low_start,
            high_start=high_start,
            low_slope=0.0 if places.table_low is None else scaled(places.table_low, regs),
            high_slope=scaled(places.table_high, regs),
        )


def _clip(limits: Limits, regs: Registers) -> tuple[float, float]:
    """(lower, upper) limit."""
    moved = limits.base is not None and not (limits.base_unused and limits.base_unused.of(regs))
    base = _f32(limits.base.of(regs)) if limits.base is not None and moved else 0.0
    high = _f32(limits.high.of(regs)) - base
    return -base if limits.low is None else _f32(limits.low.of(regs)) - base, high


def _f32(value: int) -> float:
    return float(np.uint32(value & 0xFFFFFFFF).view(np.float32))


def _f16(value: int) -> float:
    return float(np.uint16(value & 0xFFFF).view(np.float16))


def _bf16(value: int) -> float:
    return _f32((value & 0xFFFF) << 16)
