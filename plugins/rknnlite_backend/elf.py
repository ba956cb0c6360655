"""What an ELF file says of itself, and whether it holds what it says: the dynamic linker believes all of it, and crashes."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from rknnlite.files.reading import open_file
from rknnlite.native.processors import machine

__all__ = ["Elf", "ElfInvalid", "Kind", "Machine", "check_contents", "of_this_python", "read_header"]


class ElfInvalid(ValueError):
    """No ELF file, or one whose parts contradict each other; the text says what to do."""


class Machine(IntEnum):
    """Processors, by their number in the header."""

    I386 = 3
    ARMHF = 40
    X86_64 = 62
    AARCH64 = 183
    RISCV = 243


class Kind(IntEnum):
    """What a file is to the linker, by its number in the header."""

    OBJECT = 1
    PROGRAM = 2
    SHARED = 3


@dataclass(frozen=True)
class Elf:
    """``machine`` and ``kind`` are numbers, which the tables need not have."""

    bits: int
    machine: int
    kind: int

    @property
    def processor(self) -> str:
        """The machine as Debian calls it, or its number."""
        return (
            Machine(self.machine).name.lower()
            if self.machine in set(Machine)
            else f"ELF machine {self.machine}"
        )

    def fits(self, other: Elf) -> bool:
        """Whether both are for the same processor, as far as that is known; the linker tells 32 bits from 64."""
        return not (self.machine and other.machine) or self.machine == other.machine


@dataclass(frozen=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int
    align: int


_LOAD, _DYNAMIC, _TLS = 1, 2, 7
_SEGMENTS = {32: struct.Struct("<8I"), 64: struct.Struct("<II6Q")}
_HEADERS = {32: (52, "<II", 28, 42), 64: (64, "<QQ", 32, 54)}
"""By bits: size; form and place of the offsets of program and section headers; place of their sizes and counts."""
_ADDRESSES = {
    3: "DT_PLTGOT", 4: "DT_HASH", 5: "DT_STRTAB", 6: "DT_SYMTAB", 7: "DT_RELA", 12: "DT_INIT", 13: "DT_FINI", 17: "DT_REL",
    23: "DT_JMPREL", 25: "DT_INIT_ARRAY", 26: "DT_FINI_ARRAY", 36: "DT_RELR", 0x6FFFFEF5: "DT_GNU_HASH",
    0x6FFFFFF0: "DT_VERSYM", 0x6FFFFFFC: "DT_VERDEF", 0x6FFFFFFE: "DT_VERNEED",
}  # fmt: skip
"""Entries of the dynamic section that are addresses."""
_SIZES = {5: 10, 7: 8, 17: 18, 23: 2, 25: 27, 26: 28, 36: 35}
"""The entry that has the size in bytes of what an entry points to."""
_NAMES = {1: "DT_NEEDED", 14: "DT_SONAME", 15: "DT_RPATH", 29: "DT_RUNPATH"}
"""Entries that are places in DT_STRTAB."""
_STRTAB, _STRSZ, _PLTREL = 5, 10, 20
_RELOCATIONS = ((7, 8), (17, 18), (23, 2))
"""DT_RELA, DT_REL, DT_JMPREL, and the entry with the size of each."""
_WRITABLE, _TEXTREL, _FLAGS = 2, 22, 30
_AGAIN = "copy it again"


def read_header(path: Path) -> Elf:
    """The header of an ELF file of little-endian; raises ElfInvalid, OSError."""
    with open_file(path) as file:
        head = file.read(64)
    if head.startswith(b"version https://git-lfs"):
        raise ElfInvalid(
            "a pointer of Git LFS, not the library itself; fetch it: git lfs pull, or copy the file from a complete download"
        )
    if head[:4] != b"\x7fELF" or len(head) < 52 or head[4] not in (1, 2):
        raise ElfInvalid(f"no shared library (no ELF header); {_AGAIN}")
    kind, number = struct.unpack_from("<HH", head, 16)
    return Elf(32 * head[4], number, kind)


def of_this_python() -> Elf:
    """What this process can load; machine 0 where that is not known."""
    bits = 8 * ctypes.sizeof(ctypes.c_void_p)
    name = machine().lower()
    if name in ("aarch64", "arm64", "armv8l", "armv7l", "armv6l"):
        number = Machine.AARCH64 if bits == 64 else Machine.ARMHF
    elif name in ("x86_64", "amd64", "i686", "i586"):
        number = Machine.X86_64 if bits == 64 else Machine.I386
    else:
        return _of_its_program(bits)
    return Elf(bits, number, Kind.SHARED)


def _of_its_program(bits: int) -> Elf:
    try:
        return Elf(bits, read_header(Path(sys.executable)).machine, Kind.SHARED)
    except (ElfInvalid, OSError):
        return Elf(bits, 0, Kind.SHARED)


def check_contents(path: Path) -> None:
    """Whether the parts of a shared library lie where its tables say; raises ElfInvalid, OSError.

    Not looked at: what code and symbols say.
    """
    bits = read_header(path).bits
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            segments = _segments(data, bits, size)
            dynamic = [segment for segment in segments if segment.kind == _DYNAMIC]
            if len(dynamic) != 1:
                raise ElfInvalid(f"damaged: {len(dynamic)} dynamic sections instead of one; {_AGAIN}")
            loads = _loads(segments)
            entries = list(_dynamic(data, bits, dynamic[0], loads))
            _check_dynamic(entries, data, loads)
            _check_relocations(dict(entries), data, loads, bits)


def _segments(data: mmap.mmap, bits: int, size: int) -> list[_Segment]:
    """The program headers; they, the section headers and the contents of segments lie inside the file."""
    length, form, offsets, counts = _HEADERS[bits]
    if size < length:
        raise ElfInvalid(f"truncated: {size} bytes; {_AGAIN}")
    programs, sections = struct.unpack_from(form, data, offsets)
    program_size, count, section_size, section_count = struct.unpack_from("<4H", data, counts)
    entry = _SEGMENTS[bits]
    end = max(programs + program_size * count, sections + section_size * section_count if sections else 0)
    if end > size:
        raise ElfInvalid(f"truncated: it has {size} bytes of {end}; {_AGAIN}")
    if program_size != entry.size:
        raise ElfInvalid(
            f"damaged: program headers of {program_size} bytes instead of {entry.size}; {_AGAIN}"
        )
    found = []
    for number in range(count):
        fields = entry.unpack_from(data, programs + number * entry.size)
        if bits == 64:
            kind, flags, offset, address, _, file_size, memory, align = fields
        else:
            kind, offset, address, _, file_size, memory, flags, align = fields
        if kind in (_LOAD, _DYNAMIC, _TLS) and offset + file_size > size:
            raise ElfInvalid(f"truncated: it has {size} bytes of {offset + file_size}; {_AGAIN}")
        found.append(_Segment(kind, flags, offset, address, file_size, memory, align))
    return found


def _loads(segments: list[_Segment]) -> list[_Segment]:
    """What gets mapped, in the order of its addresses."""
    loads = [segment for segment in segments if segment.kind == _LOAD]
    end = 0
    for segment in loads:
        align = segment.align or 1
        fits = segment.file_size <= segment.size and not align & (align - 1)
        if not fits or (segment.address - segment.offset) % align or segment.address < end:
            raise ElfInvalid(f"damaged: a segment at {segment.address:#x} that cannot be mapped; {_AGAIN}")
        end = segment.address + segment.size
    # the linker reserves the whole span, and clears what the file does not fill
    spread = end - sum(segment.size for segment in loads)
    if not loads or spread > 64 * max(1 << 20, *(segment.align for segment in loads)):
        raise ElfInvalid(f"damaged: segments that span {end:#x} bytes; {_AGAIN}")
    return loads


def _place(address: int, length: int, loads: list[_Segment]) -> int | None:
    """Where in the file an address is; None when the file does not have ``length`` bytes there."""
    for segment in loads:
        inside = address - segment.address
        if inside >= 0 and inside + length <= segment.file_size:
            return segment.offset + inside
    return None


def _dynamic(
    data: mmap.mmap, bits: int, section: _Segment, loads: list[_Segment]
) -> Iterator[tuple[int, int]]:
    """Tags and values. The linker reads the section where it is mapped, and until an entry of zeros."""
    at = _place(section.address, section.file_size, loads)
    if at != section.offset:
        raise ElfInvalid(f"damaged: its dynamic section outside of its segments; {_AGAIN}")
    for tag, value in struct.iter_unpack(
        "<qQ" if bits == 64 else "<iI", data[at : at + section.file_size // (bits // 4) * (bits // 4)]
    ):
        if not tag:
            return
        yield tag, value
    raise ElfInvalid(f"damaged: a dynamic section without an end; {_AGAIN}")


def _check_dynamic(pairs: list[tuple[int, int]], data: mmap.mmap, loads: list[_Segment]) -> None:
    entries = dict(pairs)
    for tag, name in _ADDRESSES.items():
        if tag not in entries:
            continue
        length = entries.get(_SIZES.get(tag, 0), 1)
        if length and _place(entries[tag], length, loads) is None:
            raise ElfInvalid(
                f"damaged: {name} at {entries[tag]:#x}, {length} bytes, outside of its segments; {_AGAIN}"
            )
    if _STRTAB not in entries or _STRSZ not in entries:
        raise ElfInvalid(f"damaged: no table of names; {_AGAIN}")
    start = _place(entries[_STRTAB], entries[_STRSZ], loads)
    if start is None or not entries[_STRSZ] or data[start + entries[_STRSZ] - 1]:
        raise ElfInvalid(f"damaged: a table of names without an end; {_AGAIN}")
    for tag, value in pairs:
        if tag in _NAMES and value >= entries[_STRSZ]:
            raise ElfInvalid(f"damaged: {_NAMES[tag]} outside of its table of names; {_AGAIN}")


def _check_relocations(entries: dict[int, int], data: mmap.mmap, loads: list[_Segment], bits: int) -> None:
    """Places that the linker writes to lie in what is mapped for writing, or in text that DT_TEXTREL makes writable."""
    text_too = _TEXTREL in entries or entries.get(_FLAGS, 0) & 4
    word = np.dtype(f"<u{bits // 8}")
    for tag, size_tag in _RELOCATIONS:
        start = _place(entries.get(tag, 0), entries.get(size_tag, 0), loads)
        if not entries.get(size_tag) or start is None:
            continue
        with_addend = (entries.get(_PLTREL) if tag == 23 else tag) == 7
        words = 3 if with_addend else 2
        count = entries[size_tag] // (words * word.itemsize) * words
        places = np.frombuffer(data, word, count, start)[::words]
        written = np.zeros(len(places), bool)
        for segment in loads:
            if segment.flags & _WRITABLE or text_too:
                written |= (places >= segment.address) & (places < segment.address + segment.size)
        lost = [hex(place) for place in places[~written][:1]]
        del places
        if lost:
            raise ElfInvalid(
                f"damaged: a relocation at {lost[0]}, outside of its segments for writing; {_AGAIN}"
            )
