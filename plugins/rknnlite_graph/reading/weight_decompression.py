"""Decompression of weights: their number codes, one stream at a time, the readable form.

Bits are read from the lowest of each byte up; of a field of several bits the first one read is the lowest.
A prefix code of 2 to 5 bits names one of the eight symbols of the stream's header. ``weight_decompression_fast`` does the
same with array operations; the tests hold them together.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

__all__ = ["PREFIXES", "Header", "decode_bytes", "decode_words", "parse_header"]

PREFIXES = ("00", "10", "111", "110", "011", "0101", "01001", "01000")
"""Prefix codes of the symbols 0 to 7, bits in reading order."""


@dataclass(frozen=True)
class Header:
    """``base`` is added to or taken from every number; ``run_bits`` (a, b) and ``runs`` describe runs of it.

    With a = 0 there are no runs, and numbers are coded slightly differently.
    """

    base: int
    symbols: tuple[int, ...]
    run_bits: tuple[int, int] = (0, 0)
    runs: tuple[int, ...] = ()


def parse_header(data: bytes, by_bytes: bool) -> Header:
    """Read and check the header of a stream; ModelInvalid when it makes no sense."""
    symbols = tuple(byte >> shift & 15 for byte in data[4:8] for shift in (0, 4))
    if len(data) < 16 or max(symbols) > (7 if by_bytes else 8):
        raise ModelInvalid(f"header of {len(data)} bytes with the symbols {list(symbols)}")
    if by_bytes:
        return Header(struct.unpack_from("<i", data)[0], symbols)
    a, b = data[0] & 15, data[0] >> 4
    base = struct.unpack_from("<h", data, 1)[0]
    if a == 0:
        return Header(base, symbols)
    count = (1 << a) + (1 << b)
    if 8 + 2 * count > len(data):
        raise ModelInvalid(f"header of {len(data)} bytes cannot hold {count} run lengths")
    return Header(base, symbols, (a, b), struct.unpack_from(f"<{count}H", data, 8))


class _Bits:
    """Reads fields off a stream; ModelInvalid at its end."""

    def __init__(self, stream: bytes) -> None:
        self._bits = np.unpackbits(np.frombuffer(stream, np.uint8), bitorder="little").tolist()
        self._at = 0

    def read(self, count: int) -> int:
        if self._at + count > len(self._bits):
            raise ModelInvalid("the stream ends too early")
        self._at += count
        field = self._bits[self._at - count : self._at]
        return sum(bit << place for place, bit in enumerate(field))

    def symbol(self, header: Header) -> int:
        code = ""
        while code not in PREFIXES:
            code += str(self.read(1))
        return header.symbols[PREFIXES.index(code)]


def decode_bytes(stream: bytes, header: Header, count: int) -> NDArray[np.uint8]:
    """Blocks of eight bytes: symbol w, eight signs, eight magnitudes of w bits."""
    bits, values = _Bits(stream), list[int]()
    while len(values) < count:
        width = bits.symbol(header)
        signs = [bits.read(1) for _ in range(8)]
        for sign in signs:
            magnitude = bits.read(width)
            values.append(((~magnitude if sign else magnitude) - header.base) & 0xFF)
    return np.array(values[:count], np.uint8)


def decode_words(stream: bytes, header: Header, bits_per_unit: int, count: int) -> NDArray[np.uint16]:
    """Units of 8 or 16 bits, each with its own code; runs repeat the base value."""
    bits, values = _Bits(stream), list[int]()
    (a, b), mask = header.run_bits, (1 << bits_per_unit) - 1
    while len(values) < count:
        symbol = bits.symbol(header)
        if a and symbol in (0, 8):
            run = bits.read(a) if symbol == 0 else (1 << a) + bits.read(b)
            values += [header.base & mask] * min(header.runs[run], count - len(values))
            continue
        delta = _delta_with_runs(bits, symbol, bits_per_unit) if a else _delta_plain(bits, symbol)
        if bits_per_unit == 16:
            delta = (delta & 0xFF) << 8 | bits.read(8)
        values.append((delta + header.base) & mask)
    return np.array(values[:count], np.uint16)


def _delta_plain(bits: _Bits, symbol: int) -> int:
    code = bits.read(1) if symbol == 0 else 1 << symbol | bits.read(symbol)
    return ~(code >> 1) if code & 1 else code >> 1


def _delta_with_runs(bits: _Bits, symbol: int, bits_per_unit: int) -> int:
    if symbol == 7:
        code = bits.read(8)
        code += 256 if code < 2 else 0
    else:
        code = 1 << symbol | bits.read(symbol)
    return -(code >> 1) if code & 1 else (code >> 1) - (bits_per_unit == 16)
