"""The genuine model files of the repository, each with the vendor simulator's outputs beside it."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_cpu.backend import CpuBackend

from rknnlite.formats import ModelFile
from rknnlite.spi import Context, OpenOptions

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "examples"
SILICON = Path(os.environ.get("RKNNLITE_SILICON") or ROOT.parent / "shared" / "silicon")
FIXTURES = Path(os.environ.get("RKNNLITE_FIXTURES") or ROOT.parent / "shared" / "fixtures")


def open_cpu(source: Any, **options: Any) -> Context:
    """Open a file, or bytes, on the CPU reference."""
    model = source if isinstance(source, ModelFile) else ModelFile(source)
    return CpuBackend().open(model, OpenOptions(**options))


def genuine(name: str) -> Path:
    """A file of the corpus by its stem, e.g. ``conv_1x1.rk3588.i8``."""
    path = DATA / f"{name}.rknn"
    assert path.exists(), f"{path.name} is missing from tests/data"
    return path


def fixture_file(name: str) -> Path:
    """A file made by others; the test is skipped where that folder is absent."""
    path = FIXTURES / name
    if not path.exists():
        pytest.skip(f"{name} is not there: set RKNNLITE_FIXTURES to the folder of third-party files")
    return path


@dataclass(frozen=True)
class Golden:
    """One inference of a genuine file: inputs as a caller gives them, outputs of the vendor's simulator."""

    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


def goldens(archive: Path) -> list[Golden]:
    """The stored inferences: one, or one per shape of a dynamic model (keys ``s0_in0``, ``s0_out0``, ...)."""
    with np.load(archive) as stored:
        arrays = {name: stored[name] for name in stored.files}
    prefixes = sorted({name.partition("_")[0] + "_" for name in arrays if "_" in name}) or [""]
    return [Golden(_numbered(arrays, f"{p}in"), _numbered(arrays, f"{p}out")) for p in prefixes]


def _numbered(arrays: dict[str, np.ndarray], stem: str) -> list[np.ndarray]:
    count = sum(name.startswith(stem) for name in arrays)
    return [arrays[f"{stem}{i}"] for i in range(count)]


def answers_of(example: Path) -> Path:
    """The stored inferences of a model in examples/: files of one network for several SoCs share them."""
    return DATA / "examples" / f"{example.stem.partition('_for_')[0]}.npz"


@functools.cache
def golden_of(name: str) -> Golden:
    """The first stored inference of a file of the corpus."""
    return goldens(DATA / f"{name}.npz")[0]
