"""BS and BN, two stages of the output: a sum, a product with a shift that depends on the sign, limits."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

from . import numbers as n
from .rdma import PerChannel
from .registers import Field, UnitRegisters

__all__ = [
    "BN",
    "BS",
    "ScalingFields",
    "alu",
    "at_most",
    "limit_fields",
    "limited",
    "limits_of",
    "scalar",
    "scaled",
]

_MAX, _MIN, _ADD, _DIVIDE, _MINUS, _ABS, _NEGATE = range(7)
_NONE_BELOW, _NONE_ABOVE = 0x80000000, 0x7FFFFFFF  # no limits, whatever the type


class ScalingFields(NamedTuple):
    """Where one of the two has its fields. ``adds_behind``: the sum comes between product and shift, not before."""

    algorithm: Field
    alu_fetched: Field
    limited: Field
    relu_off: Field
    prelu: Field
    multiplier_off: Field
    alu_off: Field
    off: Field
    alu: Field
    multiplier: Field
    shift: Field
    multiplier_fetched: Field
    limit: Field
    shift_negative: Field
    low: tuple[Field, ...]
    high: tuple[Field, ...]
    adds_behind: bool


def limit_fields(name: str, *places: int) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """(lower, upper) limits of designs that have them, twice each; ``places``: of the lower ones, the upper ones are behind."""
    return tuple(Field(f"{name}_LOW", at) for at in places), tuple(
        Field(f"{name}_HIGH", at + 4) for at in places
    )


def _fields(
    name: str, config: int, negative: tuple[int, int], limits: tuple[int, int], adds_behind: bool
) -> ScalingFields:
    return ScalingFields(
        Field(f"{name}_ALU_ALGO", config, 19, 16),
        Field(f"{name}_ALU_SRC", config, 8, 8),
        Field(f"{name}_RELUX_EN", config, 7, 7),
        Field(f"{name}_RELU_BYPASS", config, 6, 6),
        Field(f"{name}_MUL_PRELU", config, 5, 5),
        Field(f"{name}_MUL_BYPASS", config, 4, 4),
        Field(f"{name}_ALU_BYPASS", config, 1, 1),
        Field(f"{name}_BYPASS", config, 0, 0),
        Field(f"{name}_ALU_OPERAND", config + 4),
        Field(f"{name}_MUL_OPERAND", config + 8, 31, 16),
        Field(f"{name}_MUL_SHIFT_VALUE", config + 8, 13, 8),
        Field(f"{name}_MUL_SRC", config + 8, 0, 0),
        Field(f"{name}_RELUX_CMP", config + 12),
        Field(f"{name}_MUL_SHIFT_VALUE_NEG", 0x4010, *negative),
        *limit_fields(name, *limits),
        adds_behind,
    )


BS = _fields("BS", 0x4040, (9, 4), (0x4048, 0x4058), adds_behind=False)
"""Measured on RK3588: (accumulator + number) * multiplier, then the shift."""
BN = _fields("BN", 0x4060, (15, 10), (0x406C, 0x4074), adds_behind=True)
"""Inferred: the vendor's indices of tables are right so, whose sums are as large as products."""


def scaled(
    r: UnitRegisters, fields: ScalingFields, x: n.Values, numbers: PerChannel, precision: int
) -> n.Values:
    """What becomes of (H, W, C).

    Args:
        numbers: what was fetched for it.
        precision: of what flows, for the types of its own numbers.
    """
    for field in fields:
        if isinstance(field, Field):
            r.look(field)
    limits = limits_of(r, fields.low, fields.high)
    if r[fields.off]:
        return x
    adds_behind = fields.adds_behind and not r.design.adds_first
    if not (adds_behind or r[fields.alu_off]):
        x = _added(r, fields, x, numbers)
    if not r[fields.multiplier_off]:
        factor = _factor(r, fields, numbers, precision)
        x = np.where(x < 0, x * factor, x) if r[fields.prelu] else x * factor
    if adds_behind and not r[fields.alu_off]:
        x = _added(r, fields, x, numbers)
    if not r[fields.multiplier_off]:
        x = x.astype(np.float32, copy=False) if n.is_float(precision) else _shifted(r, fields, x, numbers)
    if not r[fields.relu_off]:
        x = np.maximum(x, 0)
        if r[fields.limited]:
            x = at_most(x, scalar(r, fields.limit, x))
    return limited(r, limits, x)


