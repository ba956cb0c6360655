"""Layers in registers against the formulas proven on chips, on random operands, with sums and multipliers that make ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rknnlite_graph.output_registers import OutputRegisters

from .formulas import leaky, rne, sat, scaled, stored
from .nodes import convolution, in_registers, run_stored, sums

Array = Any
SEEDS = range(8)
SIZE, CHANNELS, OUT = 7, 5, 6


class Layer:
    """Random operands of one layer; products of shift and multiplier are such that a share of the results are ties."""

    def __init__(self, seed: int, depthwise: bool = False) -> None:
        rng = np.random.default_rng(seed)
        rows = CHANNELS if depthwise else OUT
        self.weight = rng.integers(-31, 32, (rows, 1 if depthwise else CHANNELS, 3, 3))
        self.bias = rng.integers(-(2**12), 2**12, rows)
        self.multiplier = np.where(rng.random(rows) < 0.5, 1 << 14, rng.integers(1, 1 << 14, rows))
        self.zeros = (
            int(rng.integers(-128, 128)),
            int(rng.integers(-128, 128)) | 1,
        )  # ties differ with an odd one
        self.x = rng.integers(-128, 128, (CHANNELS, SIZE, SIZE))
        self.out = int(rng.choice([1 << 14, 3 << 13, 29999])), int(rng.integers(18, 22))
        self.totals = sums(self.x, self.weight, self.bias, self.zeros[0])
        self.rng = rng

    def registers(self, **further: Any) -> OutputRegisters:
        numbers = {"bs_shift": 14, "bs_shift_negative": 14, "out_offset": self.zeros[1], **further}
        return OutputRegisters(
            out_multiplier=self.out[0], out_shift=numbers.pop("out_shift", self.out[1]), **numbers
        )

    def expected(self, rule: Any) -> Array:
        """``rule(total, channel)`` of every sum."""
        return np.array(
            [
                [[rule(int(total), channel) for total in row] for row in plane]
                for channel, plane in enumerate(self.totals)
            ]
        )[None]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("op", ["Conv", "ConvRelu"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_convolution(seed: int, op: str, depthwise: bool, first: bool) -> None:
    layer = Layer(seed, depthwise)
    registers = layer.registers(out_offset_first=first)
    plan = convolution(
        op, layer.weight, layer.bias, layer.multiplier, in_registers(registers), layer.zeros, SIZE
    )

    def rule(total: int, channel: int) -> int:
        value = scaled(total, int(layer.multiplier[channel]), 14, 14)
        return stored(max(value, 0) if op == "ConvRelu" else value, *layer.out, layer.zeros[1], first)

    assert np.array_equal(run_stored(plan, layer.x[None]), layer.expected(rule))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_shifts_by_sign(seed: int, first: bool) -> None:
    layer = Layer(seed)
    registers = layer.registers(bs_shift=13, bs_shift_negative=15, out_offset_first=first)
    plan = convolution(
        "Conv", layer.weight, layer.bias, layer.multiplier, in_registers(registers), layer.zeros, SIZE
    )

    def rule(total: int, channel: int) -> int:
        return stored(
            scaled(total, int(layer.multiplier[channel]), 13, 15), *layer.out, layer.zeros[1], first
        )

    assert np.array_equal(run_stored(plan, layer.x[None]), layer.expected(rule))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_limit(seed: int) -> None:
    layer = Layer(seed)
    high = int(np.abs(layer.totals).max()) // 3
    stage = in_registers(layer.registers(out_offset_first=True), limits=(0.0, float(high)))
    plan = convolution("ConvClip", layer.weight, layer.bias, layer.multiplier, stage, layer.zeros, SIZE)

    def rule(total: int, channel: int) -> int:
        value = scaled(total, int(layer.multiplier[channel]), 14, 14)
        return stored(min(max(value, 0), high), *layer.out, layer.zeros[1], True)

    assert np.array_equal(run_stored(plan, layer.x[None]), layer.expected(rule))


@pytest.mark.parametrize("op", ["ConvLeakyRelu", "ConvPRelu"])
@pytest.mark.parametrize("seed", SEEDS)
def test_slopes(seed: int, op: str) -> None:
    layer = Layer(seed)
    common = int(layer.rng.integers(0, 1 << 14))
    slopes = layer.rng.integers(0, 1 << 14, OUT) if op == "ConvPRelu" else np.full(OUT, common)
    shift = layer.out[1] + 14
    registers = layer.registers(
        bs_shift=0, bs_shift_negative=14, bn_multiplier=common, out_shift=shift, out_offset_first=True
    )
    small = layer.multiplier >> 3  # values from 0 up stay unshifted, and have 32 bits
    plan = convolution(
        op, layer.weight, layer.bias, small, in_registers(registers), layer.zeros, SIZE,
        slope=(slopes / 2.0**14).astype(np.float32) if op == "ConvPRelu" else None,
    )  # fmt: skip

    def rule(total: int, channel: int) -> int:
        value = leaky(total, int(small[channel]), int(slopes[channel]))
        return stored(value, layer.out[0], shift, layer.zeros[1], True)

    assert np.array_equal(run_stored(plan, layer.x[None]), layer.expected(rule))


@pytest.mark.parametrize("op", ["ConvAdd", "ConvAddRelu", "ConvMul"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_operand(seed: int, op: str) -> None:
    layer = Layer(seed)
    zero = int(layer.rng.integers(-128, 128))
    beside = layer.rng.integers(-128, 128, layer.totals.shape)
    scale, bits = (1, 0) if op == "ConvMul" else (int(layer.rng.integers(1 << 14, 1 << 15)), 5)
    out_shift = layer.out[1] + (7 if op == "ConvMul" else 0)
    registers = layer.registers(ew_offset=-zero, ew_scale=scale, ew_shift=bits, out_shift=out_shift)
    plan = convolution(
        op,
        layer.weight,
        layer.bias,
        layer.multiplier,
        in_registers(registers),
        layer.zeros,
        SIZE,
        beside=zero,
    )

    def rule(total: int, channel: int, other: int) -> int:
        value, operand = (
            scaled(total, int(layer.multiplier[channel]), 14, 14),
            rne((other - zero) * scale, bits),
        )
        value = sat(value * operand if op == "ConvMul" else value + operand, 32)
        return stored(
            max(value, 0) if op.endswith("Relu") else value, layer.out[0], out_shift, layer.zeros[1], False
        )

    expected = np.array(
        [rule(int(total), place[0], int(beside[place])) for place, total in np.ndenumerate(layer.totals)]
    ).reshape(1, *layer.totals.shape)
    assert np.array_equal(run_stored(plan, layer.x[None], beside[None]), expected)


def test_products_are_wide_under_a_shift_and_saturate_without() -> None:
    """As measured on RK3588: with a shift of 20 products past 2^31 are read whole, with none they saturate."""
    layer = Layer(1)
    weight, bias = np.full((2, CHANNELS, 3, 3), 127), np.array([2**30, -(2**30)])
    multiplier = np.array([1 << 14, 1 << 14])
    for shift, out_shift in ((20, 22), (0, 30)):
        registers = OutputRegisters(
            bs_shift=shift, bs_shift_negative=shift, out_multiplier=1, out_shift=out_shift, out_offset=0
        )
        plan = convolution("Conv", weight, bias, multiplier, in_registers(registers), (0, 0), SIZE)
        totals = sums(layer.x, weight, bias, 0)
        expected = [
            stored(scaled(int(t), 1 << 14, shift, shift), 1, out_shift, 0, False) for t in totals.ravel()
        ]
        assert run_stored(plan, layer.x[None]).ravel().tolist() == expected
        assert set(expected) == ({4, -4} if shift else {2, -2})


def test_ties_are_there_and_orders_of_the_offset_part_there() -> None:
    """Otherwise these tests would hold for any rounding."""
    ties = parted = 0
    for seed in SEEDS:
        layer = Layer(seed)
        for place, total in np.ndenumerate(layer.totals):
            value = scaled(int(total), int(layer.multiplier[place[0]]), 14, 14)
            ties += (value * layer.out[0]) % (1 << layer.out[1]) == 1 << (layer.out[1] - 1)
            both = [stored(value, *layer.out, layer.zeros[1], first) for first in (False, True)]
            parted += both[0] != both[1]
    assert ties >= 5 and parted >= 3, (ties, parted)


@pytest.mark.parametrize("away", [False, True])
def test_the_tie_bit(away: bool) -> None:
    """128 elements at shift 1: bit 30 sends halves away from zero, not to even."""
    registers = OutputRegisters(out_multiplier=1, out_shift=1, out_round_away=away)
    x = np.arange(-63, 64).reshape(1, 1, 1, -1)
    weight = np.ones((1, 1, 1, 1), np.int64)
    plan = convolution("Conv", weight, np.zeros(1), np.ones(1), in_registers(registers), (0, 0), 1)
    found = [int(run_stored(plan, np.full((1, 1, 1, 1), value))[0, 0, 0, 0]) for value in x.ravel().tolist()]
    expected = [(abs(v) + 1) // 2 * (1 if v > 0 else -1) if away else rne(v, 1) for v in x.ravel().tolist()]
    assert found == expected


def test_a_multiplier_has_a_sign() -> None:
    """0x8000 multiplies by -32768, as measured on RK3588 and RK3576."""
    registers = OutputRegisters(out_multiplier=0x8000, out_shift=15)
    plan = convolution(
        "Conv", np.ones((1, 1, 1, 1), np.int64), np.zeros(1), np.ones(1), in_registers(registers), (0, 0), 1
    )
    assert run_stored(plan, np.full((1, 1, 1, 1), 5)).item() == -5
