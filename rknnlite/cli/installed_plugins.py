"""The plugins that are installed: what each offers, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from .. import plugins
from ..spi.custom_op import by_type

__all__ = ["Installed", "installed"]

_HOOKS = {
    "rknnlite_register_backends": "backends",
    "rknnlite_register_custom_ops": "custom operators",
    "rknnlite_register_op_hosts": "operator hosts",
    "rknnlite_register_commands": "commands",
}


@dataclass(frozen=True)
class Installed:
    """One plugin: the package that brings it, the things it offers by kind, and a problem or none."""

    name: str
    package: str
    version: str
    offers: dict[str, list[str]] = field(default_factory=dict)
    problem: str = ""


def installed() -> list[Installed]:
    """All plugins, by name. Every hook is called, so that one that fails is noticed."""
    offers: dict[str, dict[str, list[str]]] = {}
    for hook, kind in _HOOKS.items():
        found = list(plugins.offers(hook))
        for name, things in found:
            offers.setdefault(name, {})[kind] = [word for word in map(_word, things) if word]
        if hook == "rknnlite_register_custom_ops":
            by_type(found)  # notes types that are offered twice
    for collected in (plugins.backends, plugins.op_hosts, plugins.commands):
        collected()  # notes names that are taken
    problems, packages = plugins.problems(), _packages()
    names = sorted({*offers, *problems, *packages})
    return [
        Installed(name, *packages.get(name, ("", "")), offers.get(name, {}), problems.get(name, ""))
        for name in names
    ]


def _word(thing: Any) -> str:
    """Its name; "" for what has none and is told as a problem."""
    return str(getattr(thing, "name", None) or getattr(thing, "op_type", None) or "")


def _packages() -> dict[str, tuple[str, str]]:
    found = {}
    for distribution in metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group == plugins.GROUP:
                found[entry.name] = (str(distribution.metadata["Name"]), str(distribution.version))
    return found
