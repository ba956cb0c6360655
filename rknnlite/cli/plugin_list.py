"""``rknnlite plugins``: the plugins that are installed, what each offers, and what went wrong with it."""

from __future__ import annotations

import argparse

from .. import plugins
from ..spi.command import Column, Command, Console, Exit, Table
from .installed_plugins import Installed, installed
from .plugin_probe import leave_out_what_crashes

__all__ = ["COMMAND"]


class Plugins(Command):
    """See the module."""

    name = "plugins"
    help = "installed plugins, what they offer, what is wrong with them"
    examples = ("rknnlite plugins", "RKNNLITE_DISABLE=opencl rknnlite plugins")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        with console.progress("plugins"):
            leave_out_what_crashes()
            found = installed()
        rows = [
            [entry.name, f"{entry.package} {entry.version}".strip() or "-", _offered(entry)]
            for entry in found
        ]
        columns = (Column("plugin"), Column("package", least=12, drop=1), Column("offers", least=20))
        console.report(found, Table(columns, rows))
        return Exit.OK


def _offered(entry: Installed) -> str:
    parts = [f"{kind}: {', '.join(names)}" for kind, names in entry.offers.items() if names]
    if entry.problem:
        known = entry.problem.startswith(plugins.NOT_INSTALLED)  # nobody has asked for it
        parts.append(entry.problem if known else f"PROBLEM: {entry.problem}")
    return "; ".join(parts) or "nothing"


COMMAND = Plugins()
