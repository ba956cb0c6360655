"""``rknnlite plugins``: the plugins that are installed, what each offers, and what went wrong with it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from .. import plugins
from ..spi.command import Command, Console, Exit
from ..spi.perf import grid

__all__ = ["COMMAND", "Installed", "installed"]

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
        for name, things in plugins.offers(hook):
            offers.setdefault(name, {})[kind] = [_word(thing) for thing in things]
    problems, packages = plugins.problems(), _packages()
    names = sorted({*offers, *problems, *packages})
    return [
        Installed(name, *packages.get(name, ("", "")), offers.get(name, {}), problems.get(name, ""))
        for name in names
    ]


def _word(thing: Any) -> str:
    return str(getattr(thing, "name", None) or getattr(thing, "op_type", None) or type(thing).__name__)


def _packages() -> dict[str, tuple[str, str]]:
    found = {}
    for distribution in metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group == plugins.GROUP:
                found[entry.name] = (str(distribution.metadata["Name"]), str(distribution.version))
    return found


class Plugins(Command):
    """See the module."""

    name = "plugins"
    help = "installed plugins, what they offer, and what is wrong with them"
    examples = ("rknnlite plugins", "RKNNLITE_DISABLE=opencl rknnlite plugins")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        found = installed()
        rows = [
            [entry.name, f"{entry.package} {entry.version}".strip() or "-", _offered(entry)]
            for entry in found
        ]
        console.report(found, "\n".join(grid(("plugin", "package", "offers"), rows)))
        return Exit.OK


def _offered(entry: Installed) -> str:
    parts = [f"{kind}: {', '.join(names)}" for kind, names in entry.offers.items() if names]
    return "; ".join([*parts, *([f"PROBLEM: {entry.problem}"] if entry.problem else [])]) or "nothing"


COMMAND = Plugins()
