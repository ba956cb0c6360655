"""The output stage of a convolution, in the integers of its registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Activation, ConvParams, FusedOp, Join, Stage, Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.output_registers import OutputRegisters

from rknnlite.tensor import DType

from ..values import OutputStage
from .arithmetic import Array, output_converter, saturate, shift, shift_by_sign, shift_wide_by_sign
from .tables import table_of_indices

__all__ = ["chip_stage", "first_operand", "operand_converter", "slopes_of"]

_SLOPED = (Activation.LEAKY_RELU, Activation.PRELU)
_LIMITED = (Activation.RELU, Activation.CLIP)
Unit = Callable[[Array, slice], Array]
"""(values behind their multipliers, their channels) -> values, in the same place."""


def chip_stage(view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> OutputStage:
    """What a chip makes of sums. The node is one that ``rules.reason`` has nothing against."""
    registers = stage.registers
    assert registers is not None
    multiplier = _multipliers(conv, registers).reshape(1, -1, 1)
    unit = _bn_unit(view, fused, conv, stage)
    convert = output_converter(registers, view.outputs[0])
    operand_of = operand_converter(view, 1, registers) if fused.join is not None else None
    wide = view.tensor(0).dtype is not DType.INT8
    multiplies, late_relu = fused.join is Join.MUL, fused.join is not None and fused.after is Activation.RELU

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        if wide:
            products = acc.astype(np.int64) * multiplier[:, channels].astype(np.int64)
            values = shift_wide_by_sign(products, registers.bs_shift, registers.bs_shift_negative)
        else:
            values = np.multiply(acc, multiplier[:, channels], dtype=np.float64)
            values = shift_by_sign(values, registers.bs_shift, registers.bs_shift_negative)
        if unit is not None:
            values = unit(values, channels)
        if operand is not None and operand_of is not None:
            if multiplies:
                values *= operand_of(operand)
                shift(values, registers.ew_product_shift)
            else:
                values += operand_of(operand)
                saturate(values)
            if late_relu:
                np.maximum(values, 0, out=values)
        convert(values, out)

    return run


def _multipliers(conv: ConvParams, registers: OutputRegisters) -> Array:
    """[OC] whole numbers."""
    stored = conv.stored_multiplier
    return np.full(conv.weight_shape[0], float(registers.bs_multiplier)) if stored is None else stored


def operand_converter(view: NodeView, position: int, registers: OutputRegisters) -> Callable[[Array], Array]:
    """Centred values of a second operand -> what meets the sum, an array of its own."""
    params = view.tensor(position).quant
    zero = 0 if params is None else params.zero_point
    offset, scale, bits = registers.ew_offset + zero, float(registers.ew_scale), registers.ew_shift

    def converted(operand: Array) -> Array:
        values = operand.astype(np.float64)
        if offset:
            values += offset
        values *= scale
        return shift(values, bits)

    return converted


def first_operand(tensor: Tensor, registers: OutputRegisters) -> Callable[[Array], Array]:
    """Centred values of the operand that stands for a sum -> what BS makes of them, an array of their own."""
    params = tensor.quant
    assert params is not None
    offset, multiplier = float(params.zero_point + registers.bs_offset), float(registers.bs_multiplier)

    def scaled(values: Array) -> Array:
        values = values.astype(np.float64)
        if offset:
            values += offset
        values *= multiplier
        return shift_by_sign(values, registers.bs_shift, registers.bs_shift_negative)

    return scaled


def slopes_of(fused: FusedOp, conv: Optional[ConvParams], registers: OutputRegisters) -> Array:
    """Whole slopes of values below zero, [1, OC or 1, 1 or positions]."""
    if fused.applies(Activation.PRELU) and conv is not None and conv.slope is not None:
        fraction = 2.0 ** (registers.bs_shift_negative - registers.bs_shift)
        return np.rint(conv.slope.astype(np.float64) * fraction).reshape(1, len(conv.slope), -1)
    return np.full((1, 1, 1), float(registers.bn_multiplier))


def _bn_unit(view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> Optional[Unit]:
    """The unit behind the multipliers: table, slope, limits or a second factor; None where it is off."""
    registers = stage.registers
    assert registers is not None
    if fused.after is Activation.TABLE:
        assert stage.lut is not None
        look_up = table_of_indices(stage.lut, registers)
        return lambda values, _: look_up(values)
    first = fused.before if fused.join is not None else fused.after
    if first in _SLOPED:
        return _slope_unit(fused, conv, registers)
    if first in _LIMITED:
        low, high = (0.0, np.inf) if first is Activation.RELU else limits_of(stage)
        return lambda values, _: np.clip(values, low, high, out=values)
    if stage.second_scale != 1:

        def second_factor(values: Array, _: slice) -> Array:
            values *= registers.bn_multiplier
            return shift_by_sign(values, registers.bn_shift, registers.bn_shift_negative)

        return second_factor
    return None


def _slope_unit(fused: FusedOp, conv: ConvParams, registers: OutputRegisters) -> Unit:
    slopes = slopes_of(fused, conv, registers)
    of_all = slopes.shape[1] == 1
    shifts = (registers.bn_shift, registers.bn_shift_negative) if fused.join is not None else (0, 0)

    def unit(values: Array, channels: slice) -> Array:
        values = np.where(values < 0, values * (slopes if of_all else slopes[:, channels]), values)
        return shift_by_sign(values, *shifts)

    return unit


def limits_of(stage: Stage) -> tuple[float, float]:
    """Limits of a Clip behind the multipliers, infinite where the file tells none."""
    low, high = stage.limits
    return -np.inf if low is None else np.rint(low), np.inf if high is None else np.rint(high)
