"""Ways to damage a model file, and the limits that a reader of damaged files has to keep."""

from __future__ import annotations

import contextlib
import signal
import struct
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from types import FrameType

from hypothesis import strategies as st

KINDS = ["truncated", "flipped", "overwritten", "resized", "unseated", "commanded", "headed"]
"""The ways, each a function here of the bytes of a file."""
HEADER = 64
_UNITS = (0x0201, 0x0801, 0x1001, 0x2001)  # parts of the NPU, the top 16 bits of a register command
EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


def mixed(data: bytes, kinds: Sequence[str] = KINDS) -> st.SearchStrategy[bytes]:
    """Damage of any of these kinds."""
    return st.one_of([globals()[kind](data) for kind in kinds])


def table_places(data: bytes) -> list[int]:
    """File positions of the tables of a model file: root, graphs, tensors, nodes."""
    start = flat_start(data)
    first = start + struct.unpack_from("<I", data, start)[0]
    places = [first]
    for graph in tables_in(data, first, 2):
        places += [graph, *tables_in(data, graph, 0), *tables_in(data, graph, 1)]
    return places


def payload_start(data: bytes) -> int:
    """Bytes of the header, which container 1 has shorter."""
    return 24 if struct.unpack_from("<Q", data, 8)[0] == 1 else HEADER


def flat_start(data: bytes) -> int:
    """Where the flatbuffer begins: after the header, in the mini format at the end of the payload."""
    version, size = struct.unpack_from("<QQ", data, 8)
    if version == 0x1004:
        return HEADER + size - int(struct.unpack_from("<I", data, HEADER)[0])
    return payload_start(data)


def vtable_of(data: bytes, table: int) -> tuple[int, int]:
    """(position, bytes) of a table's vtable."""
    at = table - struct.unpack_from("<i", data, table)[0]
    return at, struct.unpack_from("<H", data, at)[0]


def tables_in(data: bytes, table: int, slot: int) -> list[int]:
    """Positions of the tables that a vector field names."""
    vtable, size = vtable_of(data, table)
    if 4 + 2 * slot >= size:
        return []
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * slot)
    at = table + offset
    start = at + struct.unpack_from("<I", data, at)[0]
    count = struct.unpack_from("<I", data, start)[0]
    return [p + struct.unpack_from("<I", data, p)[0] for p in range(start + 4, start + 4 + 4 * count, 4)]


def truncated(data: bytes) -> st.SearchStrategy[bytes]:
    """The file cut anywhere, also with its header corrected to the shorter payload."""

    def cut(size: int, lie: bool) -> bytes:
        short = bytearray(data[:size])
        if lie and size > HEADER + 8:
            struct.pack_into("<Q", short, 16, size - HEADER - 8)
            struct.pack_into("<Q", short, size - 8, 0)
        return bytes(short)

    return st.builds(cut, st.integers(0, len(data) - 1), st.booleans())


def flipped(data: bytes) -> st.SearchStrategy[bytes]:
    """A few bytes changed, anywhere."""
    return st.lists(
        st.tuples(st.integers(0, len(data) - 1), st.integers(1, 255)), min_size=1, max_size=12
    ).map(lambda changes: _with_bytes(data, changes))


def _with_bytes(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for place, value in changes:
        out[place] ^= value
    return bytes(out)


def overwritten(data: bytes) -> st.SearchStrategy[bytes]:
    """A range filled with one byte, or with another range of the file."""

    def fill(start: int, size: int, source: int | None, value: int) -> bytes:
        size = min(size, len(data) - start)
        patch = bytes([value]) * size if source is None else data[source : source + size]
        return data[:start] + patch + data[start + len(patch) :]

    place = st.integers(0, len(data) - 1)
    return st.builds(fill, place, st.integers(1, 200), st.none() | place, st.sampled_from([0, 1, 0x7F, 0xFF]))


def resized(data: bytes) -> st.SearchStrategy[bytes]:
    """Aligned 32-bit words (sizes, offsets, counts, dims) of tables and their vectors set to extremes."""
    tables = table_places(data)
    words = st.tuples(
        st.sampled_from(tables),
        st.integers(0, 40),
        st.booleans(),
        st.sampled_from(EXTREMES) | st.integers(0, 1 << 32),
    )

    def change(choices: list[tuple[int, int, bool, int]]) -> bytes:
        out = bytearray(data)
        for table, word, follow, value in choices:
            at = table + 4 * word
            # the vector that this field points to: its count or an element
            if follow and at + 4 <= len(data):
                at += struct.unpack_from("<I", data, at)[0] + 4 * (value % 5)
            if at + 4 <= len(data):
                struct.pack_into("<I", out, at, value & 0xFFFFFFFF)
        return bytes(out)

    return st.lists(words, min_size=1, max_size=4).map(change)


def unseated(data: bytes) -> st.SearchStrategy[bytes]:
    """Entries of vtables changed: fields vanish, move into each other, or leave the file."""
    tables = table_places(data)
    entries = st.tuples(
        st.sampled_from(tables), st.integers(0, 24), st.integers(0, 80) | st.integers(0, 0xFFFF)
    )

    def change(choices: list[tuple[int, int, int]]) -> bytes:
        out = bytearray(data)
        for table, entry, value in choices:
            at, size = vtable_of(data, table)
            struct.pack_into("<H", out, at + 2 * (entry % max(1, size // 2)), value)
        return bytes(out)

    return st.lists(entries, min_size=1, max_size=4).map(change)


def commanded(data: bytes) -> st.SearchStrategy[bytes]:
    """Values of register commands changed: geometry, scales, shifts, table steps."""
    places = [
        at
        for at in range(HEADER, len(data) - 8, 4)
        if struct.unpack_from("<H", data, at + 6)[0] in _UNITS and data[at] | data[at + 1]
    ]
    if not places:
        return st.nothing()
    commands = st.tuples(st.sampled_from(places), st.sampled_from(EXTREMES) | st.integers(0, 1 << 32))

    def change(choices: list[tuple[int, int]]) -> bytes:
        out = bytearray(data)
        for at, value in choices:
            struct.pack_into("<I", out, at + 2, value & 0xFFFFFFFF)
        return bytes(out)

    return st.lists(commands, min_size=1, max_size=6).map(change)


def headed(data: bytes) -> st.SearchStrategy[bytes]:
    """Sizes of the header and of the JSON part set to extremes."""
    json_at = payload_start(data) + struct.unpack_from("<Q", data, 16)[0]
    values = st.sampled_from([0, 1, 7, 8, HEADER, len(data), 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1])

    def change(place: int, value: int) -> bytes:
        out = bytearray(data)
        struct.pack_into("<Q", out, place, value)
        return bytes(out)

    return st.builds(change, st.sampled_from([8, 16, json_at]), values | st.integers(0, len(data)))


class TooSlow(BaseException):
    """Raised by the alarm of ``limits``; no handler for ordinary exceptions swallows it."""


@contextlib.contextmanager
def limits(seconds: float, nbytes: int) -> Iterator[None]:
    """Fail when the block takes longer, or allocates more at any one time."""

    def alarm(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"still busy after {seconds} s")

    timed = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGALRM, alarm) if timed else None
    if timed:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    assert peak <= nbytes, f"{peak} bytes were allocated, {nbytes} are justified"
