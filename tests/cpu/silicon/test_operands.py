"""Nodes of one or two tensors in registers against the formulas proven on chips, for all values that they may have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.silicon.pools import mean_of_sum
from rknnlite_graph.output_registers import OutputRegisters

from rknnlite.tensor import QuantParams
from tests.support.graphs import constant, one_node

from .formulas import average, average_2x2, half_sum, mean_of_window, product, sat, stored
from .nodes import in_registers, int8, run_stored

Array = Any
BYTES = np.arange(-128, 128)
PAIRS = np.stack(np.meshgrid(BYTES, BYTES, indexing="ij"))
"""All pairs of bytes, [2, 256, 256]."""
RV1103 = OutputRegisters(out_offset_first=True)


def of_two(op: str, registers: OutputRegisters, zeros: tuple[int, int, int], scale: float = 1.0) -> Array:
    """[256, 256] results of all pairs."""
    operands = [int8("a", (1, 1, 256, 256), zeros[0]), int8("b", (1, 1, 256, 256), zeros[1])]
    plan = one_node(
        op, operands, [int8("y", (1, 1, 256, 256), zeros[2], scale)], stage=in_registers(registers)
    )
    return run_stored(plan, *PAIRS[:, None, None])[0, 0]


@pytest.mark.parametrize("op", ["Add", "Sub", "Max"])
def test_sums_of_equal_steps(op: str) -> None:
    """Half of a sum, halves to even: 64 cases of 192 bytes were proven on RV1103; these are all 65,536."""
    scale = -(1 << 14) if op == "Sub" else 1 << 14
    registers = replace(
        RV1103, bs_multiplier=1 << 14, ew_scale=scale, out_multiplier=1 << 14, out_shift=29 - (op == "Max")
    )
    found = of_two(op, registers, (0, 0, 0), 2.0)
    a, b = PAIRS.tolist()
    rule = {"Add": half_sum, "Sub": lambda x, y: half_sum(x, -y), "Max": max}[op]
    assert found.tolist() == [[sat(rule(x, y), 8) for x, y in zip(*rows)] for rows in zip(a, b)]


@pytest.mark.parametrize(
    ("zeros", "multiplier", "shift"), [((0, 0, -1), 1 << 14, 19), ((-3, 100, 7), 20001, 22)]
)
def test_a_product(zeros: tuple[int, int, int], multiplier: int, shift: int) -> None:
    registers = replace(
        RV1103, bs_offset=-zeros[0], ew_offset=-zeros[1], out_multiplier=multiplier, out_shift=shift,
        out_offset=zeros[2],
    )  # fmt: skip
    found = of_two("Mul", registers, zeros)
    assert found.tolist() == [
        [product(x, y, zeros[:2], multiplier, shift, zeros[2]) for x, y in zip(*rows)]
        for rows in zip(*PAIRS.tolist())
    ]


@pytest.mark.parametrize(("first", "expected"), [(True, 126), (False, 127)])
def test_the_order_of_the_offset(first: bool, expected: int) -> None:
    """127.5 with zero point -1 gives 126 on RV1103, where adding behind the rounding gives 127: as measured."""
    registers = OutputRegisters(bs_multiplier=255, out_shift=1, out_offset=-1, out_offset_first=first)
    plan = one_node("Relu", [int8("x", (1, 1), 0)], [int8("y", (1, 1), -1)], stage=in_registers(registers))
    assert run_stored(plan, np.array([[1]])).item() == expected


@pytest.mark.parametrize("slope", [0, 1638, -(1 << 14), 9000])
def test_a_slope_alone(slope: int) -> None:
    registers = OutputRegisters(
        bs_multiplier=1 << 14,
        bs_shift_negative=14,
        bn_multiplier=slope,
        out_multiplier=29789,
        out_shift=28,
        out_offset=-5,
    )
    plan = one_node(
        "LeakyRelu", [int8("x", (256,), 0)], [int8("y", (256,), -5)], stage=in_registers(registers)
    )
    expected = [stored(x << 14 if x >= 0 else x * slope, 29789, 28, -5, False) for x in BYTES.tolist()]
    assert run_stored(plan, BYTES).tolist() == expected


def test_slopes_of_channels() -> None:
    slopes = np.array([-1975, 7268], np.int16).reshape(1, 2, 1)
    registers = OutputRegisters(
        bs_multiplier=1 << 14, bs_shift_negative=14, out_multiplier=21930, out_shift=28
    )
    plan = one_node(
        "PRelu",
        [int8("x", (1, 2, 256), 0), constant(slopes, QuantParams(2.0**-14, 0))],
        [int8("y", (1, 2, 256), 0)],
        stage=in_registers(registers),
    )
    found = run_stored(plan, np.stack([BYTES, BYTES])[None])
    for channel, slope in enumerate(slopes.ravel().tolist()):
        expected = [stored(x << 14 if x >= 0 else x * slope, 21930, 28, 0, False) for x in BYTES.tolist()]
        assert found[0, channel].tolist() == expected


def test_limits_alone() -> None:
    registers = OutputRegisters(
        bs_offset=64, bs_limit=112, out_multiplier=18651, out_shift=13, out_offset=-128
    )
    limits = [constant(np.float32(value)) for value in (-1, 0.75)]
    plan = one_node(
        "Clip", [int8("x", (256,), 0), *limits], [int8("y", (256,), 18)], stage=in_registers(registers)
    )
    expected = [stored(min(max(x + 64, 0), 112), 18651, 13, -128, False) for x in BYTES.tolist()]
    assert run_stored(plan, BYTES).tolist() == expected


@pytest.mark.parametrize("zero", [-128, -1, 0, 17])
def test_pools_of_2_x_2(zero: int) -> None:
    """All sums of four bytes: halves go to even, of stored values."""
    windows = np.random.default_rng(3).integers(-128, 128, (4000, 4))
    x = windows.reshape(1, -1, 2, 2)
    steps = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0], "count_include_pad": 1}
    plan = one_node(
        "AveragePool",
        [int8("x", x.shape, zero)],
        [int8("y", (1, len(windows), 1, 1), zero)],
        steps,
        stage=in_registers(OutputRegisters()),
    )
    found = run_stored(plan, x).ravel().tolist()
    assert found == [average_2x2(window) for window in windows.tolist()]
    assert found == [average(window, 2, 2) for window in windows.tolist()]


@pytest.mark.parametrize("sides", [(height, width) for height in range(1, 8) for width in range(1, 8)])
def test_means_of_any_window(sides: tuple[int, int]) -> None:
    most = 128 * sides[0] * sides[1]
    totals = np.arange(-most, most + 1, max(1, most // 500))
    found = mean_of_sum(totals.astype(np.float64), *sides)
    assert found.astype(int).tolist() == [mean_of_window(total, *sides) for total in totals.tolist()]


def test_padding_counts_with_the_zero_point() -> None:
    x = np.full((1, 1, 2, 2), 100)
    steps = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    plan = one_node(
        "AveragePool",
        [int8("x", x.shape, -20)],
        [int8("y", x.shape, -20)],
        steps,
        stage=in_registers(OutputRegisters()),
    )
    assert set(run_stored(plan, x).ravel().tolist()) == {average([100] * 4 + [-20] * 5, 3, 3)}


def test_a_norm() -> None:
    factor, offset = np.array([27507, -30000], np.int16), np.array([992674, -5], np.int32)
    registers = OutputRegisters(out_multiplier=18803, out_shift=29, out_offset=-32)
    operands = [int8("x", (1, 2, 256), -48), constant(factor), constant(offset)]
    plan = one_node(
        "BatchNormalization", operands, [int8("y", (1, 2, 256), -32)], stage=in_registers(registers)
    )
    found = run_stored(plan, np.stack([BYTES, BYTES])[None])
    for channel in range(2):
        values = [x * int(factor[channel]) + int(offset[channel]) for x in BYTES.tolist()]
        assert found[0, channel].tolist() == [stored(v, 18803, 29, -32, False) for v in values]


def test_a_constant_of_32_bits() -> None:
    registers = OutputRegisters(
        bs_offset=128, bs_multiplier=32767, out_multiplier=21817, out_shift=30, out_offset=-128
    )
    whole = constant(np.int32(4194176).reshape(1), QuantParams(2.0**-22, 0))
    plan = one_node(
        "Add", [int8("x", (256,), -128), whole], [int8("y", (256,), -128)], stage=in_registers(registers)
    )
    expected = [stored((x + 128) * 32767 + 4194176, 21817, 30, -128, False) for x in BYTES.tolist()]
    assert run_stored(plan, BYTES).tolist() == expected


def test_of_tasks_with_like_steps_the_nearest_is_taken() -> None:
    """A split into parts whose steps are nearly the same has a task for each."""
    tasks = tuple(
        OutputRegisters(out_multiplier=multiplier, out_shift=15) for multiplier in (20010, 20000, 19990)
    )
    results = [int8("p", (1, 64), 0, 32768 / 20000), int8("q", (1, 64), 0, 32768 / 19990)]
    stage = in_registers(tasks[0], read_tasks=lambda: tasks)
    plan = one_node(
        "Split", [int8("x", (1, 128), 0), constant(np.array([64, 64]))], results, {"axis": 1}, stage=stage
    )
    x = np.arange(-64, 64).reshape(1, 128)
    outputs = plan.run({plan.graph.inputs[0]: x.astype(np.float32)})
    for index, multiplier, part in zip(plan.graph.outputs, (20000, 19990), np.split(x, 2, axis=1)):
        assert outputs[index].tolist() == [[stored(v, multiplier, 15, 0, False) for v in part[0].tolist()]]
