"""Layout conversions keep every element, for any shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rknnlite import layout
from rknnlite.errors import ParamInvalid
from rknnlite.layout import (
    nc1hwc2_to_nchw,
    nchw_to_nc1hwc2,
    nchw_to_nhwc,
    nchw_to_nhwc_shape,
    nhwc_to_nchw,
    nhwc_to_nchw_shape,
)

shapes = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 6), st.integers(1, 6))
lanes = st.sampled_from([4, 8, 16, 32]) | st.integers(1, 7)
dtypes = st.sampled_from(["int8", "uint8", "float16", "float32", "int64", "bool"])


def numbered(shape: tuple[int, ...], dtype: str = "int64") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@given(shapes, dtypes)
def test_nhwc_round_trip(shape: tuple[int, ...], dtype: str) -> None:
    x = numbered(shape, dtype)
    there = nchw_to_nhwc(x)
    assert there.shape == (shape[0], shape[2], shape[3], shape[1])
    assert there.dtype == x.dtype and np.shares_memory(there, x)
    assert np.array_equal(nhwc_to_nchw(there), x)
    assert nchw_to_nhwc_shape(shape) == there.shape and nhwc_to_nchw_shape(there.shape) == shape


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (1, 2, 3, 4, 5)])
def test_only_shapes_of_rank_4_have_an_order(shape: tuple[int, ...]) -> None:
    assert nchw_to_nhwc_shape(shape) == nhwc_to_nchw_shape(shape) == shape


@given(shapes, lanes, dtypes)
def test_nc1hwc2_round_trip(shape: tuple[int, ...], c2: int, dtype: str) -> None:
    x = numbered(shape, dtype)
    native = nchw_to_nc1hwc2(x, c2)
    n, c, h, w = shape
    assert native.shape == (n, -(-c // c2), h, w, c2)
    assert native.dtype == x.dtype and native.flags.c_contiguous and not np.shares_memory(native, x)
    assert np.array_equal(nc1hwc2_to_nchw(native, c), x)


@given(shapes, lanes, st.data())
def test_nc1hwc2_address_of_an_element(shape: tuple[int, ...], c2: int, data: st.DataObject) -> None:
    """Fastest to slowest: C2, W, H, C1, N (RKNN user guide, section 5.1)."""
    n, c, h, w = (data.draw(st.integers(0, size - 1)) for size in shape)
    x = numbered(shape)
    flat = nchw_to_nc1hwc2(x, c2, fill=-1).reshape(-1)
    c1_count = -(-shape[1] // c2)
    address = (((n * c1_count + c // c2) * shape[2] + h) * shape[3] + w) * c2 + c % c2
    assert flat[address] == x[n, c, h, w]
    assert np.count_nonzero(flat == -1) == flat.size - x.size, "every padding lane is filled, and no other"


@given(shapes, lanes)
def test_padding_lanes_may_hold_anything(shape: tuple[int, ...], c2: int) -> None:
    x = numbered(shape)
    junk = nchw_to_nc1hwc2(x, c2, fill=99999)
    assert np.array_equal(nc1hwc2_to_nchw(junk, shape[1]), x)


@pytest.mark.parametrize(("height", "width"), [(7, 7), (13, 13), (9, 11), (1, 5), (3, 1), (4, 6)])
@pytest.mark.parametrize(("channels", "c2"), [(20, 16), (3, 8), (36, 4)])
def test_positions_in_one_row(height: int, width: int, channels: int, c2: int) -> None:
    """As runtimes report outputs whose positions are no multiple of 4: padded, and all in one row."""
    x = np.random.default_rng(3).integers(-128, 128, (2, channels, height, width), np.int8)
    square = nchw_to_nc1hwc2(x, c2)
    n, c1 = square.shape[:2]
    surface = -(-height * width // 4) * 4
    flat = np.full((n, c1, 1, surface, c2), 99, np.int8)
    flat[:, :, 0, : height * width] = square.reshape(n, c1, height * width, c2)
    assert np.array_equal(nc1hwc2_to_nchw(flat, channels, (height, width)), x)
    assert np.array_equal(nc1hwc2_to_nchw(square, channels, (height, width)), x)
    assert nc1hwc2_to_nchw(flat, channels).shape == (2, channels, 1, surface)


def test_positions_that_are_not_there() -> None:
    flat = np.zeros((1, 2, 1, 52, 16), np.int8)
    for size in ((7, 8), (2, 27), (0, 4), (-7, -7)):
        with pytest.raises(ParamInvalid, match=f"{size[0]} x {size[1]} positions do not fit the 1 x 52"):
            nc1hwc2_to_nchw(flat, 20, size)


@pytest.mark.parametrize("function", [nchw_to_nhwc, nhwc_to_nchw, lambda x: nchw_to_nc1hwc2(x, 8)])
@pytest.mark.parametrize("rank", [0, 3, 5])
def test_wrong_rank(function: object, rank: int) -> None:
    with pytest.raises(ParamInvalid, match=r"needs rank 4, got shape"):
        function(np.zeros([1] * rank))  # type: ignore[operator]


def test_impossible_channels() -> None:
    native = np.zeros((1, 2, 1, 1, 8))
    for channels in (0, -1, 17):
        with pytest.raises(ParamInvalid, match=f"{channels} channels do not fit C1=2 groups of C2=8"):
            nc1hwc2_to_nchw(native, channels)
    with pytest.raises(ParamInvalid, match="needs rank 5"):
        nc1hwc2_to_nchw(native[0], 8)
    with pytest.raises(ParamInvalid, match="C2 must be at least 1, got 0"):
        nchw_to_nc1hwc2(np.zeros((1, 1, 1, 1)), 0)


@pytest.mark.parametrize("opencv", [True, False])
@pytest.mark.parametrize("dtype", ["u1", "i1", "?", "f2", "i2", "f4", "i4", "i8", "f8", ">i2"])
@pytest.mark.parametrize(
    "shape", [(1, 3, 5, 7), (2, 4, 3, 2), (1, 1, 4, 4), (1, 2, 1, 9), (1, 16, 3, 3), (1, 40, 2, 3)]
)
def test_copied_pixels_are_the_transposed_ones(
    shape: tuple[int, ...], dtype: str, opencv: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With OpenCV's interleaving and without it; views with gaps and read-only arrays too."""
    if not opencv:
        monkeypatch.setattr(layout, "opencv_merge", lambda: None)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (*shape[:3], 2 * shape[3] * np.dtype(dtype).itemsize), dtype=np.uint8)
    wide = bits.view(dtype) if dtype != "?" else bits > 127
    tight = np.ascontiguousarray(wide[..., ::2])
    tight.flags.writeable = False
    for nchw in (tight, wide[..., ::2], np.asfortranarray(tight), tight[..., ::-1]):
        out = np.empty(layout.nchw_to_nhwc_shape(shape), nchw.dtype)
        layout.copy_pixels(layout.nchw_to_nhwc(nchw), out)
        assert out.tobytes() == nchw.transpose(0, 2, 3, 1).tobytes()


@pytest.mark.parametrize("opencv", [True, False])
def test_copied_pixels_may_change_their_type(opencv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not opencv:
        monkeypatch.setattr(layout, "opencv_merge", lambda: None)
    nchw = np.arange(36, dtype=np.float64).reshape(1, 3, 3, 4)
    out = np.empty((1, 3, 4, 3), np.float32)
    layout.copy_pixels(layout.nchw_to_nhwc(nchw), out)
    assert np.array_equal(out, nchw.transpose(0, 2, 3, 1))
