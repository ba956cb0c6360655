"""Installed packages: as ``importlib.metadata`` shows them without any being there, and by hand in a folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

__all__ = ["EntryPoint", "install"]


class EntryPoint:
    """A name, a value and something to load; an exception stands for a package that cannot be imported."""

    def __init__(self, name: str, plugin: Any) -> None:
        self.name, self.value, self._plugin = name, f"{name}_package", plugin

    def load(self) -> Any:
        if isinstance(self._plugin, BaseException):
            raise self._plugin
        return self._plugin


def install(package: Path, folder: Path) -> None:
    """What pip does for a package of one module: copies it, and writes down the entry point of its pyproject.toml."""
    text = (package / "pyproject.toml").read_text("utf-8")
    entry = re.search(r'^\[project\.entry-points\.rknnlite\]\n(\w+) = "(\w+)"$', text, re.MULTILINE)
    version = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    assert entry and version, f"{package.name} has no entry point or no version"
    name, module = entry.groups()
    shutil.copytree(package / module, folder / module)
    info = folder / f"{module}-{version[1]}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: {version[1]}\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[rknnlite]\n{name} = {module}\n", "utf-8")
