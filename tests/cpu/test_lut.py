"""The NPU's activation tables: the dense look-up against the readable interpolation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.kernels.lut import DenseLut
from rknnlite_graph.activation_tables import interpolate
from rknnlite_graph.graph import Lut


def sigmoid_table(**changes: float) -> Lut:
    x = (np.arange(513) * 32) / 2596.596
    curve = np.rint(32767 / (1 + np.exp(-x)))
    lut = Lut(low=np.rint(32767 - curve[::-1]), high=curve, multiplier=1.0, offset=0.0)
    return dataclasses.replace(lut, **changes)


@given(
    st.floats(-0.01, 0.01), st.floats(-130, 130), st.floats(0, 2), st.floats(0, 2), st.sampled_from([16, 32]),
    st.integers(0, 999),
)  # fmt: skip
def test_dense_table_is_the_interpolation(
    scale: float, offset: float, low_slope: float, high_slope: float, step: int, seed: int
) -> None:
    lut = sigmoid_table(low_slope=low_slope, high_slope=high_slope, low_step=step, low_start=-512 * step)
    rng = np.random.default_rng(seed)
    index = np.rint(rng.uniform(-60000, 60000, 500)).astype(np.float32)
    expected = np.clip(np.rint(interpolate(lut, index.astype(np.float64)) * scale + offset), -128, 127)
    got = index.copy()
    DenseLut(lut, scale, offset, -128, 127)(got)
    reach = 1 << 19  # where the table ends although the output still changes
    assert got.dtype == np.float32
    assert np.array_equal(got[np.abs(index) < reach], expected[np.abs(index) < reach])


def test_points_and_lines_between() -> None:
    lut = sigmoid_table()
    assert interpolate(lut, np.array([-16384.0, 0.0, 32.0, 16384.0])).tolist() == [
        lut.low[0], lut.high[0], lut.high[1], lut.high[512],
    ]  # fmt: skip
    assert interpolate(lut, np.array([48.0]))[0] == (lut.high[1] + lut.high[2]) / 2


def test_beyond_the_ends_the_slopes_go_on() -> None:
    lut = sigmoid_table(low_slope=0.5, high_slope=2.0)
    assert interpolate(lut, np.array([16384.0 + 10]))[0] == lut.high[512] + 20
    assert interpolate(lut, np.array([-16384.0 - 10]))[0] == lut.low[0] - 5


def test_indices_are_rounded_and_never_leave_the_table() -> None:
    dense = DenseLut(sigmoid_table(), 127 / 32767, 0, -128, 127)
    values = np.array([-1e30, -0.4, 0.4, 1e30, np.inf, -np.inf], np.float32)
    dense(values)
    assert values[0] == values[5] == 0 and values[3] == values[4] == 127
    assert values[1] == values[2]


@pytest.mark.parametrize(
    "changes", [{"high_step": 1 << 31}, {"low_start": 1 << 30}, {"low_start": -(1 << 31)}]
)
def test_impossible_tables(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="its activation table covers the indices"):
        DenseLut(sigmoid_table(**changes), 1e-3, 0, -128, 127)
