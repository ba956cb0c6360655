"""Finds plugins and collects what they offer. Our own plugins come in by the same door as anybody's."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pluggy

from . import hookspecs
from .errors import BackendUnavailable
from .log import logger
from .spi import Backend, CustomOp

__all__ = ["backend", "backends", "custom_ops", "manager", "problems"]

GROUP = "rknnlite"


class _Manager(pluggy.PluginManager):
    """pluggy's manager plus the plugins that could not be loaded, by name."""

    def __init__(self) -> None:
        super().__init__(GROUP)
        self.problems: dict[str, str] = {}


@functools.lru_cache(maxsize=None)
def manager() -> _Manager:
    """The one plugin manager; entry points are loaded on the first call.

    ``RKNNLITE_DISABLE`` (comma separated names) leaves plugins out. One that cannot be imported is named in
    a warning and skipped; the others work.
    """
    plugins = _Manager()
    plugins.add_hookspecs(hookspecs)
    disabled = {name.strip() for name in os.environ.get("RKNNLITE_DISABLE", "").split(",") if name.strip()}
    for entry in _entry_points():
        if entry.name in disabled:
            plugins.problems[entry.name] = "switched off by RKNNLITE_DISABLE"
            continue
        if plugins.has_plugin(entry.name):
            continue
        try:
            plugins.register(entry.load(), name=entry.name)
        except Exception as error:
            plugins.problems[entry.name] = f"{type(error).__name__}: {error}"
            logger.warning("plugin %s (%s) could not be loaded and is skipped: %s", entry.name, entry.value, error)
    return plugins


def _entry_points() -> list[metadata.EntryPoint]:
    found = metadata.entry_points()
    if hasattr(found, "select"):
        return list(found.select(group=GROUP))
    return list(found.get(GROUP, []))  # Python 3.9


def problems() -> dict[str, str]:
    """Plugins that are not there, with the reason."""
    return dict(manager().problems)


def _collect(hook: str) -> list[Any]:
    things: list[Any] = []
    call: Callable[..., Any] = getattr(manager().hook, hook)
    call(register=things.append)
    return things


@functools.lru_cache(maxsize=None)
def backends() -> dict[str, Backend]:
    """All backends by name."""
    return {backend.name: backend for backend in _collect("rknnlite_register_backends")}


def backend(name: str) -> Backend:
    """The backend of that name; raises BackendUnavailable saying which there are and what went wrong."""
    try:
        return backends()[name]
    except KeyError:
        known = ", ".join(sorted(backends())) or "none"
        missing = "".join(f"; plugin {n}: {why}" for n, why in sorted(problems().items()))
        raise BackendUnavailable(f"no backend named {name!r}; there are: {known}{missing}") from None


def custom_ops() -> list[CustomOp]:
    """Custom operators offered by plugins."""
    return _collect("rknnlite_register_custom_ops")
