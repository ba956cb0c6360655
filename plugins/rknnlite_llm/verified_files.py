"""Files whose checksums were compared before: they are not read again as long as the file system says that they are the same.

A line in the file ``verified`` of the cache folder stands for device, inode, size and times of a file, of its last writing
(mtime) and of its last change (ctime, which no program sets), and for the checksums that it had. A file that was written to,
replaced or touched in any way is another one. What no file system tells, a bit that turned on the disk, is found by
``verify=True`` and ``rknnlite check``.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Optional

from rknnlite_programs.buildcache import cache_dir

from rknnlite.errors import ParamInvalid
from rknnlite.files.writing import write_file
from rknnlite.formats import ModelFile

from .container.description import FileSum

__all__ = ["is_known", "remember"]

_MOST = 1024
"""Lines; those that were added first go."""
_LINE = 33  # with its end
_SETTLED = 2.0
"""Seconds. A file that changed later may change again within the same tick of the file system's clock."""


def is_known(file: ModelFile, wanted: FileSum) -> bool:
    """Whether this very file was found to have these checksums; False for any doubt."""
    entry, kept = _entry(file, wanted), _kept()
    return entry is not None and kept is not None and entry in _lines(kept)


def remember(file: ModelFile, wanted: FileSum) -> None:
    """Keep that the file has these checksums, unless it changed a moment ago or since it was mapped."""
    entry, kept = _entry(file, wanted), _kept()
    if entry is None or kept is None or not _settled(file):
        return
    lines = [line for line in _lines(kept) if line != entry][1 - _MOST :]
    try:
        write_file(kept, "\n".join((*lines, entry, "")).encode(), mode=0o600)
    except OSError:  # a cache that cannot be written: the file is read again next time
        return


def _settled(file: ModelFile) -> bool:
    identity = file.identity
    if identity is None or file.path is None:
        return False
    try:
        status = file.path.stat()
    except OSError:
        return False
    same = identity == (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return same and abs(time.time() - status.st_ctime) > _SETTLED


def _entry(file: ModelFile, wanted: FileSum) -> Optional[str]:
    """None for a model that came as bytes."""
    if file.identity is None:
        return None
    return hashlib.sha256(repr((file.identity, wanted.size, wanted.crcs)).encode()).hexdigest()[: _LINE - 1]


def _kept() -> Optional[Path]:
    try:
        return cache_dir() / "verified"
    except ParamInvalid:  # others could write there
        return None


def _lines(kept: Path) -> list[str]:
    try:
        with kept.open("rb") as stored:
            return stored.read(_MOST * _LINE).decode("ascii", "replace").split("\n")[:-1]
    except OSError:
        return []
