"""The vendor's wheels install files under our import names; whichever comes last hides part of the other.

Ours are Python only, theirs are compiled: a compiled module in our folder is theirs, and Python prefers it.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["compiled_modules", "refuse_mixture", "remedy"]


def compiled_modules(folder: str | Path) -> list[str]:
    """Names of the compiled modules in a folder, sorted; none when nobody has added any."""
    try:
        names = [file.name for file in Path(folder).iterdir()]
    except OSError:  # inside an archive
        return []
    return sorted(name for name in names if name.endswith((".so", *EXTENSION_SUFFIXES)))


def remedy(vendor: str) -> str:
    """What to do when both are installed."""
    python = Path(sys.executable).name or "python3"
    return f"{python} -m pip uninstall {vendor} rknnlite, then install rknnlite again"


def refuse_mixture(package: str, folder: str | Path, vendor: str) -> None:
    """Raise ImportError when a package of ours has compiled modules in its folder: half of it would be theirs."""
    names = compiled_modules(folder)
    if names:
        raise ImportError(
            f"{package} is mixed with the vendor's {vendor}: {folder} holds its {', '.join(names[:3])}"
            f"{' and more' if len(names) > 3 else ''}. Both are imported under this name. Run: {remedy(vendor)}"
        )
