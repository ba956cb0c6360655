"""Attributes of inputs and outputs as the vendor's runtimes report them.

Figures without a remark are librknnrt 1.6.0's (RK35xx) and librknnmrt 2.3.2's (RV11xx); others are from public logs of
boards, as the tests say.
"""

from __future__ import annotations

import pytest

from rknnlite.formats import IoTensor
from rknnlite.formats.tensor_attrs import default_attr, native_input, native_output
from rknnlite.socs import get as soc_of
from rknnlite.tensor import DType, Layout, QuantParams

I8, F16 = DType.INT8, DType.FLOAT16
SCALE = QuantParams(0.5, 3)


def io(shape: tuple[int, ...], dtype: DType = I8, native: tuple[int, ...] = (), align: int = 4) -> IoTensor:
    quant = SCALE if dtype is I8 else None
    return IoTensor("x", shape, dtype, Layout.NCHW, quant, native, surface_alignment=align)


@pytest.mark.parametrize(
    ("soc", "native", "dims"),
    [
        ("rk3588", (1, 4, 9, 11, 16), (1, 4, 1, 100, 16)),
        ("rk3588", (1, 4, 7, 7, 16), (1, 4, 1, 52, 16)),
        ("rk3568", (1, 7, 13, 13, 8), (1, 7, 1, 172, 8)),
        ("rk3562", (1, 4, 1, 1, 16), (1, 4, 1, 4, 16)),
        ("rv1106", (1, 4, 5, 7, 16), (1, 4, 1, 36, 16)),
        ("rk3588", (1, 4, 12, 11, 16), (1, 4, 12, 11, 16)),  # 132 positions: a multiple of 4
        ("rv1103b", (1, 7, 6, 2, 8), (1, 7, 6, 2, 8)),
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_positions_of_native_outputs(
    soc: str, native: tuple[int, ...], dims: tuple[int, ...], batch: int
) -> None:
    attr = native_output(0, io((1, 50, *native[2:4]), native=native), batch, soc_of(soc))
    assert attr.layout is Layout.NC1HWC2 and attr.dims == (batch, *dims[1:])
    assert attr.size == attr.size_with_stride == batch * dims[1] * dims[2] * dims[3] * dims[4]
    assert attr.w_stride == (dims[3] if soc.startswith("rv") else 0)


def test_the_size_of_an_output_of_nine_rows() -> None:
    attr = native_output(0, io((1, 50, 9, 11), native=(1, 4, 9, 11, 16)), 1, soc_of("rk3588"))
    assert (attr.dims, attr.size_with_stride) == ((1, 4, 1, 100, 16), 6400)


def test_positions_that_the_file_does_not_pad() -> None:
    """Behind a softmax or global pooling (public log: 1000 classes of an fp16 output, 2000 bytes)."""
    attr = native_output(0, io((1, 1000, 1, 1), F16, (1, 125, 1, 1, 8), align=0), 1, soc_of("rk3588"))
    assert (attr.dims, attr.size_with_stride) == ((1, 125, 1, 1, 8), 2000)


@pytest.mark.parametrize(
    ("soc", "shape", "dtype", "native", "size"),
    [
        ("rk3588", (1, 12, 12, 12), I8, (1, 2, 12, 12, 16), 3072),
        ("rv1106", (1, 12, 12, 12), I8, (1, 1, 12, 12, 16), 1728),
        ("rv1103b", (1, 12, 12, 12), I8, (1, 2, 12, 12, 8), 1728),
        ("rk3588", (1, 255, 80, 80), I8, (1, 16, 80, 80, 16), 1638400),  # public logs from here on
        ("rk3588", (1, 255, 40, 40), I8, (1, 16, 40, 40, 16), 491520),
        ("rk3568", (1, 255, 40, 40), I8, (1, 32, 40, 40, 8), 409600),
        ("rk3588", (1, 36, 80, 80), I8, (1, 4, 80, 80, 16), 307200),
        ("rk3588", (1, 36, 40, 40), I8, (1, 4, 40, 40, 16), 92160),
        ("rk3588", (1, 1000, 1, 1), F16, (1, 125, 1, 1, 8), 16000),
    ],
)
def test_bytes_of_outputs(
    soc: str, shape: tuple[int, ...], dtype: DType, native: tuple[int, ...], size: int
) -> None:
    attr = default_attr(0, io(shape, dtype, native), 1, False, soc_of(soc))
    assert (attr.layout, attr.dims, attr.w_stride) == (Layout.NCHW, shape, 0)
    assert attr.size_with_stride == size


@pytest.mark.parametrize(
    ("soc", "dtype", "width", "row"),
    [
        ("rk3588", F16, 20, 24),
        ("rk3588", I8, 20, 32),
        ("rk3562", F16, 17, 24),
        ("rk3568", I8, 20, 24),
        ("rk3568", F16, 20, 20),
        ("rv1103b", I8, 20, 32),
    ],
)
def test_rows_of_pictures(soc: str, dtype: DType, width: int, row: int) -> None:
    """A row of a channel takes 16 bytes or a multiple, 8 on RK3566 and RK3568: in pixels half as many of float16."""
    picture = io((1, 3, 10, width), dtype, (1, 1, 10, width, 3))
    for attr in (native_input(0, picture, 1, soc_of(soc)), default_attr(0, picture, 1, True, soc_of(soc))):
        assert (attr.layout, attr.dims, attr.w_stride) == (Layout.NHWC, (1, 10, width, 3), row)
        assert attr.size_with_stride == 10 * row * 3 * dtype.bits // 8


def test_half_precision_has_scale_one() -> None:
    soc = soc_of("rk3588")
    picture, result = io((1, 3, 8, 8), F16), io((1, 20, 7, 7), F16, (1, 3, 7, 7, 8))
    attrs = [
        default_attr(0, picture, 1, True, soc),
        native_input(0, picture, 1, soc),
        default_attr(0, result, 1, False, soc),
        native_output(0, result, 1, soc),
        native_output(0, io((1, 9), F16), 1, soc),
    ]
    assert [attr.quant for attr in attrs] == [QuantParams(1.0, 0)] * 5
    assert all("type=FP16, qnt_type=AFFINE, zp=0, scale=1.000000" in str(attr) for attr in attrs)
    assert default_attr(0, io((1, 9), DType.INT64), 1, True, soc).quant is None
    assert default_attr(0, io((1, 9), I8), 1, True, soc).quant == SCALE


@pytest.mark.parametrize(
    ("soc", "native", "row"), [("rv1106", (1, 1, 12, 12, 16), 12), ("rk3588", (1, 2, 12, 12, 16), 0)]
)
def test_rows_of_a_native_output_of_twelve_columns(soc: str, native: tuple[int, ...], row: int) -> None:
    attr = native_output(0, io((1, 12, 12, 12), native=native), 1, soc_of(soc))
    assert (attr.layout, attr.dims, attr.w_stride) == (Layout.NC1HWC2, native, row)
    assert default_attr(0, io((1, 12, 12, 12), native=native), 1, False, soc_of(soc)).w_stride == 0
