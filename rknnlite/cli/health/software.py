"""What is installed, and the settings in force."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np

from ... import config
from ..._faces import vendor_files
from ..._version import __version__
from ...extras import EXTRAS
from .finding import Finding, Level

__all__ = ["configuration", "extras", "packages"]

_CORE = Path(__file__).parents[2]
_VENDOR = ("rknn-toolkit-lite2", "rknn_toolkit_lite2")
"""The names under which the vendor's wheel is known to pip."""
_COMPANION = "rknnlite-companion"
"""Keyword of our own distribution of that name (tools/companion)."""

_WRONG = "correct that line; 'key: value', keys as in docs/configuration.md"
_UNREADABLE = (
    "give this user the right to read it, or set HOME (sudo may keep another user's: sudo -H), "
    "or RKNNLITE_CONFIG= for none"
)


def packages() -> Iterator[Finding]:
    """This package, Python, extras, and the vendor's wheel."""
    topic = "software"
    versions = f"rknnlite {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    yield Finding(topic, Level.OK, f"{versions}, {platform.machine()}, {_CORE}")
    yield from _vendor_wheel(topic)
    yield from extras()


def extras() -> Iterator[Finding]:
    """Optional packages that are not installed."""
    for extra in EXTRAS.values():
        lacking = extra.lacking
        if lacking:
            text = f"extra {extra.name} ({extra.purpose}): not installed: {', '.join(lacking)}"
            yield Finding("software", Level.INFO, text, f"if you need it: {extra.remedy}")


def _vendor_wheel(topic: str) -> Iterator[Finding]:
    """The vendor's wheel beside this package: a failure where its files have replaced ours."""
    compiled = vendor_files.compiled_modules(_CORE / "api")
    replaced = getattr(sys.modules["rknnlite"], "__version__", None) != __version__
    vendor = next((name for name in _VENDOR if _installed(name)), None)
    if vendor is None and not compiled and not replaced:
        return
    vendor, broken = vendor or _VENDOR[0], bool(compiled or replaced)
    text = f"the vendor's {vendor} is installed beside this package; both are imported as rknnlite, and files of one "
    text += ": ".join(["hide those of the other" if broken else "may hide those of the other", *compiled[:1]])
    yield Finding(topic, Level.FAIL if broken else Level.WARN, text, vendor_files.remedy(vendor))


def _installed(name: str) -> bool:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return _COMPANION not in (found.metadata["Keywords"] or "")


def _missing(file: Path) -> str:
    """What the name of the configuration file is followed by: nothing where it is there."""
    try:
        return "" if file.is_file() else " (not there)"
    except OSError:  # a folder above it is closed to this user
        return " (cannot be read)"


def _closed(file: Path) -> bool:
    """Whether this user may not read the file; a file that is not there is none of those."""
    try:
        file.open("rb").close()
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def configuration() -> Iterator[Finding]:
    """The settings in force and where they come from."""
    topic, file = "configuration", config.path()
    yield Finding(topic, Level.OK, f"file: {file}{_missing(file)}" if file else "file: switched off")
    remedy = _UNREADABLE if file and _closed(file) else _WRONG
    for problem in config.problems():
        yield Finding(topic, Level.WARN, problem, remedy)
    for setting in config.settings():
        if setting.value is not None:
            yield Finding(topic, Level.OK, f"{setting.key.name} = {setting.value!r} (from {setting.source})")
