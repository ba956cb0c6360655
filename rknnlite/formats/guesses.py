"""Where a reader is not sure: facts that no file with the simulator's answer has had.

A container is read by what converted files have shown. A pattern that none of them had may mean what a neighbour of it means, or
not; so the reader goes on, and says so: one line per fact when the file is loaded, all of them with ``info --check``.

Control registers say what the output stage does with an accumulator: which operands it reads per channel, which of its units
work. They hold no sizes and no numbers of a network, so a few values occur again and again: those of the table at the end, to
which ``tools/sweep/verified.py`` adds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..graph import Graph
from ..log import logger
from .register_map import Registers

__all__ = ["CONTROL_REGISTERS", "SEEN", "about_container", "about_registers", "say", "text"]

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


# -- what verified layers have ------------------------------------------------------------------------------

_ALL = 0xFFFFFFFF
_V1 = dict.fromkeys((16448, 16480, 16496, 20508, 20520, 20532), _ALL)
_V2 = dict.fromkeys((16464, 16480, 16508, 20508, 20520, 20532), _ALL)
_T3 = dict.fromkeys((16464, 16480, 16496, 20508, 20520, 20532), _ALL)
_W1 = {0x4030: _ALL, 0x404C: 0xF00FFFFF, 0x501C: _ALL, 0x5034: _ALL}  # bits 27:20 of 404c are a shift

CONTROL_REGISTERS: Final = {
    "RKNPU v2": _V1, "RKNPU lite": _V1, "RKNPU t4": _V2, "RKNPU f2": _V2, "RKNPU f3": _V2, "RKNPU t3": _T3,
    "RKNPU w1": _W1,
}  # fmt: skip
"""NPU family -> register -> the bits of it that count."""
SEEN: dict[str, dict[int, frozenset[int]]] = {
    "RKNPU v2": {
        0x4040: frozenset({0x53, 0x20140, 0x20150}),
        0x4060: frozenset({0x12, 0x40, 0x42, 0x53, 0x62, 0x92, 0x20040, 0x20090}),
        0x4070: frozenset({0x302, 0x383, 0x10020380, 0x108001c4, 0x108200c0, 0x108202c0, 0x804202c0, 0x904000c4,
            0x904002c4, 0x904200c0, 0x904202c0}),
        0x501c: frozenset({0x0, 0x2, 0xe}),
        0x5028: frozenset({0x0, 0x8}),
        0x5034: frozenset({0x1, 0x4, 0x40000004, 0x40000008}),
    },
    "RKNPU lite": {
        0x4040: frozenset({0x53, 0x148, 0x158}),
        0x4060: frozenset({0x12, 0x42, 0x48, 0x53, 0x62, 0x92, 0x98}),
        0x4070: frozenset({0x302, 0x383, 0x100000c4, 0x10000390, 0x900000c4, 0x900000d0, 0x900002c4, 0x900002d0}),
        0x501c: frozenset({0x2, 0xe}),
        0x5028: frozenset({0x1, 0x8}),
        0x5034: frozenset({0x1, 0x40000000, 0x40000004}),
    },
    "RKNPU t4": {
        0x4050: frozenset({0x0, 0x1, 0x2, 0x124, 0x125, 0x126}),
        0x4060: frozenset({0x2, 0x12, 0x13, 0x22, 0x20000, 0x20010}),
        0x407c: frozenset({0x241c0, 0x2c0c0, 0x1004140, 0x1004194, 0x10041c1, 0x8002c0c0, 0x81004094}),
        0x501c: frozenset({0x2, 0xa, 0xe}),
        0x5028: frozenset({0x0, 0x8}),
        0x5034: frozenset({0x1, 0x8, 0x40000004, 0x40000008}),
    },
    "RKNPU f2": {
        0x4050: frozenset({0x1011, 0x1111, 0x3033, 0x3133, 0x13033, 0x13133, 0x13233, 0x13333, 0x21011, 0x21111,
            0x23033, 0x23133, 0x23233, 0x23333, 0x80001011, 0x80011011, 0x80011111, 0x80021011, 0x80021111}),
        0x4060: frozenset({0x2, 0x20, 0x402, 0x602, 0x820, 0x902, 0x903, 0x920, 0xa02, 0xc02, 0xe02}),
        0x407c: frozenset({0x241c0, 0x2c0c0, 0x1004140, 0x10041c1, 0x10f4194, 0x8002c0c0, 0x810f4094}),
        0x501c: frozenset({0x0, 0x10, 0x100, 0x108, 0x110, 0x114, 0x118, 0x11c, 0x510, 0x710}),
        0x5028: frozenset({0x0, 0x2, 0x8, 0xa, 0x18, 0x1a, 0x400, 0x410}),
        0x5034: frozenset({0x1, 0x41, 0x50000044, 0x50000048, 0x70000044}),
    },
    "RKNPU f3": {
        0x4050: frozenset({0x1011, 0x1111, 0x3033, 0x3133, 0x13033, 0x13133, 0x13233, 0x21011, 0x21111, 0x23033,
            0x23133, 0x23233, 0x23333, 0x80001011, 0x80011011, 0x80011111, 0x80021011, 0x80021111}),
        0x4060: frozenset({0x2, 0x20, 0x402, 0x602, 0x902, 0x903, 0x920, 0xa02, 0xc02}),
        0x407c: frozenset({0x241c0, 0x1004140, 0x10041c1, 0x10f4194, 0x8002c0c0, 0x810f4094}),
        0x501c: frozenset({0x0, 0x10, 0x100, 0x108, 0x110, 0x114, 0x118, 0x11c, 0x510, 0x710}),
        0x5028: frozenset({0x0, 0x2, 0x8, 0x18, 0x1a, 0x400, 0x410}),
        0x5034: frozenset({0x1, 0x41, 0x50000044, 0x50000048, 0x70000044}),
    },
    "RKNPU t3": {
        0x4050: frozenset({0x30000000, 0x30000001, 0x30000002, 0x70000124, 0x70000125, 0x70000126}),
        0x4060: frozenset({0x2, 0x12, 0x13, 0x22, 0x20000, 0x20010}),
        0x4070: frozenset({0x4140, 0x1004140, 0x10041c1, 0x8002c0c0, 0x81004094}),
        0x501c: frozenset({0x2, 0xa, 0xe}),
        0x5028: frozenset({0x0, 0x8}),
        0x5034: frozenset({0x1, 0x40000004}),
    },
    "RKNPU w1": {
        0x4030: frozenset({0x40020042, 0x40020062, 0x400200c2}),
        0x404c: frozenset({0x1000480e, 0x1000480f, 0x10004c0a, 0x1002480c, 0x2002481c, 0x20024928}),
        0x501c: frozenset({0x1, 0x3, 0xb}),
        0x5034: frozenset({0x1, 0x40000004}),
    },
}  # fmt: skip
