"""Plans of files of ours."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import Submission, plan

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, EXAMPLES, genuine

BASES = Bases(weight=0x1000_0000, internal=0x2000_0000, task=0x3000_0000)
RESNET = EXAMPLES / "resnet18"

SOCS = (
    "rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rv1126b", "rv1103", "rv1106", "rv1103b", "rv1106b",
)  # fmt: skip


@functools.cache
def planned(name: str, pixels: bool = False) -> Submission:
    """A file of the corpus by its stem, at addresses that nobody else has."""
    path = RESNET / f"{name}.rknn" if name.startswith("resnet18_for") else genuine(name)
    return plan(ModelFile(path).model, BASES, pixels)


def plans_of(soc: str) -> Iterator[tuple[str, Submission]]:
    """Every file for a SoC whose commands reach the NPU in a known way."""
    for path in sorted([*DATA.glob(f"*.{soc}.*.rknn"), *EXAMPLES.glob(f"*/*_{soc.upper()}.rknn")]):
        found = _plan(path)
        if found is not None:
            yield path.stem, found


def _plan(path: Path) -> Submission | None:
    if path.stem.startswith("removed"):  # has no weights
        return None
    try:
        return plan(ModelFile(path).model, BASES)
    except ModelUnsupported:  # several graphs
        return None
