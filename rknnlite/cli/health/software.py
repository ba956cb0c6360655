"""What is installed, and the settings in force."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ... import config
from ..._faces import vendor_files
from ..._version import __version__
from ...extras import EXTRAS
from ...native.processors import machine
from ...spi.finding import Finding, Level

__all__ = ["configuration", "extras", "packages"]

_CORE = Path(__file__).parents[2]

_WRONG = "correct that line; 'key: value', keys as in docs/configuration.md"
_UNREADABLE = (
    "give this user the right to read it, or set HOME (sudo may keep another user's: sudo -H), "
    "or RKNNLITE_CONFIG= for none"
)


def packages() -> Iterator[Finding]:
    """The vendor's wheel, this package, Python, and extras."""
    topic = "software"
    yield from _vendor_wheel(topic)
    versions = f"rknnlite {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    yield Finding(topic, Level.OK, f"{versions}, {machine()}, {_CORE}")
    yield from extras()
    yield from _compiler(topic)


def _compiler(topic: str) -> Iterator[Finding]:
    """Whether helper libraries can be built."""
    name = os.environ.get("CC") or "cc"
    if shutil.which(name) is None:
        text = f"no C compiler ({name}): numpy multiplies the weights of language models on the CPU, several times slower"
        yield Finding(topic, Level.INFO, text, "if you need it: sudo apt install gcc libc6-dev")


def extras() -> Iterator[Finding]:
    """Optional packages that are not installed."""
    for extra in EXTRAS.values():
        lacking = extra.lacking
        if lacking:
            text = f"extra {extra.name} ({extra.purpose}): not installed: {', '.join(lacking)}"
            yield Finding("software", Level.INFO, text, f"if you need it: {extra.remedy}")


def _vendor_wheel(topic: str) -> Iterator[Finding]:
    """The vendor's wheel beside this package: a failure where its files lie among ours or have replaced them."""
    mixed = vendor_files.mixture()
    vendor = vendor_files.vendor_wheel()
    if mixed:
        yield Finding(topic, Level.FAIL, *mixed)
    elif vendor:
        text = f"the vendor's {vendor} is installed beside this package; both are imported as rknnlite, and files of one "
        yield Finding(topic, Level.WARN, f"{text}may hide those of the other", vendor_files.remedy(vendor))


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
    for section in config.SECTIONS.values():
        for name, entry in config.entries(section.name).items():
            told = ", ".join(f"{key} {_told(section, key, value)}" for key, value in entry.items())
            yield Finding(topic, Level.OK, f"{section.name}.{name}: {told or 'empty'} (from {file})")


def _told(section: config.Section, key: str, value: str) -> str:
    return "set, not shown" if key in section.secret else repr(value)
