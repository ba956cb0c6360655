"""Archives of many small genuine files with the simulator's answers (``tools/sweep/pack_many.py`` makes them)."""

from __future__ import annotations

import atexit
import functools
import shutil
import tarfile
import tempfile
from pathlib import Path

from .corpus import DATA

__all__ = ["packed"]


@functools.cache
def packed(name: str) -> Path:
    """The folder of the unpacked archive ``<name>.tar.xz`` of tests/data; it lives as long as the tests."""
    folder = Path(tempfile.mkdtemp(prefix="rknnlite-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        for member in archive.getmembers():
            assert member.isfile() and Path(member.name).name == member.name
            source = archive.extractfile(member)
            assert source is not None
            (folder / member.name).write_bytes(source.read())
    return folder
