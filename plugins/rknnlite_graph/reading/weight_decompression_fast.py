"""Decompression of weights with array operations; same results as ``weight_decompression``, much faster.

Where a code starts depends on all codes before it, but only on five bits each: the length of a code follows
from its prefix. So the stream is cut into blocks of 64 bits; for every bit of a block it is computed, for all
blocks at once, how far into the next block a code that starts there reaches. One pass over the blocks then
fixes where each is entered, and all codes of all blocks are walked together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

from .weight_decompression import PREFIXES, Header

__all__ = ["decode_bytes", "decode_words"]

Array = NDArray[Any]
_PREFIX_BITS = np.array([len(code) for code in PREFIXES], np.int64)
_INDEX_OF_FIVE = np.array(
    [
        next(i for i, code in enumerate(PREFIXES) if format(w, "05b")[::-1].startswith(code))
        for w in range(32)
    ],
    np.uint8,
)  # the next five bits of a stream, first one lowest -> symbol number
_BLOCK = 64
_PIECE = 1 << 17  # bytes of a stream worked on at a time: bounds memory, fits caches


def decode_bytes(stream: bytes, header: Header, count: int) -> NDArray[np.uint8]:
    """Blocks of eight bytes; see ``weight_decompression.decode_bytes``."""
    widths = np.array(header.symbols, np.int64)
    windows = _windows(stream, 2)
    parts, found = [], 0
    for starts, index in _code_starts(stream, _PREFIX_BITS + 8 + 8 * widths):
        at, width = starts + _PREFIX_BITS[index], widths[index]
        signs, mask = _field(windows, at), (1 << width) - 1
        values = np.empty((len(starts), 8), np.int64)
        for j in range(8):
            magnitude = _field(windows, at + 8 + j * width) & mask
            values[:, j] = np.where(signs >> j & 1, ~magnitude, magnitude)
        parts.append(((values - header.base) & 0xFF).astype(np.uint8).reshape(-1))
        found += parts[-1].size
        if found >= count:
            break
    return _joined(parts, count, np.uint8)


def decode_words(stream: bytes, header: Header, bits_per_unit: int, count: int) -> NDArray[np.uint16]:
    """Units of 8 or 16 bits; see ``weight_decompression.decode_words``."""
    a, b = header.run_bits
    wide = bits_per_unit == 16
    symbols = np.array(header.symbols, np.int64)
    is_run = (symbols == 0) | (symbols == 8) if a else np.zeros(8, bool)
    body = np.maximum(symbols, 1) if not a else np.where(symbols == 7, 8, symbols)
    if a:
        body = np.where(symbols == 0, a, np.where(symbols == 8, b, body))
    raw_at = _PREFIX_BITS + body
    lengths = raw_at + np.where(is_run, 0, 8 if wide else 0)
    runs = np.array(header.runs, np.int64) if a else np.ones(1, np.int64)
    windows = _windows(stream, 4)
    parts, found = [], 0
    for starts, index in _code_starts(stream, lengths):
        word = _field(windows, starts)
        code = word >> _PREFIX_BITS[index] & ((1 << body) - 1)[index]
        symbol = symbols[index]
        delta = _delta_with_runs(code, symbol, wide) if a else _delta_plain(code, symbol)
        if wide:
            delta = (delta & 0xFF) << 8 | (word >> raw_at[index] & 0xFF)
        run = is_run[index]
        values = ((np.where(run, 0, delta) + header.base) & (0xFFFF if wide else 0xFF)).astype(np.uint16)
        if a:
            place = np.where(symbol == 8, code + (1 << a), code)
            values = _repeated(values, np.where(run, runs[np.where(run, place, 0)], 1), count - found)
        parts.append(values)
        found += values.size
        if found >= count:
            break
    return _joined(parts, count, np.uint16)


def _delta_plain(code: Array, symbol: Array) -> Array:
    full = np.where(symbol == 0, code, code | 1 << symbol)
    return np.where(full & 1, ~(full >> 1), full >> 1)


def _delta_with_runs(code: Array, symbol: Array, wide: bool) -> Array:
    full = np.where(symbol == 7, np.where(code < 2, code + 256, code), code | 1 << symbol)
    return np.where(full & 1, -(full >> 1), (full >> 1) - int(wide))


def _repeated(values: Array, times: Array, limit: int) -> Array:
    """``np.repeat`` that gives no more than ``limit`` elements."""
    total = np.cumsum(times)
    last = int(np.searchsorted(total, limit))
    if last < len(times):
        times = times[: last + 1].copy()
        times[last] -= total[last] - limit
    return np.repeat(values[: len(times)], times)


def _joined(parts: list[Array], count: int, dtype: Any) -> Array:
    values: Array = np.concatenate(parts) if parts else np.empty(0, dtype)
    if values.size < count:
        raise ModelInvalid("the stream ends too early")
    return values[:count]


def _windows(stream: bytes, size: int) -> Array:
    """For every byte of a stream the number that its next ``size`` bytes form."""
    data = np.frombuffer(stream + bytes(8), np.uint8)
    out = np.zeros(len(stream) + 8 - size, np.dtype(f"u{size}"))
    for k in range(size):
        out |= data[k : k + len(out)].astype(out.dtype) << np.array(8 * k, out.dtype)
    return out


def _field(windows: Array, at: Array) -> Array:
    """The bits from bit position ``at`` on, at least ``8 * size - 7`` of them, as int64."""
    place = np.minimum(at >> 3, len(windows) - 1)
    field: Array = windows[place].astype(np.int64) >> (at & 7)
    return field


def _code_starts(stream: bytes, lengths: Array) -> Iterator[tuple[Array, Array]]:
    """(bit positions, symbol numbers) of the codes of a stream, in order, a piece of the stream at a time.

    ``lengths`` are the bits of a whole code per symbol number. Codes that the end of the stream cuts are left out.
    """
    entry, bits = 0, 8 * len(stream)
    for first in range(0, len(stream), _PIECE):
        index = _symbol_at(stream[first : first + _PIECE + 1])[: 8 * _PIECE]
        starts, entry = _starts_in_piece(index, lengths, entry)
        index = index[starts]
        starts += 8 * first
        inside = starts + lengths[index] <= bits
        yield starts[inside], index[inside]


def _symbol_at(stream: bytes) -> NDArray[np.uint8]:
    """The symbol number that every bit position would name, padded to whole blocks."""
    data = np.frombuffer(stream + bytes(1 + -len(stream) % 8), np.uint8).astype(np.uint16)
    pairs = data[:-1] | data[1:] << np.uint16(8)
    five = np.empty((len(pairs), 8), np.uint8)
    for shift in range(8):
        five[:, shift] = pairs >> np.uint16(shift) & np.uint16(31)
    return _INDEX_OF_FIVE[five.reshape(-1)]


def _starts_in_piece(index: NDArray[np.uint8], lengths: Array, entry: int) -> tuple[Array, int]:
    """(start positions, how far the last code reaches past the piece)."""
    index = index[: len(index) // _BLOCK * _BLOCK]
    blocks = len(index) // _BLOCK
    exits = _exits(np.ascontiguousarray(lengths.astype(np.uint8)[index].reshape(blocks, _BLOCK).T), lengths)
    entries = []
    for block in range(blocks):
        entries.append(entry)
        entry = exits[entry][block]
    place = np.array(entries, np.int64)
    base = np.arange(blocks, dtype=np.int64) * _BLOCK
    marks = np.zeros(len(index), bool)
    while len(place):
        inside = place < _BLOCK
        place, base = place[inside], base[inside]
        at = base + place
        marks[at] = True
        place = place + lengths[index[at]]
    return np.flatnonzero(marks), entry


def _exits(sizes: NDArray[np.uint8], lengths: Array) -> list[bytes]:
    """How far into the next block a chain of codes reaches, per entry position and block.

    ``sizes`` [bit, block]: length of the code that would start there. Worked from the last bit to the first; a
    code that ends inside its block goes on as the code that starts where it ends. Choosing by masks keeps all
    steps on bytes.
    """
    reach, kinds = int(lengths.max()), sorted(set(lengths.tolist()))
    masks = [np.negative((sizes == kind).view(np.uint8)) for kind in kinds]
    exits = np.zeros((_BLOCK + reach, sizes.shape[1]), np.uint8)
    exits[_BLOCK:] = np.arange(reach, dtype=np.uint8)[:, None]
    part = np.empty_like(exits[0])
    for bit in range(_BLOCK - 1, -1, -1):
        for kind, mask in zip(kinds, masks):
            np.bitwise_and(exits[bit + kind], mask[bit], out=part)
            exits[bit] |= part
    return [row.tobytes() for row in exits[:reach]]