def limits_of(
    r: UnitRegisters, low: tuple[Field, ...], high: tuple[Field, ...]
) -> tuple[Optional[Field], Optional[Field]]:
    """The limits that are set, of designs that have them; those of both channels of the stage are the same."""
    if not r.design.limits:
        return None, None
    for first, second in (low, high):
        r.need(second, r[first], why=f"differs from {first.name}")
    return (None if r[low[0]] == _NONE_BELOW else low[0]), (None if r[high[0]] == _NONE_ABOVE else high[0])


def limited(r: UnitRegisters, limits: tuple[Optional[Field], Optional[Field]], x: n.Values) -> n.Values:
    """Numbers kept between limits."""
    low, high = limits
    if low is not None:
        x = np.maximum(x, scalar(r, low, x))
    return x if high is None else np.minimum(x, scalar(r, high, x))


def at_most(x: n.Values, limit: n.Values) -> n.Values:
    """``x`` up to ``limit``; one that is no number limits nothing, which is inferred: files have the largest integer for floats."""
    smaller: n.Values = x if np.isnan(limit).any() else np.minimum(x, limit)
    return smaller


def _added(r: UnitRegisters, fields: ScalingFields, x: n.Values, numbers: PerChannel) -> n.Values:
    operand = scalar(r, fields.alu, x)
    if r[fields.alu_fetched] or r.design.in_memory:
        if numbers.alu is None:
            r.refuse(fields.alu_fetched, "nothing is fetched")
        operand = numbers.alu
    return alu(r, fields.algorithm, x, operand)


def _factor(r: UnitRegisters, fields: ScalingFields, numbers: PerChannel, precision: int) -> n.Values:
    """What is multiplied with: 16 bits, of floats fp16 or bf16."""
    if r.design.limits and r[fields.prelu] and r[fields.multiplier_fetched] and precision == n.BF16:
        r.refuse(fields.prelu, "slopes of bf16 lie as fp32, which came out wrong")
    if r[fields.multiplier_fetched] or r.design.in_memory:
        if numbers.multiplier is None:
            r.refuse(fields.multiplier_fetched, "nothing is fetched")
        return numbers.multiplier
    bits = r[fields.multiplier]
    if precision == n.BF16:
        return np.array([n.as_float32(bits << 16)], np.float32)
    if n.is_float(precision):
        return np.array([n.as_half(bits)], np.float32)
    return np.array([bits - (bits >> 15 << 16)], np.float64)


def _shifted(r: UnitRegisters, fields: ScalingFields, product: n.Values, numbers: PerChannel) -> n.Values:
    """Products divided by 2^shift, those below zero by a shift of their own, limited to int32."""
    up, down = numbers.shifts or (r[fields.shift], r[fields.shift_negative])
    if down not in (0, up):
        shifted = np.where(product < 0, n.shifted(product, down), n.shifted(product, up))
    else:
        shifted = product  # nobody else has it
        if up:
            shifted *= 2.0**-up
            np.rint(shifted, out=shifted)
    return np.clip(shifted, *n.limits(n.INT32), out=shifted)


def scalar(r: UnitRegisters, field: Field, x: n.Values) -> n.Values:
    """A number of 32 bits: fp32 where ``x`` are floats, else an integer."""
    bits = r[field] & 0xFFFFFFFF
    if x.dtype == np.float32:
        return np.array([n.as_float32(bits)], np.float32)
    return np.array([bits - (bits >> 31 << 32)], np.float64)


def alu(r: UnitRegisters, field: Field, x: n.Values, operand: n.Values) -> n.Values:
    """The operation that ``field`` names: of integers all but a division were measured on RK3588."""
    algorithm = r.need(field, *r.design.algorithms)
    if algorithm == _DIVIDE and x.dtype != np.float32:
        r.refuse(field, "integers are divided")
    if algorithm in (_ABS, _NEGATE):
        alone: n.Values = np.abs(x) if algorithm == _ABS else -x
        return alone
    operations = {_MAX: np.maximum, _MIN: np.minimum, _ADD: np.add, _DIVIDE: np.divide, _MINUS: np.subtract}
    result: n.Values = operations[algorithm](x, operand)
    return result
