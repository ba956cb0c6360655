"""Operators that few networks have, against numpy and plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rknnlite.errors import RknnError
from tests.support.graphs import compute

rng = np.random.default_rng(43)


def real(*shape: int) -> np.ndarray:
    return rng.uniform(-3, 3, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 10, 9, 7), 1), ((9, 20, 1, 1), 1), ((2, 5, 8), 2), ((6, 3), 0)]
)
def test_a_gate(shape: tuple[int, ...], axis: int) -> None:
    x = real(*shape)
    value, gate = np.split(x.astype(np.float64), 2, axis=axis)
    wanted = value / (1 + np.exp(-gate))
    assert np.allclose(compute("exGlu", [x], wanted.shape, {"axis": axis}), wanted, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 10, 9), (1, 5, 4), (1, 3, 9), (1, 5)])
def test_no_gate(shape: tuple[int, ...]) -> None:
    with pytest.raises(RknnError, match=r'exGlu "the_exglu".*no half of \[1, 10, 9\]'):
        compute("exGlu", [real(1, 10, 9)], shape, {"axis": 1})


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [({}, [1, 1, 0, 0]), ({"detect_negative": 0}, [1, 0, 0, 0]), ({"detect_positive": 0}, [0, 1, 0, 0])],
)
def test_infinities(attrs: dict[str, Any], wanted: list[int]) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1], np.float32)
    assert compute("IsInf", [x], (4,), attrs).tolist() == wanted


@pytest.mark.parametrize("k", [0, 1, -2])
def test_a_diagonal(k: int) -> None:
    assert np.array_equal(compute("EyeLike", [real(4, 6)], (4, 6), {"k": k}), np.eye(4, 6, k))


@pytest.mark.parametrize(("size", "begin"), [((4, 5), (2, 1)), ((3, 7), (3, 0)), ((9, 2), (0, 2))])
def test_the_middle(size: tuple[int, int], begin: tuple[int, int]) -> None:
    x = real(1, 2, 9, 7)
    wanted = x[:, :, begin[0] : begin[0] + size[0], begin[1] : begin[1] + size[1]]
    assert np.array_equal(compute("CenterCropPad", [x], wanted.shape, {"axes": [2, 3]}), wanted)


def test_padding_around_the_middle() -> None:
    x = real(3, 4)
    wanted = np.pad(x, ((1, 2), (0, 0)))[:, 1:3]
    assert np.array_equal(compute("CenterCropPad", [x], (6, 2)), wanted)


@pytest.mark.parametrize(
    ("stride", "dilation", "pads"),
    [((2, 3), (1, 1), (0, 0, 0, 0)), ((1, 1), (2, 1), (0, 0, 0, 0)), ((2, 1), (1, 2), (1, 0, 1, 2))],
)
def test_patches_added_up(
    stride: tuple[int, int], dilation: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    (h, w), (kh, kw), (top, left, bottom, right) = (8, 9), (2, 3), pads
    rows = (h + top + bottom - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    columns = (w + left + right - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    x = real(2, 3 * kh * kw, rows * columns)
    wanted = np.zeros((2, 3, h, w))
    for c, i, j, r, k in np.ndindex(3, kh, kw, rows, columns):
        y, z = r * stride[0] + i * dilation[0] - top, k * stride[1] + j * dilation[1] - left
        if 0 <= y < h and 0 <= z < w:
            wanted[:, c, y, z] += x[:, (c * kh + i) * kw + j, r * columns + k]
    attrs = {"strides": list(stride), "dilations": list(dilation), "pads": list(pads)}
    constants = [np.array([h, w], np.int64), np.array([kh, kw], np.int64)]
    assert np.allclose(compute("Col2Im", [x], wanted.shape, attrs, constants=constants), wanted, atol=1e-5)
    with pytest.raises(RknnError, match="no patches of 2 x 3"):
        compute("Col2Im", [x[:, :, 1:]], wanted.shape, attrs, constants=constants)


def test_chosen_slices() -> None:
    x, chosen = real(2, 4, 3), np.array([True, False, True, True])
    assert np.array_equal(compute("Compress", [x], (2, 3, 3), {"axis": 1}, constants=[chosen]), x[:, chosen])
    assert np.array_equal(compute("Compress", [x], (3,), constants=[chosen]), x.reshape(-1)[:4][chosen])


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("axis", [1, 2])
def test_fourier(axis: int, onesided: int, inverse: int) -> None:
    x = real(2, 6, 9, 1 if onesided else 2)
    numbers = x[..., 0] if onesided else x[..., 0] + 1j * x[..., 1]
    wanted = (np.fft.ifft if inverse else np.fft.fft)(numbers, axis=axis)
    wanted = wanted.take(range(wanted.shape[axis] // 2 + 1), axis) if onesided else wanted
    attrs = {"axis": axis, "onesided": onesided, "inverse": inverse}
    found = compute("DFT", [x], (*wanted.shape, 2), attrs)
    assert np.allclose(found[..., 0] + 1j * found[..., 1], wanted, atol=1e-4)


def test_determinants() -> None:
    x = real(2, 5, 3, 3)
    assert np.allclose(compute("Det", [x], (2, 5)), np.linalg.det(x.astype(np.float64)), atol=1e-3)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("B G H I D, B G H J D -> B G H I J", [(1, 3, 2, 5, 4), (1, 3, 2, 7, 4)]),
        ("bhwc,hkc->bhwk", [(2, 3, 5, 4), (3, 7, 4)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (1, 4, 5)]),
        ("ij->ji", [(3, 4)]),
        ("ii", [(4, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [real(*shape) for shape in shapes]
    wanted = np.asarray(np.einsum(equation.replace(" ", ""), *operands))
    found = compute("Einsum", operands, wanted.shape, {"equation": equation})
    assert np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("ij,jk,kl->il", "equation 'ij,jk,kl->il' for 2 operands"),
        ("ij,jk->iq", "does not make"),
        ("ij,ik->jk", "i is 3 and 4"),
        ("ijk,jk->i", "'ijk' for rank 2"),
        ("a b,b c->a c", "does not make"),
    ],
)
def test_einsum_that_does_not_fit(equation: str, text: str) -> None:
    with pytest.raises(RknnError, match=text):
        compute("Einsum", [real(3, 4), real(4, 5)], (3, 5, 1), {"equation": equation})


def test_einsum_does_no_work_out_of_proportion() -> None:
    letters = "abcdefgh"
    with pytest.raises(RknnError, match="does not make"):
        compute("Einsum", [real(40) for _ in letters], (1,), {"equation": f"{','.join(letters)}->"})
