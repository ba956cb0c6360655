"""Compressed weights: the readable and the fast decoder against each other and against an encoder."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_graph.reading import tensor_storage, weight_decompression, weight_decompression_fast
from rknnlite_graph.reading.compressed_weights import CompressedWeight
from rknnlite_graph.reading.tensor_storage import Expansion
from rknnlite_graph.reading.weight_decompression import PREFIXES, Header

from rknnlite.errors import ModelInvalid
from rknnlite.tensor import DType
from tests.support.brothers import slow_unless
from tests.support.corpus import genuine, open_cpu

RUNS = (1, 2, 5, 9, 30, 77)  # 2**2 short ones, 2**1 long ones


class Bits:
    """Collects fields, lowest bit first."""

    def __init__(self) -> None:
        self._bits: list[int] = []

    def put(self, value: int, count: int) -> None:
        self._bits += [value >> place & 1 for place in range(count)]

    def symbol(self, header: Header, symbol: int) -> None:
        self._bits += [int(bit) for bit in PREFIXES[header.symbols.index(symbol)]]

    def bytes(self) -> bytes:
        return np.packbits(np.array(self._bits, np.uint8), bitorder="little").tobytes()


def encode_words(values: list[int], header: Header, wide: bool) -> bytes:
    """Every value by the shortest code of the header that can say it; runs where the header has them."""
    out, at = Bits(), 0
    while at < len(values):
        same = next((n for n, v in enumerate(values[at:]) if v != header.base), len(values) - at)
        fitting = [run for run in header.runs if run <= same]
        if fitting:
            number = header.runs.index(max(fitting))
            a, b = header.run_bits
            out.symbol(header, 0 if number < 1 << a else 8)
            out.put(number if number < 1 << a else number - (1 << a), a if number < 1 << a else b)
            at += max(fitting)
            continue
        delta = (values[at] - header.base) & (0xFFFF if wide else 0xFF)
        raw, delta = delta & 0xFF, delta >> 8 if wide else delta
        delta -= 256 if delta > 127 else 0
        number = (
            _number_with_runs(delta, wide) if header.runs else 2 * delta if delta >= 0 else -2 * delta - 1
        )
        if header.runs and number >= 128:
            out.symbol(header, 7)
            out.put(number & 0xFF, 8)
        elif number < 2:
            out.symbol(header, 0)
            out.put(number, 1)
        else:
            size = number.bit_length() - 1
            out.symbol(header, size)
            out.put(number - (1 << size), size)
        if wide:
            out.put(raw, 8)
        at += 1
    return out.bytes()


def _number_with_runs(delta: int, wide: bool) -> int:
    if wide:
        return 2 * (delta + 1) if delta >= 0 else -2 * delta + 1
    return 2 * delta if delta > 0 else -2 * delta + 1


def encode_bytes(values: list[int], header: Header) -> bytes:
    """Blocks of eight with the smallest width that holds all of them."""
    out = Bits()
    values = values + [(-header.base) & 0xFF] * (-len(values) % 8)
    for at in range(0, len(values), 8):
        signed = [(v + header.base + 128) % 256 - 128 for v in values[at : at + 8]]
        magnitudes = [~v if v < 0 else v for v in signed]
        width = max(m.bit_length() for m in magnitudes)
        out.symbol(header, width)
        for v in signed:
            out.put(int(v < 0), 1)
        for m in magnitudes:
            out.put(m, width)
    return out.bytes()


few = st.one_of(st.integers(0, 3), st.integers(0, 0xFFFF))
numbers = st.lists(few, min_size=1, max_size=300)
symbols = st.permutations(range(8)).map(tuple)


@given(numbers, symbols, st.integers(-(2**15), 2**15 - 1), st.booleans())
def test_words_without_runs(values, order, base, wide):
    mask = 0xFFFF if wide else 0xFF
    values, header = [v & mask for v in values], Header(base & mask, order)
    stream = encode_words(values, header, wide)
    for module in (weight_decompression, weight_decompression_fast):
        assert module.decode_words(stream, header, 16 if wide else 8, len(values)).tolist() == values


@given(numbers, st.permutations([0, 1, 2, 3, 4, 5, 6, 7, 8]), st.booleans())
def test_words_with_runs(values, order, wide):
    mask = 0xFFFF if wide else 0xFF
    order = tuple(s for s in order if s != 1)[
        :8
    ]  # eight of nine symbols; small differences take one run each
    header = Header(2, order, (2, 1), RUNS)
    values = [v & mask for v in values]
    high = [v for v in values if _number_with_runs(_delta(v, 2, wide), wide) >= 4 or v == 2]
    stream = encode_words(high, header, wide)
    for module in (weight_decompression, weight_decompression_fast):
        assert module.decode_words(stream, header, 16 if wide else 8, len(high)).tolist() == high


def _delta(value: int, base: int, wide: bool) -> int:
    delta = (value - base) & (0xFFFF if wide else 0xFF)
    delta = delta >> 8 if wide else delta
    return delta - 256 if delta > 127 else delta


@given(st.lists(st.integers(0, 255), min_size=1, max_size=300), symbols, st.integers(-300, 300))
def test_blocks_of_eight(values, order, base):
    header = Header(base, order)
    stream = encode_bytes(values, header)
    for module in (weight_decompression, weight_decompression_fast):
        assert module.decode_bytes(stream, header, len(values)).tolist() == values


headers = st.tuples(st.lists(st.integers(0, 8), min_size=8, max_size=8), st.integers(0, 3), st.integers(0, 3))


@given(st.binary(max_size=400), headers, st.integers(1, 1500), st.sampled_from([8, 16]))
def test_any_bits_read_the_same_both_ways(stream, parts, count, width):
    listed, a, b = parts
    runs = tuple(range(3, 3 + (1 << a) + (1 << b))) if a else ()
    header = Header(-7, tuple(listed), (a, b) if a else (0, 0), runs)
    narrow = Header(99, tuple(min(s, 7) for s in listed))
    assert _result(weight_decompression.decode_words, stream, header, width, count) == _result(
        weight_decompression_fast.decode_words, stream, header, width, count
    )
    assert _result(weight_decompression.decode_bytes, stream, narrow, count) == _result(
        weight_decompression_fast.decode_bytes, stream, narrow, count
    )


def _result(function, *arguments):
    try:
        return function(*arguments).tolist()
    except ModelInvalid:
        return "ends too early"


def test_a_stream_longer_than_one_piece(monkeypatch):
    monkeypatch.setattr(weight_decompression_fast, "_PIECE", 64)
    values = np.random.default_rng(1).integers(0, 256, 5000).tolist()
    header = Header(17, (7, 6, 5, 4, 3, 2, 1, 0))
    assert (
        weight_decompression_fast.decode_words(encode_words(values, header, False), header, 8, 5000).tolist()
        == values
    )
    assert (
        weight_decompression_fast.decode_bytes(encode_bytes(values, header), header, 5000).tolist() == values
    )


# -- segments ------------------------------------------------------------------------------------------------


def packed(plain: bytes, count: int) -> CompressedWeight:
    """A whole blob by the codec of ``count`` segments, int8."""
    by_bytes = count == 2
    width = 1 if by_bytes else 4
    header = Header(0, (7, 0, 1, 2, 3, 4, 5, 6))
    head = bytes(4) + bytes([0x07, 0x21, 0x43, 0x65]) + bytes(8)
    blob, payloads, offsets = b"", [], []
    for k in range(count):
        words = [plain[i : i + width] for i in range(k * width, len(plain), count * width)]
        values = list(b"".join(words))
        stream = encode_bytes(values, header) if by_bytes else encode_words(values, header, False)
        blob += bytes(-len(blob) % 64)
        offsets.append(len(blob))
        payloads.append(len(stream))
        blob += head + stream
    return CompressedWeight(
        "w", memoryview(blob), len(plain), DType.INT8, by_bytes, payloads, offsets, [16] * count
    )


@pytest.mark.parametrize("count", [2, 8, 16])
@given(st.binary(min_size=1, max_size=700))
def test_segments_join_to_the_plain_bytes(count, plain):
    weight = packed(plain, count)
    weight.check()
    assert weight.decode().tobytes() == plain


@pytest.mark.parametrize(
    "field, value", [("payloads", 1 << 30), ("offsets", -1), ("headers", 8), ("payloads", -4)]
)
def test_a_segment_outside_its_blob_is_refused(field, value):
    weight = packed(bytes(range(200)), 8)
    getattr(weight, field)[3] = value
    with pytest.raises(ModelInvalid, match="w: segment 3"):
        weight.check()


def test_a_stream_that_ends_early_names_weight_and_segment():
    weight = packed(bytes(range(200)), 2)
    weight.payloads[1] = 5
    with pytest.raises(ModelInvalid, match="compressed weight w: segment 1: the stream ends"):
        weight.decode()


def test_a_size_that_no_stream_can_give_is_refused_before_anything_is_allocated():
    weight = packed(bytes(range(200)), 2)
    with pytest.raises(ModelInvalid, match="cannot hold"):
        CompressedWeight(**{**vars(weight), "size": 1 << 40}).check()


def test_many_small_streams_are_a_bomb_together(monkeypatch):
    """A thousand tensors may name one blob; each alone is small enough."""
    total = Expansion(1 << 20)
    for number in range(8):
        total.add(f"w{number}", 1 << 20)
    with pytest.raises(ModelInvalid, match="compressed weight w8: with those before it 9437184 plain bytes"):
        total.add("w8", 1 << 20)
    Expansion(0).add("small", 1 << 20)
    monkeypatch.setattr("rknnlite_graph.reading.tensor_storage._FREE", 0)
    monkeypatch.setattr("rknnlite_graph.reading.tensor_storage._MOST_TOGETHER", 0)
    with (
        pytest.raises(ModelInvalid, match="with those before it"),
        open_cpu(genuine("packed_i16.rk3588.i16").read_bytes()),
    ):
        pass


@pytest.mark.parametrize("count", slow_unless(lambda count: count == 2, [2, 8, 16]))
@pytest.mark.parametrize("top", [1, 100])
def test_a_file_gets_no_more_than_64_times_its_size(monkeypatch, count, top):
    """Its constants become ``_MOST_TOGETHER`` plain bytes each, which may all be of one weight: decoded, then float32."""
    monkeypatch.setattr(weight_decompression_fast, "_PIECE", 256)
    plain = np.random.default_rng(count).integers(0, top, 1 << 14, np.int8).tobytes()
    weight = packed(plain, count)
    packed(plain[:512], count).decode()  # what is made once
    tracemalloc.start()
    try:
        weight.decode().view(np.int8).astype(np.float32)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak * tensor_storage._MOST_TOGETHER <= 64 * len(plain)
