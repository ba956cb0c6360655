#!/usr/bin/env python3
"""The public surface, one name a line, sorted:

    tools/release/public_names.py            # compares the tree with public_names.txt
    tools/release/public_names.py --write    # writes public_names.txt

What it lists is what 1.0 promises (docs/stability.md): names of ``__all__`` with members and parameters, hooks, commands,
the version of the contracts and of file formats. Everything is read from the source, so that the list is the same on every
Python and without optional packages. A parameter with a default ends in ``=``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from rknnlite.cli.program import BUILT_IN  # noqa: E402
from rknnlite.extras import OWN_PLUGINS  # noqa: E402
from tools.release.source_names import Module, described, value_of  # noqa: E402

LIST = Path(__file__).with_suffix(".txt")
ROOMS = (
    "rknnlite", "rknnlite.abi", "rknnlite.api", "rknnlite.api.custom_op", "rknnlite.errors", "rknnlite.layout", "rknnlite.matmul",
    "rknnlite.pool", "rknnlite.quant", "rknnlite.rknn3", "rknnlite.spi", "rknnlite.spi.command", "rknnlite.spi.finding",
    "rknnlite.spi.inspection", "rknnlite.spi.llm", "rknnlite.spi.matmul", "rknnlite.tensor", "rknnlite_backend.perf",
    "rknnlite_backend.running", "rknnlite_insight.dumps", "rknnlite_insight.one_node", "rknnlite_llm.constraints",
    "rknnlite_llm.streaming", "rknnlite_server.control", "rknnlite_server.settings",
)  # fmt: skip
"""Modules whose ``__all__`` is promised, beside that of each library; ``rknn3lite.api`` is ``rknnlite.rknn3``."""
FORMATS = {
    "dump of tensors": ("rknnlite_insight.dumps", "_VERSION"),
    "package of a language model": ("rknnlite_llm.container.description", "_VERSIONS"),
}
"""Files that rknnlite writes and later versions go on reading, and the constant with their version."""


def lines() -> list[str]:
    """The surface of this tree."""
    return sorted({*names(), *hooks(), *commands(), *contracts(), *formats()})


def names() -> Iterator[str]:
    """Names of ``__all__``, members of classes, parameters of functions."""
    libraries = (folder.parent.name for folder in (ROOT / "plugins").glob("rknnlite_*/__init__.py"))
    for room in {*ROOMS, *libraries}:
        module = Module.of(room)
        for name in module.public():
            yield from described(f"{room}.{name}", module, name)


def hooks() -> Iterator[str]:
    """Hooks and what they get."""
    module = Module.of("rknnlite.hookspecs")
    for name in module.names:
        if name.startswith("rknnlite_"):
            yield from described(f"hook {name}", module, name)


def commands() -> Iterator[str]:
    """Words of the command line."""
    for word in {*BUILT_IN, *(word for plugin in OWN_PLUGINS.values() for word in plugin.commands)}:
        yield f"command {word}"


def contracts() -> Iterator[str]:
    """What plugins name as the contracts that they implement."""
    yield f"contract {value_of(Module.of('rknnlite.spi'), 'CONTRACT')}"


def formats() -> Iterator[str]:
    """Versions of files: those that are read."""
    for what, (room, name) in FORMATS.items():
        versions = value_of(Module.of(room), name)
        for version in versions if isinstance(versions, tuple) else (versions,):
            yield f"format {what} {version}"


def verdict(listed: list[str], found: list[str]) -> str:
    """What became of the surface, and what to do; empty where the list is true."""
    gone, new = sorted(set(listed) - set(found)), sorted(set(found) - set(listed))
    told = []
    if gone:
        told.append(
            "removed, or with other parameters; programs use it: deprecate it first and keep it (docs/stability.md):\n  "
            + "\n  ".join(gone)
        )
    if new:
        told.append(
            "new; tools/release/public_names.py --write adds it to tools/release/public_names.txt:\n  "
            + "\n  ".join(new)
        )
    return "\n".join(told)


def main() -> None:
    """Compare, or write."""
    if sys.argv[1:] == ["--write"]:
        LIST.write_text("\n".join(lines()) + "\n", "utf-8")
        return
    if sys.argv[1:]:
        sys.exit(f"{Path(sys.argv[0]).name} knows --write alone, not {' '.join(sys.argv[1:])}")
    listed = LIST.read_text("utf-8").splitlines() if LIST.exists() else []
    sys.exit(verdict(listed, lines()) or None)


if __name__ == "__main__":
    main()
