"""The library that came with the wheel."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Optional

from rknnlite.files.reading import read_text
from rknnlite.native.processors import features, machine

from . import recipe

__all__ = ["prebuilt"]


@functools.cache
def prebuilt() -> Optional[Path]:
    """The one for this processor, where there is one that is made of the sources that lie here."""
    folder = recipe.FOLDER / f"{machine()}-linux-gnu"
    variants = recipe.fitting(machine(), features().split())
    file = next((file for each in variants if (file := folder / f"{each.name}.so").is_file()), None)
    try:
        made_of = read_text(folder / recipe.MADE_OF) if file else ""
    except (OSError, ValueError):
        return None
    return file if made_of.strip() == recipe.digest() else None
