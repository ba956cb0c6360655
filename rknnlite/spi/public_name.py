"""A name that a library offers as ``rknnlite.NAME``, and those that its package hands on from its modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["PublicName", "late_names"]


class PublicName(NamedTuple):
    """``rknnlite.name`` is what the module ``module`` calls so; it is imported when the name is first used."""

    name: str
    module: str


def late_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """``__getattr__`` of a package: a module is imported when a program uses one of its names; every start passes the package.

    Args:
        package: its ``__name__``.
        modules: the names of each of its modules that the package hands on.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f".{homes[name]}", package), name)

    return find
