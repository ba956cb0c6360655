"""Verdicts on engines and lowered islands in the build cache, by what they depend on."""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional

from rknnlite_programs import buildcache

import rknnlite
from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger

__all__ = ["Store", "digest_of"]

_LARGE = 1 << 22
"""Bytes from which it pays."""
_HEX_DIGITS = 64
_SETTLED = 2.0
"""Seconds after which a changed file has another time for certain."""


class Store:
    """Entries of one key; a cache that cannot be written keeps nothing, and nothing fails for it."""

    def __init__(self, key: Sequence[object]) -> None:
        self._key = [*map(str, key)]
        digest = hashlib.sha256("\0".join([*self._key, _build()]).encode()).hexdigest()
        self._name = digest[:32]

    def beside(self, more: Sequence[object]) -> Store:
        """The entries of the same with something else to it."""
        return Store([*self._key, *more])

    def fetch(self, name: str) -> Optional[bytes]:
        """What was kept; None when there is nothing."""
        try:
            return buildcache.fetch(self._file(name))
        except (OSError, RknnError):
            return None

    def keep(self, name: str, content: bytes) -> None:
        """Keep something for later processes."""
        try:
            buildcache.keep(self._file(name), content)
        except (OSError, RknnError) as error:
            logger.info("a compiled network cannot be kept: %s", error)

    def loader(self, name: str) -> Callable[[], Optional[bytes]]:
        """``fetch`` for later."""
        return functools.partial(self.fetch, name)

    def _file(self, name: str) -> Path:
        return buildcache.cache_dir() / self._name / name


def digest_of(file: ModelFile) -> str:
    """Of the bytes of a model: what is known of one file holds for its copies.

    That of a large file is kept for the file as it is (place, size, times of the last changes), since reading all of it takes as
    long as opening it.
    """
    data, identity = file.data, file.identity
    if identity is None or len(data) < _LARGE or max(identity[-2:]) > time.time_ns() - _SETTLED * 1e9:
        return hashlib.sha256(data).hexdigest()
    store = Store(("digest of", *identity))
    kept = (store.fetch("digest") or b"").decode("ascii", "replace")
    if len(kept) == _HEX_DIGITS:
        return kept
    found = hashlib.sha256(data).hexdigest()
    store.keep("digest", found.encode())
    return found


@functools.lru_cache(maxsize=1)
def _build() -> str:
    """What computes and lowers: another state of these files may give other numbers."""
    folders = [Path(__file__).parents[1], Path(rknnlite.__file__).parent]
    lowering = folders[0].with_name("rknnlite_onnx")
    found = []
    for folder in (*folders, lowering):
        for place, _, files in os.walk(folder):
            for file in sorted(files):
                if file.endswith((".py", ".c")):
                    status = os.stat(f"{place}/{file}")  # noqa: PTH116
                    found.append(f"{file}:{status.st_size}:{status.st_mtime_ns}")
    return "|".join(found)
