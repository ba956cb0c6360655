"""Convolution kernels against a loop over every tap, and the exactness of integer sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_cpu.kernels.conv import (
    ConvSpec,
    conv2d,
    depthwise2d,
    pad2d,
    whole_plane,
    windows,
)
from rknnlite_cpu.kernels.conv_algorithm import accumulator
from rknnlite_cpu.kernels.threads import limited
from rknnlite_cpu.ops.requantise import _leaky, _sloped, apply_stage, bias_column

from rknnlite.quant import split_for_exactness

INT8 = (-255.0, 255.0)  # centred int8: q - zero point


def naive(x: np.ndarray, weight: np.ndarray, spec: ConvSpec, depthwise: bool = False) -> np.ndarray:
    """[N, OC, OH, OW] in int64, tap by tap: the definition."""
    n, _, h, w = x.shape
    out = np.zeros((n, weight.shape[0], *spec.out_size), np.int64)
    for oc, ic, ky, kx in np.ndindex(*weight.shape):
        channel = oc if depthwise else ic
        for oy, ox in np.ndindex(*spec.out_size):
            y = oy * spec.strides[0] + ky * spec.dilations[0] - spec.pads[0]
            z = ox * spec.strides[1] + kx * spec.dilations[1] - spec.pads[1]
            if 0 <= y < h and 0 <= z < w:
                out[:, oc, oy, ox] += x[:, channel, y, z].astype(np.int64) * int(weight[oc, ic, ky, kx])
    return out


@st.composite
def geometries(draw: st.DrawFn) -> ConvSpec:
    """Any geometry, uneven in both directions, also with bottom and right cropped."""
    kernel, strides, dilations, pads, in_size, out_size = [], [], [], [], [], []
    for _ in range(2):
        k, s, d = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        p, n = draw(st.integers(0, 2)), draw(st.integers(1, 7))
        reach = d * (k - 1) + 1
        most = max(1, (n + p + draw(st.integers(0, 3)) - reach) // s + 1)
        kernel.append(k), strides.append(s), dilations.append(d), pads.append(p), in_size.append(n)
        out_size.append(draw(st.integers(1, most)))
    return ConvSpec(*(tuple(v) for v in (kernel, strides, dilations, pads, in_size, out_size)))


@dataclass
class Case:
    x: np.ndarray
    weight: np.ndarray
    spec: ConvSpec


@st.composite
def cases(draw: st.DrawFn, depthwise: bool = False) -> Case:
    spec = draw(geometries())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    ic, oc = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    x = rng.integers(-255, 256, (draw(st.integers(1, 2)), ic, *spec.in_size)).astype(np.float32)
    shape = (ic, 1, *spec.kernel) if depthwise else (oc, ic, *spec.kernel)
    return Case(x, rng.integers(-255, 256, shape).astype(np.float32), spec)


def flat(out: np.ndarray) -> np.ndarray:
    return out.reshape(*out.shape[:2], -1)


@given(cases())
def test_conv2d(case: Case) -> None:
    matrix = case.weight.reshape(len(case.weight), -1)
    assert np.array_equal(conv2d(case.x, matrix, case.spec), flat(naive(case.x, case.weight, case.spec)))


@given(cases(depthwise=True))
def test_depthwise2d(case: Case) -> None:
    got = depthwise2d(case.x, case.weight[:, 0], case.spec)
    assert np.array_equal(got, flat(naive(case.x, case.weight, case.spec, depthwise=True)))


@given(cases())
def test_accumulator(case: Case) -> None:
    run = accumulator(case.weight, case.spec, False, False, INT8, len(case.x))
    expected = flat(naive(case.x, case.weight, case.spec))
    assert np.array_equal(run(case.x), expected)
    assert np.array_equal(run(case.x), expected), "a second run gives the same"


@given(cases(depthwise=True))
def test_depthwise_accumulator(case: Case) -> None:
    """Whichever kernel was chosen: OpenCV's, numpy's, or a dot product per plane."""
    run = accumulator(case.weight, case.spec, True, False, INT8, len(case.x))
    assert np.array_equal(run(case.x), flat(naive(case.x, case.weight, case.spec, depthwise=True)))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_large_depthwise_planes(kernel: int, stride: int) -> None:
    """Large enough for threads and for OpenCV."""
    rng = np.random.default_rng(kernel)
    size = 2 * ((65 - kernel) // stride) // 2 + 1
    spec = ConvSpec((kernel, kernel), (stride, stride), (1, 1), (0, 0), (65, 65), (size, size))
    x = rng.integers(-255, 256, (1, 70, 65, 65)).astype(np.float32)
    weight = rng.integers(-255, 256, (70, 1, kernel, kernel)).astype(np.float32)
    view = np.einsum("nchwyx,chw->ncyx", windows(x.astype(np.float64), spec), weight[:, 0].astype(np.float64))
    assert np.array_equal(depthwise2d(x, weight[:, 0], spec), flat(view))
    assert np.array_equal(accumulator(weight, spec, True, False, INT8)(x), flat(view))


def test_conv2d_in_parts_of_rows() -> None:
    """More windows than are copied at a time."""
    rng = np.random.default_rng(1)
    spec = ConvSpec((3, 3), (1, 1), (1, 1), (1, 1), (90, 90), (90, 90))
    x = rng.integers(-9, 10, (2, 24, 90, 90)).astype(np.float32)
    weight = rng.integers(-9, 10, (4, 24, 3, 3)).astype(np.float32)
    padded = pad2d(x, spec.padding)
    view = np.einsum("nchwyx,ochw->noyx", windows(padded, spec), weight, optimize=True)
    assert np.array_equal(conv2d(x, weight.reshape(4, -1), spec), flat(view))


def test_a_small_layer_does_not_depend_on_the_threads() -> None:
    """Floats are added in one order: a layer that one thread computes is not cut for others."""
    rng = np.random.default_rng(0)
    for (ic, oc), (h, w) in (
        ((12, 5), (8, 6)),
        ((32, 32), (12, 12)),
        ((64, 16), (12, 12)),
        ((8, 8), (12, 12)),
    ):
        spec = ConvSpec((3, 3), (1, 1), (1, 1), (1, 1), (h, w), (h, w))
        weight, x = (
            rng.standard_normal((oc, ic * 9), np.float32),
            rng.standard_normal((1, ic, h, w), np.float32),
        )
        found = []
        for count in (1, 2, 4):
            with limited(count):
                found.append(conv2d(x, weight, spec).tobytes())
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("channels", [1, 2, 4, 5])
def test_values_that_do_not_fit_the_weights_are_refused(pads: int, channels: int) -> None:
    """Nothing is repeated or left out: a damaged file may say so."""
    spec = ConvSpec((3, 3), (1, 1), (1, 1), (pads, pads), (9, 9), (7 + 2 * pads, 7 + 2 * pads))
    run = accumulator(np.ones((4, 3, 3, 3), np.float32), spec, False, False, INT8)
    assert run(np.ones((1, 3, 9, 9), np.float32)).max() == 27
    with pytest.raises(ValueError):
        run(np.ones((1, channels, 9, 9), np.float32))


def test_whole_plane_is_a_sum_over_the_plane() -> None:
    x = np.arange(2 * 3 * 5 * 4, dtype=np.float32).reshape(2, 3, 5, 4)
    spec = ConvSpec((5, 4), (1, 1), (1, 1), (0, 0), (5, 4), (1, 1))
    got = whole_plane(x, np.ones((3, 5, 4), np.float32), spec)
    assert np.array_equal(got, x.sum(axis=(2, 3))[:, :, None])


@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 1),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_transposed(stride: int, kernel: int, pad: int, size: int, depthwise: bool, seed: int) -> None:
    """Scatter every input over the output: y[o] += x[i] * w[k] where o = i * stride + k - pad."""
    pad = min(pad, kernel - 1)
    out = (size - 1) * stride + kernel - 2 * pad
    if out < 1:
        return
    rng = np.random.default_rng(seed)
    ic, oc = 3, 3 if depthwise else 2
    x = rng.integers(-255, 256, (1, ic, size, size)).astype(np.float32)
    forward = rng.integers(-255, 256, (oc, 1 if depthwise else ic, kernel, kernel)).astype(np.float32)
    expected = np.zeros((1, oc, out, out), np.int64)
    for o, i, ky, kx, y, z in np.ndindex(oc, forward.shape[1], kernel, kernel, size, size):
        at = (y * stride + ky - pad, z * stride + kx - pad)
        if 0 <= at[0] < out and 0 <= at[1] < out:  # the stored kernel is flipped
            tap = forward[o, i, kernel - 1 - ky, kernel - 1 - kx]
            expected[0, o, at[0], at[1]] += int(x[0, o if depthwise else i, y, z]) * int(tap)
    spec = ConvSpec((kernel, kernel), (stride, stride), (1, 1), (pad, pad), (size, size), (out, out))
    run = accumulator(forward, spec, depthwise, True, INT8)
    assert np.array_equal(run(x), flat(expected))


# -- padding --------------------------------------------------------------------------------------------------


@given(st.tuples(*[st.integers(-2, 3)] * 4), st.integers(5, 8), st.integers(5, 8))
def test_pad2d(padding: tuple[int, int, int, int], h: int, w: int) -> None:
    top, left, bottom, right = padding
    x = np.arange(2 * h * w, dtype=np.float32).reshape(2, h, w) + 1
    grown = np.pad(
        x, [(0, 0), (max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))], constant_values=-7
    )
    cut = grown[:, max(-top, 0) :, max(-left, 0) :]
    expected = cut[:, : h + top + bottom, : w + left + right]
    assert np.array_equal(pad2d(x, padding, -7), expected)


# -- exact sums -----------------------------------------------------------------------------------------------


def exact(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("oc,ncp->nop", weight[:, :, 0, 0].astype(np.int64), x[:, :, 0].astype(np.int64))


ADVERSARIES = {
    "all at the limit": lambda c: np.full(c, 255.0),
    "alternating": lambda c: np.where(np.arange(c) % 2, 255.0, -255.0),
    "halves": lambda c: np.where(np.arange(c) < c // 2, 255.0, -255.0),
    "one odd one": lambda c: np.where(np.arange(c) == c - 1, 1.0, 254.0),
    "small after large": lambda c: np.where(np.arange(c) < 300, 255.0, 1.0),
}


@pytest.mark.parametrize("channels", [64, 258, 259, 1000, 4097])
@pytest.mark.parametrize("kind", ADVERSARIES)
def test_sums_are_exact_whatever_the_weights(kind: str, channels: int) -> None:
    weight = np.stack([ADVERSARIES[kind](channels), -ADVERSARIES[kind](channels)]).astype(np.float32)
    weight = weight.reshape(2, channels, 1, 1)
    x = np.stack([np.sign(weight[0, :, 0, 0]) * 255, np.full(channels, 255), np.full(channels, -253)]).T
    x = x.reshape(1, channels, 1, 3).astype(np.float32)
    spec = ConvSpec((1, 1), (1, 1), (1, 1), (0, 0), (1, 3), (1, 3))
    got = accumulator(weight, spec, False, False, INT8)(x)
    assert np.array_equal(got.astype(np.int64), exact(weight, x))
    assert np.array_equal(got, np.rint(got))


@given(
    st.integers(1, 600), st.integers(0, 999), st.sampled_from([(-255.0, 0.0), (0.0, 255.0), (-128.0, 127.0)])
)
def test_parts_cover_the_channels_and_stay_exact(
    channels: int, seed: int, bounds: tuple[float, float]
) -> None:
    rng = np.random.default_rng(seed)
    weight = (rng.choice([-255, 255, 3], (4, channels, 2, 2)) * rng.integers(0, 2)).astype(np.float32)
    parts = split_for_exactness(weight, *bounds)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == channels and all(part.stop > part.start for part in parts)
    for part in parts:
        positive = np.maximum(weight[:, part], 0).sum(axis=(1, 2, 3))
        negative = np.maximum(-weight[:, part], 0).sum(axis=(1, 2, 3))
        up = positive * bounds[1] - negative * bounds[0]
        down = positive * -bounds[0] + negative * bounds[1]
        assert max(up.max(), down.max()) < 1 << 24


def test_float32_alone_would_not_be_exact() -> None:
    """The rule is needed: without splitting, the last bits are lost."""
    weight = np.full((1, 4097), 255, np.float32)
    weight[0, -1] = 1
    x = np.full((1, 4097, 1), 255, np.float32)
    x[0, -1] = 1
    true = 4096 * 255 * 255 + 1
    assert int(np.matmul(weight, x)[0, 0, 0]) != true
    spec = ConvSpec((1, 1), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1))
    run = accumulator(weight.reshape(1, -1, 1, 1), spec, False, False, INT8)
    assert int(run(x.reshape(1, -1, 1, 1))[0, 0, 0]) == true


def test_wide_data_are_added_in_float64() -> None:
    """int16: single products already leave float32's integers."""
    rng = np.random.default_rng(5)
    weight = rng.integers(-32768, 32768, (3, 70, 1, 1)).astype(np.float32)
    x = rng.integers(-32768, 32768, (1, 70, 1, 4)).astype(np.float32)
    spec = ConvSpec((1, 1), (1, 1), (1, 1), (0, 0), (1, 4), (1, 4))
    got = accumulator(weight, spec, False, False, (-32768.0, 32767.0))(x)
    assert np.array_equal(got.astype(np.int64), exact(weight, x))


