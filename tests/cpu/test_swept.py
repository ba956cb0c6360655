"""Cases of tools/sweep that are kept with the simulator's answers: tests/data/swept, one archive per case."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.spi import Context
from tests.support.corpus import ROOT, open_cpu
from tests.support.swept import FOLDER, arrays, members

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))


def _sweep(name: str) -> Any:
    """A module of the sweep, which is no package: the criteria stand there once."""
    spec = importlib.util.spec_from_file_location(f"sweep_{name}", ROOT / "tools" / "sweep" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


JUDGE = _sweep("judge")


def models() -> list[Any]:
    """(archive, target) of every kept model; the names only need the list of members."""
    found = []
    for archive in ARCHIVES:
        with tarfile.open(archive) as tar:
            targets = sorted(n.removesuffix(".rknn") for n in tar.getnames() if n.endswith(".rknn"))
        case = archive.name.removesuffix(".tar.xz")
        found += [pytest.param(archive, target, id=f"{case}.{target}") for target in targets]
    return found


def opened(file: ModelFile, attributes: dict[str, Any]) -> Context:
    """The mini format leaves out some attributes; such a model is refused until the caller gives them."""
    try:
        return open_cpu(file)
    except ModelUnsupported as error:
        lacking = re.search(r"does not store the attributes of (\w+)", str(error))
        if lacking is None:
            raise
        return open_cpu(file, extra={"attributes": {lacking[1]: attributes[lacking[1]]}})


@pytest.mark.parametrize(("archive", "target"), models())
def test_as_the_simulator(archive: Path, target: str) -> None:
    wanted = arrays(archive, f"{target}.out")
    case = json.loads(members(archive)["case.json"])
    judge = JUDGE.Judge(case["judge"])
    with opened(ModelFile(members(archive)[f"{target}.rknn"]), case["attributes"]) as context:
        found = context.infer(arrays(archive, "in"))
        steps = [
            attr.quant.scale if attr.quant and not attr.dtype.is_float else None for attr in context.outputs
        ]
    assert len(found) == len(wanted) > 0
    for mine, simulated, step in zip(found, wanted, steps):
        assert mine.shape == simulated.shape
        verdict = JUDGE.compare(mine, simulated, step, target.endswith(".i8"), judge)
        assert verdict.matches, str(verdict)
