"""Folders as streams of pieces of their files: dumps on their way in and out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Optional

from rknnlite.errors import InputInvalid, OutOfMemory
from rknnlite.files.writing import writing

__all__ = ["FolderWriter", "pieces_of"]

MOST_BYTES = 1 << 30
MOST_FILES = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")


class FolderWriter:
    """Writes the files of a folder, which is made with the first of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: set[str] = set()
        self._size = 0
        self._name = ""
        self._file: Optional[BinaryIO] = None
        self._open = ExitStack()

    def add(self, name: str, data: bytes) -> None:
        """Write a piece; those of a file follow each other.

        Raises:
            InputInvalid: the name is none of a file in a folder, or came before; too many bytes, too many files.
            OutOfMemory: they cannot be written.
        """
        self._size += len(data)
        if self._size > MOST_BYTES:
            raise InputInvalid(f"the files of the dump have more than {MOST_BYTES} bytes together")
        try:
            if self._file is None or name != self._name:
                self._file = self._begun(name)
            self._file.write(data)
        except OSError as error:
            raise _full(error) from None

    def close(self) -> None:
        """Finish the last file; may be called again."""
        try:
            self._open.close()
        except OSError as error:
            raise _full(error) from None

    def _begun(self, name: str) -> BinaryIO:
        if not _NAME.fullmatch(name):
            raise InputInvalid(
                f"{name[:80]!r} is no name of a file of a dump; letters, digits and _ . + - make one"
            )
        if name in self._names or len(self._names) >= MOST_FILES:
            raise InputInvalid(
                f"file {name[:80]!r} of the dump comes twice, or is one of more than {MOST_FILES}"
            )
        self._names.add(name)
        self._open.close()
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._name = name
        return self._open.enter_context(writing(self._folder / name, mode=0o600, lasting=False))


def pieces_of(folder: Path, size: int) -> Iterator[tuple[str, bytes]]:
    """Names and pieces of all files of a folder; an empty file has one piece. Raises OSError."""
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            piece = file.read(size)
            yield path.name, piece
            while piece := file.read(size):
                yield path.name, piece


def _full(error: OSError) -> OutOfMemory:
    return OutOfMemory(
        f"the files of the dump cannot be written: {error.strerror or error}; make room for temporary files"
    )
