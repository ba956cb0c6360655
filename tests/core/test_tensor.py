"""Element types, layouts and attributes carry the C API's numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rknnlite.errors import ParamInvalid
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr


def test_numbers_of_the_c_api() -> None:
    assert [d.value for d in DType] == list(range(12))
    assert (DType.FLOAT32, DType.INT8, DType.INT64, DType.BFLOAT16) == (0, 2, 8, 11)
    assert [layout.value for layout in Layout] == [0, 1, 2, 3]
    assert (Layout.NCHW, Layout.NHWC, Layout.NC1HWC2, Layout.UNDEFINED) == (0, 1, 2, 3)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_type_has_a_numpy_carrier(dtype: DType) -> None:
    assert dtype.bits in (4, 8, 16, 32, 64)
    if dtype is not DType.INT4:
        assert dtype.numpy.itemsize * 8 == dtype.bits
    if dtype not in (DType.INT4, DType.BFLOAT16):
        assert DType.from_numpy(dtype.numpy) is dtype


def test_short_names_and_float_types() -> None:
    assert [d.short for d in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT8)] == [
        "FP32", "FP16", "BF16", "INT8",
    ]  # fmt: skip
    assert {d for d in DType if d.is_float} == {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16}


@pytest.mark.parametrize("bad", ["float64", "complex64", "uint64", "S3"])
def test_types_without_counterpart(bad: str) -> None:
    with pytest.raises(ParamInvalid, match="has no RKNN counterpart; use one of"):
        DType.from_numpy(np.dtype(bad))


@given(st.lists(st.integers(1, 9), max_size=5), st.sampled_from([d for d in DType if d is not DType.INT4]))
def test_sizes(dims: list[int], dtype: DType) -> None:
    attr = TensorAttr(0, "x", tuple(dims), dtype, Layout.UNDEFINED)
    array = np.zeros(dims, dtype.numpy)
    assert (attr.n_elems, attr.size) == (array.size, array.nbytes)


def test_text_of_an_attribute() -> None:
    attr = TensorAttr(
        1,
        "image",
        (1, 224, 224, 3),
        DType.INT8,
        Layout.NHWC,
        QuantParams(0.5, -3),
        w_stride=224,
        size_with_stride=9,
    )
    assert str(attr) == (
        "index=1, name=image, n_dims=4, dims=[1, 224, 224, 3], n_elems=150528, size=150528, w_stride=224, "
        "size_with_stride=9, fmt=NHWC, type=INT8, qnt_type=AFFINE, zp=-3, scale=0.500000"
    )
    plain = dataclasses.replace(attr, quant=None, dtype=DType.FLOAT16, size_with_stride=0)
    assert "size_with_stride=301056, fmt=NHWC, type=FP16, qnt_type=NONE, zp=0, scale=1.000000" in str(plain)


def test_attributes_do_not_change() -> None:
    attr = TensorAttr(0, "x", (1,), DType.INT8, Layout.UNDEFINED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        attr.name = "y"  # type: ignore[misc]
