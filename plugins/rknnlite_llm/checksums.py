"""Checksums of the files of a package: a byte that changed is found when the model is opened, not in its answers.

A CRC-32 of every 16 MiB, computed by two threads or more: a disk is the slower part. Files that were found right
before are remembered (``verified_files``).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile

from .container.description import MAGIC, SUM_CHUNK, FileSum, read_llm
from .package import Package
from .verified_files import is_known, remember

__all__ = ["check_beside", "check_sum", "file_sum"]

_MOST_THREADS = 4


def file_sum(file: ModelFile) -> FileSum:
    """What is in a file now."""
    with file.naming():
        data = file.data
    return FileSum(len(data), tuple(_crcs(data)))


def check_sum(file: ModelFile, wanted: FileSum, again: bool = True) -> None:
    """Raise ModelInvalid, naming the place, when a file is not the one that was exported.

    ``again`` False: a file that was found right before, and is the same, is not read (``verified_files``).
    """
    with file.naming():
        data = file.data
    if len(data) != wanted.size:
        raise ModelInvalid(
            f"{file.label}: {len(data)} bytes, the package was exported with {wanted.size}; it was cut, or belongs to another "
            "model: copy it again"
        )
    file.check()
    if not again and is_known(file, wanted):
        return
    for number, (found, crc) in enumerate(zip(_crcs(data), wanted.crcs)):
        if found != crc:
            start = number * SUM_CHUNK
            raise ModelInvalid(
                f"{file.label}: damaged between byte {start} and {min(start + SUM_CHUNK, len(data))}: checksum {found:08x}, "
                f"exported with {crc:08x}; copy it again"
            )
    remember(file, wanted)


def check_beside(model: ModelFile, package: Package, weights: bool = False, again: bool = True) -> None:
    """Check embeddings and tokenizer, and ``weights``, where they lie beside a model that knows their sums.

    ``again`` as in ``check_sum``. Raises ModelInvalid.
    """
    sums = read_llm(model).sums if bytes(model.data[: len(MAGIC)]) == MAGIC else None
    if sums is None:
        return
    files = [(package.embed, sums.embed), (package.tokenizer, sums.tokenizer)]
    if weights:
        files.append((package.weight, sums.weight))
    for path, wanted in files:
        if wanted is not None and path.is_file():
            check_sum(ModelFile(path), wanted, again)


def _crcs(data: memoryview) -> Iterable[int]:
    chunks = [data[start : start + SUM_CHUNK] for start in range(0, len(data), SUM_CHUNK)]
    if len(chunks) < 2:
        return map(zlib.crc32, chunks)
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(zlib.crc32, chunks))
