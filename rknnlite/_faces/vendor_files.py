"""The vendor's wheels install files under our import names; whichever comes last hides part of the other.

Ours are Python only, theirs are compiled: a compiled module in our folder is theirs, and Python prefers it. Where theirs came
last, the two ``__init__`` are theirs, too; but Python prefers a package to a module of the same name, so that
``rknnlite/api/rknn_lite/`` is still found by ``from .rknn_lite import RKNNLite`` in their ``__init__`` and can refuse.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["compiled_modules", "mixture", "refuse_mixture", "remedy", "replaced", "vendor_wheel"]

_NAMES = ("rknn-toolkit-lite2", "rknn_toolkit_lite2", "rknn-toolkit-lite", "rknn_toolkit_lite")
"""Names under which wheels that are imported as ours are known to pip."""
_COMPANION = "rknnlite-companion"
"""Keyword of our own distribution of that name (tools/companion)."""
_CORE = Path(__file__).parents[1]


def compiled_modules(folder: str | Path) -> list[str]:
    """Names of the compiled modules in a folder, sorted; none when nobody has added any."""
    try:
        names = [file.name for file in Path(folder).iterdir()]
    except OSError:  # inside an archive
        return []
    return sorted(name for name in names if name.endswith((".so", *EXTENSION_SUFFIXES)))


def replaced() -> str | None:
    """What has become of our ``rknnlite/__init__.py``: ``"replaced"`` by another, ``"missing"``; None where it is in force."""
    package = sys.modules["rknnlite"]
    if hasattr(package, "__version__"):
        return None
    return "replaced" if getattr(package, "__file__", None) else "missing"


def vendor_wheel() -> str | None:
    """The name of the vendor's wheel where one is installed; a namesake of ours without files is none."""
    from importlib import metadata

    for name in _NAMES:
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if _COMPANION not in (found.metadata["Keywords"] or ""):
            return name
    return None


def remedy(vendor: str) -> str:
    """What to do when both are installed."""
    python = Path(sys.executable).name or "python3"
    return f"{python} -m pip uninstall {vendor} rknnlite, then install rknnlite again"


def mixture() -> tuple[str, str] | None:
    """What is wrong and the remedy, where ``rknnlite.api`` is not all ours; None where it is."""
    names, fate = compiled_modules(_CORE / "api"), replaced()
    if not names and fate is None:
        return None
    vendor = vendor_wheel() or _NAMES[0]
    if fate == "missing":
        text = (
            f"{_CORE / '__init__.py'} is missing: the vendor's {vendor}, which has a file of that name, "
            "was installed after rknnlite and removed"
        )
    else:
        text = (
            f"rknnlite.api is mixed with the vendor's {vendor}: both are imported as rknnlite, and in {_CORE} "
            f"files of one hide those of the other: {', '.join(names[:3] or ['__init__.py'])}"
            f"{' and more' if len(names) > 3 else ''}"
        )
    return text, remedy(vendor)


def refuse_mixture() -> None:
    """Raise ImportError when ``rknnlite.api`` is not all ours: half of it would be theirs."""
    mixed = mixture()
    if mixed:
        text, what_to_do = mixed
        raise ImportError(f"{text}. Run: {what_to_do}")
