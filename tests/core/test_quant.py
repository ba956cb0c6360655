"""Affine quantisation: error bounds, saturation, ties to even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rknnlite.errors import ParamInvalid
from rknnlite.quant import RANGES, dequantise, quantise, to_integer
from rknnlite.tensor import DType, QuantParams

small_types = st.sampled_from([DType.INT8, DType.UINT8, DType.INT4])
scales = st.floats(2.0**-13, 1024.0, width=32)
reals = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32))


@st.composite
def parameters(draw: st.DrawFn) -> tuple[QuantParams, DType]:
    dtype = draw(small_types)
    return QuantParams(draw(scales), draw(st.integers(*RANGES[dtype]))), dtype


@given(reals, parameters())
def test_error_is_at_most_half_a_step_inside_the_range(x: np.ndarray, how: tuple[QuantParams, DType]) -> None:
    params, dtype = how
    low, high = RANGES[dtype]
    least, most = ((q - params.zero_point) * params.scale for q in (low, high))
    stored = quantise(x, params, dtype)
    assert stored.dtype == dtype.numpy and stored.shape == x.shape
    assert stored.min() >= low and stored.max() <= high
    error = np.abs(dequantise(stored, params) - np.clip(x.astype(np.float64), least, most))
    assert (error <= params.scale * (0.5 + 1e-3)).all()


@given(parameters())
def test_every_stored_value_survives(how: tuple[QuantParams, DType]) -> None:
    params, dtype = how
    every = np.arange(RANGES[dtype][0], RANGES[dtype][1] + 1).astype(dtype.numpy)
    assert np.array_equal(quantise(dequantise(every, params), params, dtype), every)


@given(reals, parameters())
def test_order_is_kept(x: np.ndarray, how: tuple[QuantParams, DType]) -> None:
    stored = quantise(np.sort(x), *how).astype(int)
    assert (np.diff(stored) >= 0).all()


def test_ties_go_to_even() -> None:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert quantise(halves, QuantParams(1.0, 0)).tolist() == [-2, -2, 0, 0, 2, 2]
    # the zero point is added after rounding: an odd one does not move the ties
    assert quantise(halves, QuantParams(1.0, 1)).tolist() == [-1, -1, 1, 1, 3, 3]


@pytest.mark.parametrize("dtype", list(RANGES))
def test_saturation(dtype: DType) -> None:
    low, high = RANGES[dtype]
    far = np.array([-1e30, 1e30, -np.inf, np.inf], np.float32)
    assert quantise(far, QuantParams(0.1, 0), dtype).tolist() == [low, high, low, high]


def test_dequantise_is_float32() -> None:
    real = dequantise(np.array([-128, 127], np.int8), QuantParams(0.5, -128))
    assert real.dtype == np.float32 and real.tolist() == [0.0, 127.5]


def test_type_that_is_not_quantised() -> None:
    with pytest.raises(ParamInvalid, match="cannot quantise to FLOAT16; use one of INT4, INT8"):
        quantise(np.zeros(1), QuantParams(1.0, 0), DType.FLOAT16)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64", "uint64"])
def test_real_numbers_beyond_an_integer_type_saturate(name: str) -> None:
    """The largest float that int64 holds is 2**63 - 1024; 2**63 itself would become the smallest int64."""
    info = np.iinfo(name)
    values = np.array([-np.inf, -1e300, info.min, 2.7, np.nan, 1e300, np.inf])
    low, less, least, cut, nothing, more, high = to_integer(values, np.dtype(name)).tolist()
    assert (low, less, least, cut, nothing) == (info.min, info.min, info.min, 2, 0)
    assert more == high and info.max - 2048 < high <= info.max
