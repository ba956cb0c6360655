"""Tables of the documentation as files of data, which docs/assets/tables.js shows with a search and filters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["CASE_COLUMNS", "CASE_FILTERS", "DataTable", "assets", "merged", "read", "write"]

CASE_COLUMNS = ("case", "operators", "SoC", "type", "result", "difference", "remark", "container")
"""Of the table that tools/sweep and tools/sweep1 make together."""
CASE_FILTERS = ("operators", "SoC", "type", "container", "result")

_HEAD = (
    "// {title}\n// Columns, those with a select box, then a row a line. docs/assets/tables.js shows it.\n"
)
_BEGIN, _END = "table(", ")\n"


class DataTable(NamedTuple):
    """What a file holds. A cell is text; ``", "`` divides several values of a cell in a filtered column."""

    columns: Sequence[str]
    filters: Sequence[str]
    rows: Sequence[Sequence[str]]


def assets(page: Path, name: str) -> Path:
    """The file of a table of a page: ``docs/assets/PAGE-NAME.js``."""
    return page.parent / "assets" / f"{page.stem}-{name}.js"


def write(path: Path, title: str, table: DataTable) -> None:
    """Write a table: the same rows give the same bytes."""
    columns, filters = (json.dumps(list(names), ensure_ascii=False) for names in table[:2])
    rows = ",\n".join(json.dumps([str(cell) for cell in row], ensure_ascii=False) for row in table.rows)
    text = f"{_HEAD.format(title=title)}{_BEGIN}{columns}, {filters}, [\n{rows}\n]{_END}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def read(path: Path) -> DataTable:
    """What :func:`write` wrote."""
    _, _, text = path.read_text(encoding="utf-8").partition(_BEGIN)
    return DataTable(*json.loads(f"[{text.removesuffix(_END)}]"))


def merged(rows: Iterable[Mapping[str, Any]], column: str) -> list[list[str]]:
    """Rows that differ in one column alone become one, with all its values."""
    groups: dict[tuple[str, ...], tuple[Mapping[str, Any], list[str]]] = {}
    for row in rows:
        key = tuple(str(value) for name, value in row.items() if name != column)
        groups.setdefault(key, (row, []))[1].append(str(row[column]))
    return [
        [", ".join(values) if name == column else str(value) for name, value in row.items()]
        for row, values in groups.values()
    ]
