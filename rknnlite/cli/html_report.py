"""A report as one HTML file: tables and bars, no script, nothing fetched from anywhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from .._version import __version__
from ..files.writing import write_text

__all__ = ["Bar", "HtmlReport"]

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100%; font-size: 12px }
th { text-align: left; border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff }
td, th { padding: 2px 8px; vertical-align: top } tr:nth-child(even) td { background: #f6f6f6 }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.t { white-space: nowrap }
.b { display: inline-block; height: 0.8em; background: #3a7ca5; vertical-align: baseline }
p.s { color: #666; font-size: 12px }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd } th { background: #1b1b1b } tr:nth-child(even) td { background: #242424 }
}
"""


_BAR = 7.0  # width of a whole, in em


@dataclass(frozen=True)
class Bar:
    """A cell that shows a share of a whole as a bar beside its text; ``share`` from 0 to 1."""

    text: str
    share: float


Cell = Union[str, int, float, None, Bar]


@dataclass
class HtmlReport:
    """Title, facts, and any number of tables."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    _parts: list[str] = field(default_factory=list)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Add a table; all text is escaped."""
        columns = zip(*rows) if rows else [()] * len(headers)
        head = "".join(map(_head, headers, columns))
        body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
        self._parts.append(f"<h2>{html.escape(title)}</h2>\n<table><tr>{head}</tr>\n{body}\n</table>")

    def __str__(self) -> str:
        title = html.escape(self.title)
        facts = "".join(f"<li>{html.escape(name)}: {html.escape(value)}</li>" for name, value in self.facts)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n<ul>{facts}</ul>\n"
            + "\n".join(self._parts)
            + f'\n<p class="s">rknnlite {html.escape(__version__)}</p></body></html>\n'
        )

    def write(self, path: Path) -> None:
        """Write the file; raises OSError."""
        write_text(path, str(self))


def _head(header: str, cells: Sequence[Cell]) -> str:
    """Above a column, to the right where that holds numbers."""
    numbers = cells and all(value is None or isinstance(value, (int, float)) for value in cells)
    return f'<th class="n">{html.escape(header)}</th>' if numbers else f"<th>{html.escape(header)}</th>"


def _cell(value: Cell) -> str:
    if value is None:
        return '<td class="n"></td>'
    if isinstance(value, Bar):
        width = _BAR * min(1.0, max(0.0, value.share))
        bar = f'<span class="b" style="width:{width:.1f}em"></span>'
        return f'<td class="t">{bar} {html.escape(value.text)}</td>'
    if isinstance(value, (int, float)):
        return (
            f'<td class="n">{value:.5g}</td>' if isinstance(value, float) else f'<td class="n">{value}</td>'
        )
    return f"<td>{html.escape(value)}</td>"
