"""Archives of ``tools/sweep pack``: cases with their files for several targets and the simulator's answers."""

from __future__ import annotations

import io
import tarfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from rknnlite.formats import ModelFile
from tests.support.corpus import DATA

FOLDER = DATA / "swept"
FLAWED = DATA / "flawed"
"""Files that the converter gets wrong (tools/corpus/flawed.py, and cases of tools/sweep)."""


@lru_cache(maxsize=2)
def members(archive: Path) -> dict[str, bytes]:
    """The files of an archive by name."""
    with tarfile.open(archive) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def stems(archive: Path) -> list[str]:
    """``soc.type`` of every file of an archive, in one of several cases ``case/soc.type``."""
    return sorted(name.removesuffix(".rknn") for name in members(archive) if name.endswith(".rknn"))


def arrays(archive: Path, prefix: str) -> list[np.ndarray]:
    """``in`` or ``rk3588.i8.out``: what was fed, what came out."""
    names = sorted(name for name in members(archive) if name.startswith(prefix))
    return [np.load(io.BytesIO(members(archive)[name])) for name in names]


def model(case: str, target: str, folder: Path = FOLDER) -> ModelFile:
    """The genuine file of a case for a target such as ``rk3588.i8``."""
    return ModelFile(members(folder / f"{case}.tar.xz")[f"{target}.rknn"])


def flawed(case: str, target: str, folder: Path) -> Path:
    """Such a file of ``FLAWED`` in a folder, under the name ``case.target.rknn``."""
    path = folder / f"{case}.{target}.rknn"
    path.write_bytes(members(FLAWED / f"{case}.tar.xz")[f"{target}.rknn"])
    return path
