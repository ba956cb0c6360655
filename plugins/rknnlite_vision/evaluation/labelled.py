"""Datasets with one answer for each picture: a folder for each class, or a table of files and answers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from rknnlite.errors import InputInvalid
from rknnlite.files.pictures import SUFFIXES
from rknnlite.files.reading import read_bytes

from .truth import Labelled, found_pictures

__all__ = ["read_folders", "read_table"]

_MOST = 1 << 28
_HEADS = {"file", "file_name", "filename", "image", "path", "picture"}


def read_folders(folder: Path) -> Labelled:
    """A folder for each class, called as the class is. Raises InputInvalid where there is none."""
    pictures, answers = [], []
    for kind in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(path for path in kind.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
        pictures += files
        answers += [kind.name] * len(files)
    if not pictures:
        raise InputInvalid(f"{folder} has no folders of pictures, one for each class")
    return Labelled(pictures, answers)


def _rows(text: str, path: Path) -> list[list[str]]:
    """Of a table with commas, whatever ends its lines."""
    try:
        return list(csv.reader(io.StringIO(text, newline=None)))
    except csv.Error as error:
        raise InputInvalid(f"{path} is no table of file, comma, answer: {error}") from None


def read_table(path: Path, pictures: Path | None = None) -> Labelled:
    """A table of a file and its answer in each line, between them a tab, in ``.csv`` a comma.

    Args:
        pictures: where the files are; by default beside the table, or in ``images`` there.

    Raises:
        InputInvalid: a line has no answer, or no picture is there.
    """
    try:
        text = read_bytes(path, _MOST).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix.lower() == ".csv":
        rows = _rows(text, path)
    else:
        rows = [line.split("\t", 1) for line in text.splitlines()]
    found: list[tuple[str, str]] = []
    for n, row in enumerate(rows, 1):
        if not row or row == [""]:
            continue
        if len(row) < 2:
            mark = "comma" if path.suffix.lower() == ".csv" else "tab"
            raise InputInvalid(f"{path}, line {n}: {row[0][:60]!r} has no answer; give file, {mark}, answer")
        if n == 1 and row[0].strip().lower() in _HEADS:
            continue
        found.append((row[0].strip(), row[1].strip()))
    if not found:
        raise InputInvalid(f"{path} names no pictures")
    folders = [pictures] if pictures else [path.parent, path.parent / "images"]
    there, absent = found_pictures([name for name, _ in found], folders, path)
    kept = [(there[name], answer) for name, answer in found if name in there]
    return Labelled([file for file, _ in kept], [answer for _, answer in kept], absent)
