"""Arrays in files of numpy's, ``.npy`` and ``.npz``: as large as the file says and holds, of numbers only."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RknnError
from .reading import open_file, read_bytes

__all__ = ["array_of", "read_archive", "read_array"]

Array = NDArray[Any]
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_KINDS = "biufc"


def read_array(path: Path) -> Array:
    """The array of a ``.npy`` file. Raises OSError, or ValueError that says what is wrong with it."""
    return array_of(read_bytes(path))


def array_of(data: bytes) -> Array:
    """The array in what a ``.npy`` file holds, read-only; raises ValueError. No byte more is taken than there are."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"format {version[0]}.{version[1]} holds no numbers")
        shape, columns_first, dtype = _HEADERS[version](file)
    except Exception as error:  # the header is a literal of Python, which fails in many ways
        raise ValueError(f"its header cannot be read: {type(error).__name__}: {error!s:.200}") from None
    if dtype.kind not in _KINDS:
        raise ValueError(f"it holds {dtype!s:.60}, no numbers")
    have, need = len(data) - file.tell(), math.prod(shape) * dtype.itemsize
    if need != have or min(shape, default=0) < 0:
        raise ValueError(f"{list(shape)} of {dtype} are {need} bytes, {have} follow the header")
    flat = np.frombuffer(data, dtype, offset=file.tell()) if have else np.empty(0, dtype)
    try:
        return flat.reshape(shape, order="F" if columns_first else "C")
    except (ValueError, OverflowError) as error:  # an empty array of impossible dimensions
        raise ValueError(f"its shape cannot be: {error}") from None


def read_archive(path: Path, choose: Callable[[Sequence[str]], Sequence[str]], most: int) -> dict[str, Array]:
    """Arrays of a ``.npz`` file by name, in the order in which they were chosen.

    Args:
        choose: given the names of all, those that are wanted.
        most: bytes that an array may have, header included.

    Raises:
        OSError: it cannot be read. ValueError: no such archive, encrypted, damaged, or an array too large; the text names it.
    """
    with open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
                wanted = choose(list(members))
                return {name: _member(archive, members[name], most) for name in wanted}
        except (OSError, ValueError, RknnError):
            raise
        except Exception as error:  # zipfile raises whatever a damaged archive makes it stumble over
            raise ValueError(f"no archive of arrays: {type(error).__name__}: {error!s:.200}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> Array:
    try:
        with archive.open(member) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"it has more than {most} bytes")
        return array_of(data)
    # encrypted, of an unknown method, damaged: zlib, lzma and bz2 have errors of their own
    except Exception as error:
        raise ValueError(f"{member.filename!r:.100}: {error!s:.200}") from None
