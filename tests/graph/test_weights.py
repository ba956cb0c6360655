"""Weights, biases and constants: packed here from the format's description, unpacked by the reader."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_graph.reading.weights import (
    parse_bias,
    segments,
    surface_constant,
    unpack_blocks,
    unpack_first_layer,
    unpack_pairs,
)

from rknnlite.errors import ModelInvalid

PADDING = -99


@dataclass(frozen=True)
class Stored:
    """A weight [OC, IC, kh, kw], its native dims and its elements in stored order."""

    weight: np.ndarray
    native: tuple[int, ...]
    data: np.ndarray


def at(weight: np.ndarray, oc: int, ic: int, y: int, x: int) -> int:
    inside = oc < weight.shape[0] and ic < weight.shape[1]
    return int(weight[oc, ic, y, x]) if inside else PADDING


@st.composite
def blocks(draw: st.DrawFn) -> Stored:
    """The reference packer: element by element, loops as the format describes them.

    For each group of output channels, for each of its blocks, for each segment (full blocks of input channels
    first, then the remainder), for each block of input channels: [kh][kw][bOC][bIC].
    """
    kh, kw = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    b_ic, rest_ic = draw(st.sampled_from([(32, 16), (32, 8), (16, 4), (4, 2)]))
    full_ic, has_rest = draw(st.integers(0, 2)), draw(st.booleans())
    ic_parts = [(full_ic, b_ic), *([(1, rest_ic)] if has_rest or not full_ic else [])]
    oc_groups = [
        (draw(st.integers(1, 2)), draw(st.sampled_from([16, 8]))),
        *draw(st.sampled_from([[], [(1, 4)]])),
    ]
    lanes_ic = sum(n * b for n, b in ic_parts)
    lanes_oc = sum(n * b for n, b in oc_groups)
    ic = draw(st.integers(max(1, lanes_ic - ic_parts[-1][1] + 1), lanes_ic))
    oc = draw(st.integers(lanes_oc - oc_groups[-1][1] + 1, lanes_oc))
    weight = (np.arange(oc * ic * kh * kw) % 90).reshape(oc, ic, kh, kw)
    native: list[int] = []
    data: list[int] = []
    oc_base = 0
    for n_oc, b_oc in oc_groups:
        for n_ic, bic in ic_parts:
            native += [n_oc, n_ic, kh, kw, b_oc, bic]
        for ob in range(n_oc):
            ic_base = 0
            for n_ic, bic in ic_parts:
                for ib in range(n_ic):
                    data += [
                        at(weight, oc_base + ob * b_oc + o, ic_base + ib * bic + i, y, x)
                        for y in range(kh)
                        for x in range(kw)
                        for o in range(b_oc)
                        for i in range(bic)
                    ]
                ic_base += n_ic * bic
        oc_base += n_oc * b_oc
    return Stored(weight, tuple(native), np.array(data, np.int8))


@given(blocks(), st.integers(0, 64))
def test_blocks(stored: Stored, trailing: int) -> None:
    data = np.concatenate([stored.data, np.full(trailing, 77, np.int8)])
    found = unpack_blocks(data, stored.native, stored.weight.shape, "w")
    assert found.dtype == np.int8 and np.array_equal(found, stored.weight)


def test_blocks_of_the_documented_example() -> None:
    """100 output and 70 input channels on rk3588 (docs/rknn-format.md, weight layout)."""
    native = (3, 2, 1, 1, 32, 32, 3, 1, 1, 1, 32, 16, 1, 2, 1, 1, 4, 32, 1, 1, 1, 1, 4, 16)
    data = np.arange(sum(prod(part) for part in segments(native, "w")))
    found = unpack_blocks(data, native, (100, 70, 1, 1), "w")
    assert found[0, 0, 0, 0] == 0 and found[0, 1, 0, 0] == 1  # input channels are innermost
    assert found[1, 0, 0, 0] == 32  # then the 32 output channels of the block
    assert found[0, 32, 0, 0] == 1024  # then the next block of input channels
    assert found[0, 64, 0, 0] == 2048  # then the remainder segment
    assert found[32, 0, 0, 0] == 2048 + 32 * 16  # then the next block of output channels
    assert found[96, 0, 0, 0] == 3 * (2048 + 512)  # then the second group


def test_depthwise_is_stored_as_one_output_channel() -> None:
    data = np.arange(2 * 9 * 16)
    found = unpack_blocks(data, (1, 2, 3, 3, 1, 16), (1, 20, 3, 3), "w")
    assert found.shape == (1, 20, 3, 3)
    assert found[0, 17, 0, 0] == 9 * 16 + 1 and found[0, 1, 0, 1] == 17


@pytest.mark.parametrize(
    ("native", "message"),
    [
        ((), r"native dims \[\] are no list of 6-tuples"),
        ((1, 1, 3, 3, 16), "no list of 6-tuples"),
        ((1, 1, 1, 1, 16, -1), "are out of range"),
        ((1, 1, 1, 1, 1 << 25, 1), "are out of range"),
        ((1, 0, 1, 1, 16, 16), "hold nothing"),
        ((1, 1, 1, 1, 16, 16, 1, 1, 3, 3, 16, 16), "disagree about the kernel size"),
        ((1, 1, 3, 3, 16, 16), "kernel 3x3 in the file, 1x1 in the graph"),
        ((2, 1, 1, 1, 16, 16), "512 elements expected, the file holds 256"),
        ((1, 1, 1, 1, 8, 16), r"stored \(8, 16, 1, 1\), but the graph needs \(16, 16, 1, 1\)"),
        ((1 << 20, 1 << 20, 1, 1, 16, 16), "elements expected, the file holds 256"),
    ],
)
def test_impossible_native_dims(native: tuple[int, ...], message: str) -> None:
    with pytest.raises(ModelInvalid, match=message):
        unpack_blocks(np.zeros(256, np.int8), native, (16, 16, 1, 1), "w")


@given(st.lists(st.integers(-2, 40), min_size=1, max_size=24), st.integers(0, 4000))
def test_random_native_dims(native: list[int], size: int) -> None:
    data = np.zeros(size, np.int8)
    for unpack in (unpack_blocks, partial(unpack_pairs, run=2), unpack_first_layer):
        try:
            found = unpack(data, tuple(native), (8, 3, 3, 3), "w")
        except ModelInvalid:
            continue
        assert len(found[0] if isinstance(found, tuple) else found) == 8


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray]:
    """Depthwise of rk3562, rk3576, rv1126b: [block][kh][kw][pair of lanes], each ``w w -zw -zw``."""
    nb, lanes = draw(st.integers(1, 3)), draw(st.sampled_from([2, 8, 16, 32]))
    kh, kw = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    channels = draw(st.integers((nb - 1) * lanes + 1, nb * lanes))
    seed = np.random.default_rng(draw(st.integers(0, 99)))
    weight = seed.integers(-128, 128, (channels, 1, kh, kw))
    zero = seed.integers(-128, 128, channels)
    data = []
    for b in range(nb):
        for y in range(kh):
            for x in range(kw):
                for lane in range(0, lanes, 2):
                    c = b * lanes + lane
                    data += [int(weight[k, 0, y, x]) if k < channels else 0 for k in (c, c + 1)]
                    data += [-int(zero[k]) if k < channels else 0 for k in (c, c + 1)]
    stored = np.array(data).astype(np.int64).astype(np.uint8).view(np.int8)  # -(-128) is stored as 0x80
    return weight, zero, (1, nb, kh, kw, 1, lanes), stored


@given(pairs())
def test_pairs(case: tuple[np.ndarray, np.ndarray, tuple[int, ...], np.ndarray]) -> None:
    weight, zero, native, data = case
    found, zeros = unpack_pairs(data, native, (len(weight), 1, *native[2:4]), "w", run=2)
    assert np.array_equal(found, weight)
    assert zeros.dtype == np.float32 and np.array_equal(zeros, zero)


@given(st.integers(1, 3), st.sampled_from([16, 32]), st.integers(1, 7), st.integers(1, 7), st.integers(1, 4))
def test_first_layer(n_oc: int, b_oc: int, kh: int, kw: int, ic: int) -> None:
    """[OC block][kh][oc in block][kw padded to a multiple of 4][4 channels]"""
    oc, wide = n_oc * b_oc - 3, -(-kw // 4) * 4
    weight = (np.arange(oc * ic * kh * kw) % 90).reshape(oc, ic, kh, kw)
    data = [
        at(weight, block * b_oc + o, i, y, x) if x < kw else PADDING
        for block in range(n_oc)
        for y in range(kh)
        for o in range(b_oc)
        for x in range(wide)
        for i in range(4)
    ]
    found = unpack_first_layer(np.array(data, np.int8), (n_oc, 1, kh, kw, b_oc, 4), weight.shape, "w")
    assert np.array_equal(found, weight)


@given(st.integers(1, 40), st.sampled_from([4, 8]), st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_bias_groups(channels: int, group: int, has: tuple[bool, bool, bool]) -> None:
    """Per group of channels: int32 biases, then int16 negated zero points, then uint16 multipliers."""
    count = -(-channels // group)
    bias, minus, mul = (
        np.arange(count * group) * 70000 - 5,
        np.arange(count * group) - 9,
        np.arange(count * group) + 40000,
    )
    data = b""
    for g in range(count):
        part = slice(g * group, (g + 1) * group)
        data += bias[part].astype("<i4").tobytes() if has[0] else b""
        data += minus[part].astype("<i2").tobytes() if has[1] else b""
        data += mul[part].astype("<u2").tobytes() if has[2] else b""
    found = parse_bias(memoryview(data), channels, group, has, "b")
    assert [part is not None for part in (found.bias, found.zero_point, found.multiplier)] == list(has)
    if has[0]:
        assert np.array_equal(found.bias, bias[:channels])
    if has[1]:
        assert np.array_equal(found.zero_point, -minus[:channels])
    if has[2]:
        assert np.array_equal(found.multiplier, mul[:channels])
    if data and has != (True, False, False):
        with pytest.raises(ModelInvalid, match=f"{channels} channels need {len(data)}"):
            parse_bias(memoryview(data[:-1]), channels, group, has, "b")


def test_short_plain_bias() -> None:
    with pytest.raises(ModelInvalid, match="bias b: 11 bytes for 3 channels"):
        parse_bias(memoryview(bytes(11)), 3, 8, (True, False, False), "b")


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 20), st.integers(1, 5), st.integers(1, 5)),
    st.sampled_from([4, 8, 16]),
    st.sampled_from([0, 1, 4, 8]),
)
def test_constants_in_nc1hwc2(shape: tuple[int, ...], c2: int, align: int) -> None:
    """Every surface of H * W positions is padded to ``align`` positions."""
    n, c, h, w = shape
    x = np.arange(prod(shape)).reshape(shape)
    c1, surface = -(-c // c2), -(-h * w // align) * align if align else h * w
    data = np.full(n * c1 * surface * c2, -1)
    for (i, ch, y, z), value in np.ndenumerate(x):
        data[((i * c1 + ch // c2) * surface + y * w + z) * c2 + ch % c2] = value
    assert np.array_equal(surface_constant(data, (n, c1, h, w, c2), shape, align, "k"), x)
    with pytest.raises(ModelInvalid, match=r"constant k: .* elements stored"):
        surface_constant(data[: n * c1 * h * w * c2 - 1], (n, c1, h, w, c2), shape, align, "k")
