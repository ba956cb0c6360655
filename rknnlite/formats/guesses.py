"""Where a reader is not sure: facts that no file with the simulator's answer has had.

A container is read by what converted files have shown. A pattern that none of them had may mean what a neighbour of it means, or
not; so the reader goes on, and says so: one line per fact when the file is loaded, all of them with ``info --check``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..graph import Graph
from ..log import logger
from .register_map import Registers
from .verified import CONTROL_REGISTERS, SEEN

__all__ = ["about_container", "about_registers", "say", "text"]

_UNSEEN_CONTAINERS = (3, 5)
_NEWEST = (2, 5)
"""The newest toolkit whose files have been compared with the simulator."""
_VERSION = re.compile(r"(\d+)\.(\d+)")
_NAMED = 3


def about_container(container: int, toolkit: str) -> list[str]:
    """What is not verified of a file as a whole."""
    found = []
    if container in _UNSEEN_CONTAINERS:
        found.append(
            f"no file in container version {container} has been seen; it is read as its neighbours are"
        )
    version = _VERSION.match(toolkit)
    if version is not None and tuple(map(int, version.groups())) > _NEWEST:
        newest = ".".join(map(str, _NEWEST))
        found.append(
            f"it was made by toolkit {version.group()}; what is known about files was measured up to {newest}"
        )
    return found


def about_registers(family: str, registers: Registers) -> list[str]:
    """Control registers of a convolution with a value that no verified file has."""
    found = []
    for register, mask in CONTROL_REGISTERS.get(family, {}).items():
        value = registers.get(register)
        seen = SEEN[family][register]
        if value is None or value & mask in seen:
            continue
        bits = value & mask
        for known in seen:
            bits &= ~known
        more = f", its bits {bits:#x} in none" if bits else ""
        found.append(f"its register {register:#06x} holds {value:#x}, which no verified layer has{more}")
    return found


def say(graph: Graph, said: set[str]) -> None:
    """Log one line per fact that is not among ``said``, with the nodes that share it."""
    nodes: dict[str, list[str]] = {}
    for guess in graph.guesses:
        nodes.setdefault(guess.fact, []).append(guess.node)
    for fact, labels in nodes.items():
        if fact not in said:
            logger.warning("not verified: %s", text(fact, labels))
    said.update(nodes)


def text(fact: str, labels: Sequence[str]) -> str:
    """A fact with the nodes that share it (an empty label stands for the whole file)."""
    named = [label for label in labels[:_NAMED] if label]
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    what = f"node {', '.join(named)}{more}" if named else "the file"
    return f"{what}: {fact}"
