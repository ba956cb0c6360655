"""What pyproject.toml and debian/ say about the distribution."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "DEBIAN",
    "ROOT",
    "extras",
    "fields",
    "installed_by",
    "package_data",
    "relation",
    "requirements",
    "table",
]

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "debian"
PLACE = "usr/lib/python3*/dist-packages/"


def table(name: str) -> dict[str, Any]:
    """A table of pyproject.toml; skips the test where Python has no reader of TOML (3.9, 3.10)."""
    if sys.version_info < (3, 11):
        pytest.skip(
            "pyproject.toml is read with tomllib, which came with Python 3.11", allow_module_level=True
        )
    import tomllib

    value: Any = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for key in name.split("."):
        value = value[key]
    return dict(value)


def extras() -> dict[str, list[str]]:
    """The extras of the wheel and what they require."""
    return table("project.optional-dependencies")


def package_data() -> dict[str, list[str]]:
    """Patterns of the files that lie beside the modules, by package."""
    return table("tool.setuptools.package-data")


def requirements(lines: list[str]) -> dict[str, str]:
    """``["numpy>=1.24"]`` -> ``{"numpy": "1.24"}``."""
    found = [re.fullmatch(r"([\w.-]+)>=([\d.]+)", line) for line in lines]
    return {match.group(1): match.group(2) for match in found if match}


def fields() -> dict[str, dict[str, str]]:
    """The fields of debian/control per binary package; those of the source package under ``source``."""
    paragraphs = {}
    for text in (DEBIAN / "control").read_text("utf-8").strip().split("\n\n"):
        lines = [line.partition(":") for line in re.split(r"\n(?=\S)", text)]
        pairs = {key: value.strip() for key, _, value in lines}
        paragraphs[pairs.get("Package", "source")] = pairs
    return paragraphs


def relation(text: str) -> dict[str, str]:
    """``python3-numpy (>= 1:1.24), a | b`` -> lowest version (without epoch, or empty) by name, alternatives too."""
    entries = [entry.strip() for entry in re.split(r"[,|]", text)]
    found = [re.match(r"(\S+)(?: \(>= (?:\d+:)?([\d.]+)\))?", entry) for entry in entries if entry]
    return {match.group(1): match.group(2) or "" for match in found if match}


def installed_by() -> dict[str, list[str]]:
    """Per thing in dist-packages (``rknnlite_cpu``) the Debian packages that install it."""
    found: dict[str, list[str]] = {}
    for file in sorted(DEBIAN.glob("*.install")):
        for line in file.read_text("utf-8").splitlines():
            source = line.split()[0]
            if source.startswith(PLACE):
                found.setdefault(source[len(PLACE) :], []).append(file.stem)
    return found
