"""Cases of tools/sweep that are kept with the simulator's answers: tests/data/swept, one archive per case."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.formats import ModelFile
from rknnlite.tensor import DType
from tests.support.corpus import DATA, ROOT, open_cpu

ARCHIVES = sorted((DATA / "swept").glob("*.tar.xz"))


def _sweep(name: str) -> Any:
    """A module of the sweep, which is no package: the criteria stand there once."""
    spec = importlib.util.spec_from_file_location(f"sweep_{name}", ROOT / "tools" / "sweep" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


JUDGE = _sweep("judge")


@lru_cache(maxsize=2)
def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def arrays(archive: Path, prefix: str) -> list[np.ndarray]:
    names = sorted(name for name in members(archive) if name.startswith(prefix))
    return [np.load(io.BytesIO(members(archive)[name])) for name in names]


def models() -> list[Any]:
    """(archive, target) of every kept model; the names only need the list of members."""
    found = []
    for archive in ARCHIVES:
        with tarfile.open(archive) as tar:
            targets = sorted(n.removesuffix(".rknn") for n in tar.getnames() if n.endswith(".rknn"))
        case = archive.name.removesuffix(".tar.xz")
        found += [pytest.param(archive, target, id=f"{case}.{target}") for target in targets]
    return found


@pytest.mark.parametrize(("archive", "target"), models())
def test_as_the_simulator(archive: Path, target: str) -> None:
    wanted = arrays(archive, f"{target}.out")
    judge = JUDGE.Judge(json.loads(members(archive)["case.json"])["judge"])
    with open_cpu(ModelFile(members(archive)[f"{target}.rknn"])) as context:
        found = context.infer(arrays(archive, "in"))
        steps = [
            attr.quant.scale if attr.quant and attr.dtype is not DType.FLOAT16 else None
            for attr in context.outputs
        ]
    assert len(found) == len(wanted) > 0
    for mine, simulated, step in zip(found, wanted, steps):
        assert mine.shape == simulated.shape
        verdict = JUDGE.compare(mine, simulated, step, target.endswith(".i8"), judge)
        assert verdict.matches, str(verdict)
