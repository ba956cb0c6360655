"""Which platforms there are, and which of them can run a model file."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

from .. import socs
from ..formats import ModelFile

__all__ = ["chip_families", "model_platforms"]


def chip_families() -> list[tuple[int, list[str]]]:
    """``(number, [SoC names in upper case])`` per chip family, e.g. ``(2, ["RK3566", "RK3568"])``."""
    families: dict[int, list[str]] = {}
    for soc in socs.table().values():
        if soc.chip_family:
            families.setdefault(soc.chip_family, []).append(soc.name.upper())
    return [(number, sorted(names)) for number, names in sorted(families.items())]


def model_platforms(path: str | os.PathLike[str]) -> OrderedDict[str, list[str]]:
    """What a model file was made for and what can run it; no runtime is needed.

    Returns:
        ``filled_target_platform`` (lower case, from the file) and ``support_target_platform`` (upper case).

    Raises:
        ModelInvalid: the file is not a model.
    """
    filled = [name.lower() for name in ModelFile(Path(os.fsdecode(path))).model.platforms]
    runs = [soc.name.upper() for soc in socs.table().values() if set(soc.accepts) & set(filled)]
    return OrderedDict(filled_target_platform=filled, support_target_platform=sorted(runs))