def doubled(block: np.ndarray, operand: np.ndarray | None, channels: slice, out: np.ndarray) -> None:
    """An output stage for tests."""
    np.multiply(block, 2, out=out, casting="unsafe")


@given(st.sampled_from([np.float32, np.float64]), st.integers(1, 9), st.integers(-1000, 1000))
def test_bias_is_added_before_the_stage(dtype: type, channels: int, offset: int) -> None:
    acc = np.arange(2 * channels * 6, dtype=dtype).reshape(2, channels, 6)
    bias = np.arange(channels) * 1e4 + offset
    expected = 2 * (acc + bias.reshape(1, -1, 1))
    assert np.array_equal(apply_stage(doubled, acc, bias_column(bias), None), expected)


def test_bias_beyond_float32() -> None:
    """Added in float64, rounded once."""
    column = bias_column(np.array([(1 << 30) + 63.0]))
    assert column is not None and column.dtype == np.float64
    got = apply_stage(doubled, np.full((1, 1, 1), 2, np.float32), column, None)
    assert float(got[0, 0, 0]) == 2 * float(np.float32((1 << 30) + 65))


def test_nothing_is_added_without_a_bias() -> None:
    assert bias_column(np.zeros(3)) is None


SPECIAL = np.float32([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, -3e38])


@pytest.mark.parametrize("slope", [1e-30, 0.01, 0.25, 1.0])
def test_gentle_slopes_are_the_larger_of_two(slope: float) -> None:
    """Bit for bit what a choice by sign gives, infinities and zeros of both signs included."""
    noise = np.random.default_rng(0).standard_normal(997, np.float32)
    real = np.concatenate([SPECIAL, noise]).reshape(1, 1, -1)
    column = np.full((1, 1, 1), slope, np.float32)
    found, expected = (_sloped(real.copy(), column, gentle) for gentle in (True, False))
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("slope", [0.0, 0.01, 1.0])
def test_gentle_slopes_of_integers(slope: float) -> None:
    found, expected = (np.arange(-3000, 3000, dtype=np.float32).reshape(1, 2, -1) / 7 for _ in range(2))
    column = np.full((1, 2, 1), slope, np.float32)
    _leaky(found, column, True)
    _leaky(expected, column, False)
    assert np.array_equal(found, expected)
