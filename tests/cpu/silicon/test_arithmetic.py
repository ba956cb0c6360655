"""Shifts in double and in int64 against Python's own integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.silicon.arithmetic import output_converter, shift, shift_by_sign, shift_wide_by_sign
from rknnlite_graph.output_registers import OutputRegisters

from .formulas import rne, sat, stored
from .nodes import int8

BITS = st.integers(0, 40)


@given(st.lists(st.integers(-(2**47), 2**47), min_size=1, max_size=30), BITS)
def test_products_of_a_sum_and_a_multiplier_are_exact_in_double(products: list[int], bits: int) -> None:
    assert shift(np.array(products, np.float64), bits).tolist() == [sat(rne(p, bits), 32) for p in products]


@given(st.lists(st.integers(-(2**47), 2**47), min_size=1, max_size=30), BITS, BITS)
def test_shifts_by_sign(products: list[int], bits: int, negative: int) -> None:
    expected = [sat(rne(p, bits if p >= 0 else negative), 32) for p in products]
    assert shift_by_sign(np.array(products, np.float64), bits, negative).tolist() == expected


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30), BITS, BITS)
def test_wide_products_of_16_bit_layers(products: list[int], bits: int, negative: int) -> None:
    expected = [sat(rne(p, bits if p >= 0 else negative), 32) for p in products]
    assert shift_wide_by_sign(np.array(products, np.int64), bits, negative).tolist() == expected


@given(st.integers(1, 6), st.integers(-40, 40), st.integers(0, 20))
def test_ties_of_wide_products(bits: int, number: int, more: int) -> None:
    product = ((2 * number + 1) << (bits - 1)) << more
    found = shift_wide_by_sign(np.array([product], np.int64), bits + more, bits + more)
    assert found.tolist() == [rne(product, bits + more)]


@pytest.mark.parametrize("first", [False, True])
@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30), st.integers(0, 2**15 - 1), BITS, st.integers(-128, 127)
)  # fmt: skip
def test_the_output_converter(
    first: bool, values: list[int], multiplier: int, bits: int, offset: int
) -> None:
    registers = OutputRegisters(
        out_multiplier=multiplier, out_shift=bits, out_offset=offset, out_offset_first=first
    )
    out = np.empty(len(values), np.float32)
    output_converter(registers, int8("y", (len(values),), 3))(np.array(values, np.float64), out)
    assert (out + 3).tolist() == [stored(value, multiplier, bits, offset, first) for value in values]
