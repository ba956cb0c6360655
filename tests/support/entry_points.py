"""Installed packages as ``importlib.metadata`` shows them, without installing any."""

from __future__ import annotations

from typing import Any

__all__ = ["EntryPoint"]


class EntryPoint:
    """A name, a value and something to load; an exception stands for a package that cannot be imported."""

    def __init__(self, name: str, plugin: Any) -> None:
        self.name, self.value, self._plugin = name, f"{name}_package", plugin

    def load(self) -> Any:
        if isinstance(self._plugin, BaseException):
            raise self._plugin
        return self._plugin
