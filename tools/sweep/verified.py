"""Adds to rknnlite/formats/guesses.py: values of control registers that layers of compared files have.

    python tools/sweep/verified.py FOLDER_OR_FILE...

Give it tests/data, examples, and caches of sweeps whose results match the simulator; what a file has that is not in the table
is told when it is loaded.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile, guesses
from rknnlite.formats.builder import _Builder
from rknnlite.formats.flat_model import FlatModel
from rknnlite.formats.guesses import CONTROL_REGISTERS, SEEN
from rknnlite.formats.slots import RootSlot

_WIDTH = 120
_TABLE = Path(guesses.__file__)
_MARK = "SEEN: dict"


def _layers(model: FlatModel) -> Iterator[tuple[str, dict[int, int]]]:
    """(family word, registers) of every convolution on the NPU."""
    graphs = list(model.flat.tables(RootSlot.GRAPHS))
    for number, table in enumerate(graphs):
        graph = model.graph(number)
        program = _Builder(model, table, graphs[0], {}).program
        for node in graph.nodes:
            if node.on_npu and node.conv is not None:
                yield model.family, dict(program.first(node.index))


def _files(arguments: list[str]) -> Iterator[Path]:
    for path in map(Path, arguments):
        yield from sorted(path.rglob("*.rknn")) if path.is_dir() else [path]


def _text(seen: dict[str, dict[int, set[int]]]) -> str:
    lines = [f"{_MARK}[str, dict[int, frozenset[int]]] = {{"]
    for family, registers in seen.items():
        lines.append(f'    "{family}": {{')
        for register, values in registers.items():
            words = f"{register:#06x}: frozenset({{{', '.join(f'{value:#x}' for value in sorted(values))}}}),"
            lines += textwrap.wrap(words, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
        lines.append("    },")
    return "\n".join([*lines, "}  # fmt: skip", ""])


def main() -> None:
    """Read every file and write the table with what is new."""
    seen = {
        family: {register: set(values) for register, values in rows.items()} for family, rows in SEEN.items()
    }
    for path in _files(sys.argv[1:]):
        try:
            for family, registers in _layers(ModelFile(path).model):  # type: ignore[arg-type]
                for register, mask in CONTROL_REGISTERS[family].items():
                    if register in registers:
                        seen[family][register].add(registers[register] & mask)
        except ModelInvalid as error:
            print(f"{path}: {error}", file=sys.stderr)
    text = _TABLE.read_text()
    _TABLE.write_text(text[: text.index(_MARK)] + _text(seen))


if __name__ == "__main__":
    main()
