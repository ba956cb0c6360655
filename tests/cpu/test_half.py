"""Rounding to float16: the bits of numpy's own conversion, whoever computes them and wherever the result goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.kernels import half

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


@pytest.fixture(params=["opencv", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With OpenCV's conversion where it is installed, and without."""
    if request.param == "numpy":
        monkeypatch.setattr(half, "converter", lambda: None)


def expected(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(np.float16).astype(np.float32)


def same_bits(found: np.ndarray, values: np.ndarray) -> bool:
    wanted = expected(values)
    number = ~np.isnan(wanted)
    alike = np.array_equal(found[number].view(np.uint32), wanted[number].view(np.uint32))
    return found.shape == wanted.shape and alike and bool(np.isnan(found[~number]).all())


def edges() -> np.ndarray:
    """Every half, every tie between two, and the floats beside them; subnormal ones, zeros of both signs, infinity."""
    finite = np.sort(HALVES[np.isfinite(HALVES)])
    ties = (finite[1:] + finite[:-1]) / 2
    beside = [np.nextafter(ties, np.float32(limit)) for limit in (np.inf, -np.inf)]
    special = np.float32(
        [0.0, -0.0, 65519.9, 65520, -65520, np.inf, -np.inf, np.nan, 2**-25, -(2**-26), 1e30, 1e-42]
    )
    return np.concatenate([HALVES, ties, *beside, np.tile(special, 200)])


@pytest.mark.parametrize("in_place", [False, True])
def test_every_edge(way: None, in_place: bool) -> None:
    values = edges()
    mine = values.copy()
    found = half.round_half(mine, mine if in_place else None)
    assert (found is mine) == in_place and same_bits(found, values)
    assert in_place or np.array_equal(mine, values, equal_nan=True)


@given(st.integers(1, 5), st.integers(1, 3000), st.integers(0, 1 << 30))
def test_any_bits(rows: int, columns: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 1 << 32, (rows, columns), np.uint32)
    assert same_bits(half.round_half(bits.view(np.float32)), bits.view(np.float32))


@pytest.mark.parametrize("channels", [slice(0, 3), slice(2, 7)])
def test_a_block_of_channels(way: None, channels: slice) -> None:
    """Of two items it does not lie together in memory; what stands beside it stays."""
    values = np.random.default_rng(0).standard_normal((2, 7, 900)).astype(np.float32)
    whole = values.copy()
    half.round_half(whole[:, channels], whole[:, channels])
    assert same_bits(whole[:, channels].copy(), values[:, channels].copy())
    whole[:, channels] = values[:, channels]
    assert np.array_equal(whole, values)


def test_infinite_without_a_warning(way: None) -> None:
    with np.errstate(all="raise"):
        assert np.isinf(half.round_half(np.full(5000, 1e30, np.float32))).all()
        assert np.isinf(half.round_half(np.full(5, 1e30, np.float32))).all()


def test_a_conversion_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of OpenCV that cuts digits off, instead of rounding."""

    def cut(values: np.ndarray, out: np.ndarray) -> None:
        out[...] = (
            (values.view(np.uint32) & 0xFFFFE000).view(np.float32) if out.dtype == np.float16 else values
        )

    class Cv2:
        convertFp16 = None

    monkeypatch.setattr(half, "opencv_module", Cv2)
    monkeypatch.setattr(half, "_by_function", lambda cv2: cut)
    with np.errstate(all="ignore"):
        assert half.converter.__wrapped__() is None
