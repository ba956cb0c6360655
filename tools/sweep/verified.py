"""Adds to plugins/rknnlite_graph/reading/unverified_facts.py what nodes of compared files have: control registers, words and switches.

    python tools/sweep/verified.py FOLDER_OR_FILE...

Give it tests/data, examples, and files of sweeps whose results match the simulator; what a file has that is not in the tables
is told when it is loaded.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rknnlite_graph.graph import Accumulator
from rknnlite_graph.reading import unverified_facts
from rknnlite_graph.reading.attributes import MINI_UNIONS, UNIONS, read_attributes
from rknnlite_graph.reading.builder import _Builder
from rknnlite_graph.reading.fused_ops import fused_op

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.flat_model import FlatModel
from rknnlite.formats.frame import MINI
from rknnlite.formats.slots import GraphSlot, NodePlace, NodeSlot, RootSlot

_WIDTH = 128
_TABLE = Path(unverified_facts.__file__)
_MARK = "SEEN: dict"
_CUSTOM = "cst"
_SILENT = ("InputOperator", "OutputOperator")
Values = dict[int, set[int]]


class Seen:
    """What the tables hold, and what is added."""

    def __init__(self) -> None:
        self.registers: dict[bool, dict[str, Values]] = {
            convolves: {
                family: {register: set(values) for register, values in table.get(family, {}).items()}
                for family in unverified_facts.CONTROL_REGISTERS
            }
            for convolves, table in ((True, unverified_facts.SEEN), (False, unverified_facts.SEEN_ELSEWHERE))
        }
        self.words: dict[str, dict[str, set[Any]]] = {
            op: {name: set(values) for name, values in names.items()}
            for op, names in unverified_facts.WORDS.items()
        }
        self.words.update({op: {} for op in unverified_facts.WORDLESS})

    def add(self, model: FlatModel) -> None:
        """All nodes of a file. Raises ModelInvalid."""
        graphs = list(model.flat.tables(RootSlot.GRAPHS))
        unions = MINI_UNIONS if model.container == MINI else UNIONS
        for graph in graphs:
            program = _Builder(model, graph, graphs[0], {}).program
            for index, node in enumerate(graph.tables(GraphSlot.NODES)):
                op = "" if node.empty else node.string(NodeSlot.TYPE)
                if not op or op in _SILENT:
                    continue
                fused = fused_op(op)
                convolves = fused is not None and fused.convolves
                if node.i8(NodeSlot.PLACE) == NodePlace.NPU:
                    self._add_registers(model.family, convolves, dict(program.first(index)))
                attrs = read_attributes(
                    node, op, node.i8(NodeSlot.UNION_CODE), node.table(NodeSlot.UNION), unions
                )
                if fused is not None and fused.accumulator is not Accumulator.OPERAND:
                    op = fused.accumulator.value
                if not op.startswith(_CUSTOM):
                    self._add_words(op, attrs)

    def _add_registers(self, family: str, convolves: bool, registers: dict[int, int]) -> None:
        for register, mask in {
            **unverified_facts.CONTROL_REGISTERS[family],
            **unverified_facts._OF_ALL,
        }.items():
            if register in registers:
                values = self.registers[convolves][family].setdefault(register, set())
                values.add(registers[register] & mask)

    def _add_words(self, op: str, attrs: dict[str, Any]) -> None:
        words = self.words.setdefault(op, {})
        for name, value in attrs.items():
            if name in unverified_facts._FREE or name in unverified_facts.NUMBERS:
                continue
            if isinstance(value, str) or name in unverified_facts.SWITCHES:
                words.setdefault(name, set()).add(value)
            else:
                words.setdefault(name, set())

    def text(self) -> str:
        """The end of the module."""
        lines = [
            f"{_MARK}[str, dict[int, tuple[int, ...]]] = {{",
            *_registers(self.registers[True]),
            "}  # fmt: skip",
        ]
        lines += ['"""NPU family -> register -> values in convolutions."""']
        lines += [
            "SEEN_ELSEWHERE: dict[str, dict[int, tuple[int, ...]]] = {",
            *_registers(self.registers[False]),
        ]
        lines += ["}  # fmt: skip", '"""The same of all other nodes: pooling, sums, products, tables."""']
        lines += ["WORDS: dict[str, dict[str, tuple[Any, ...]]] = {"]
        for op, names in sorted(self.words.items()):
            if not names:
                continue
            pairs = ", ".join(f'"{name}": {_tuple(sorted(values))}' for name, values in sorted(names.items()))
            lines += _wrapped(f'"{op}": {{{pairs}}},', 4)
        lines += [
            "}  # fmt: skip",
            '"""Type of nodes -> attribute -> its values, as far as those are words or switches."""',
        ]
        plain = ", ".join(f'"{op}"' for op, names in sorted(self.words.items()) if not names)
        lines += [
            "WORDLESS = frozenset({",
            *_wrapped(plain, 4),
            "})  # fmt: skip",
            '"""Types without."""',
            "",
        ]
        return "\n".join(lines)


def _registers(tables: dict[str, Values]) -> Iterator[str]:
    for family, registers in tables.items():
        yield f'    "{family}": {{'
        for register, values in sorted(registers.items()):
            yield from _wrapped(
                f"{register:#06x}: ({', '.join(f'{value:#x}' for value in sorted(values))},),", 8
            )
        yield "    },"


def _tuple(values: list[Any]) -> str:
    words = [f'"{value}"' if isinstance(value, str) else repr(value) for value in values]
    return f"({', '.join(words)}{',' * (len(words) == 1)})"


def _wrapped(words: str, indent: int) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4),
        break_long_words=False,
    )


def _files(arguments: list[str]) -> Iterator[Path]:
    for path in map(Path, arguments):
        yield from sorted(path.rglob("*.rknn")) if path.is_dir() else [path]


def main() -> None:
    """Read every file and write the tables with what is new."""
    seen = Seen()
    for path in _files(sys.argv[1:]):
        try:
            seen.add(ModelFile(path).model)  # type: ignore[arg-type]
        except ModelInvalid as error:
            print(f"{path}: {error}", file=sys.stderr)
    text = _TABLE.read_text()
    _TABLE.write_text(text[: text.index(_MARK)] + seen.text())


if __name__ == "__main__":
    main()
