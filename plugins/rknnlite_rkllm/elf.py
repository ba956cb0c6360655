"""The functions that a shared library exports, read from the file: an unknown library is not even loaded."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rknnlite_backend.library import LibraryUnusable

from rknnlite.files.reading import open_file

__all__ = ["exports"]

_DYNSYM = 11
_LARGEST_TABLE = 1 << 28


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def exports(path: Path) -> frozenset[str]:
    """Names of the functions that the library defines for others; raises LibraryUnusable for a damaged file."""
    try:
        with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return frozenset(_defined(data))
    except OSError as error:
        raise LibraryUnusable(f"{path} cannot be read: {error.strerror}") from None
    except (IndexError, ValueError, struct.error) as error:
        raise LibraryUnusable(f"{path} is damaged: {error}; copy it again") from None


def _defined(data: mmap.mmap) -> Iterator[str]:
    wide = data[4] == 2
    sections = list(_sections(data, wide))
    symbol = struct.Struct("<IBBHQQ" if wide else "<IIIBBH")
    for section in sections:
        if section.kind != _DYNSYM:
            continue
        names = sections[section.link]
        if max(section.size, names.size) > _LARGEST_TABLE:
            raise ValueError(f"a symbol table of {section.size} bytes")
        table = data[section.offset : section.offset + section.size]
        texts = data[names.offset : names.offset + names.size]
        for entry in symbol.iter_unpack(table[: len(table) // symbol.size * symbol.size]):
            name, where = (entry[0], entry[3]) if wide else (entry[0], entry[5])
            if where:  # defined here, not wanted from elsewhere
                yield texts[name : texts.index(b"\0", name)].decode("ascii", "replace")


def _sections(data: mmap.mmap, wide: bool) -> Iterator[_Section]:
    start = struct.unpack_from("<Q", data, 40)[0] if wide else struct.unpack_from("<I", data, 32)[0]
    each, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    for number in range(count):
        place = start + each * number
        if wide:
            _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", data, place)
        else:
            _, kind, _, _, offset, size, link = struct.unpack_from("<IIIIIII", data, place)
        yield _Section(kind, offset, size, link)
