"""How results look on a terminal: lines and tables as wide as it is, painted by ``rich`` where that is installed.

Where nobody looks (a pipe, a file) there is no width and no paint: everything is there, in plain text.
"""

from __future__ import annotations

import enum
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from ..errors import one_line, visible

__all__ = ["Column", "Line", "Part", "Table", "Tone", "bytes_text", "render", "shortened", "width_of"]

_GAP = "  "
_MARK = "…"


class Tone(enum.Enum):
    """What a line is there for; the styles are those of ``rich``.

    Examples:
        >>> Tone.BAD.value
        'bold red'
    """

    PLAIN = ""
    HEAD = "bold"
    QUIET = "dim"
    GOOD = "bold green"
    WARN = "bold yellow"
    BAD = "bold red"


@dataclass(frozen=True)
class Line:
    """One line of text; where it is too long for a terminal it goes on below, ``hang`` columns to the right.

    Examples:
        >>> Line("one two three", hang=2).lines(8)
        ['one two', '  three']
    """

    text: str
    tone: Tone = Tone.PLAIN
    hang: int = 0

    def lines(self, room: Optional[int]) -> list[str]:
        """The text in lines of at most ``room`` columns; None: one line."""
        if room is None or width_of(self.text) <= room:
            return [self.text]
        return textwrap.wrap(
            self.text,
            room,
            subsequent_indent=" " * min(self.hang, room // 2),
            break_on_hyphens=False,
            break_long_words=True,
            drop_whitespace=True,
        )


@dataclass(frozen=True)
class Column:
    """A column of a table. One with ``least`` may be shortened to so many columns; the one with the highest ``drop`` is
    left out first where that is not enough, one with 0 stays.

    Examples:
        >>> Column("time (us)", right=True, drop=1).head
        'time (us)'
    """

    head: str
    right: bool = False
    least: int = 0
    drop: int = 0


@dataclass(frozen=True)
class Table:
    """Columns as wide as their widest cell, two blanks between them, and narrower where the terminal is.

    Args:
        columns: what stands in a row.
        rows: as many cells each.
        empty: what a cell without data holds; a column of nothing else is left out (None: all columns stay).
        last: so many rows at the end are sums, which a terminal shows behind a rule.

    Examples:
        >>> Table([Column("layer"), Column("us", right=True)], [["conv", "12"]]).lines(None)
        ['layer  us', 'conv   12']
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    empty: Optional[str] = None
    last: int = 0

    def fitted(self, room: Optional[int]) -> Fitted:
        """What of the table there is room for."""
        cells = [[one_line(cell) for cell in row] for row in self.rows]
        kept = [i for i in range(len(self.columns)) if not self._is_empty(i)]
        whole = {
            i: max(width_of(text) for text in (self.columns[i].head, *(r[i] for r in cells))) for i in kept
        }
        widths = whole if room is None else _with_room(whole, self.columns, room)
        dropped = set(whole) - set(widths)
        columns = [self.columns[i] for i in widths]
        rows = [[shortened(row[i], width) for i, width in widths.items()] for row in cells]
        left_out = [self.columns[i].head for i in sorted(dropped)]
        return Fitted(columns, rows, list(widths.values()), left_out, self.last)

    def _is_empty(self, index: int) -> bool:
        return self.empty is not None and all(row[index] in ("", self.empty) for row in self.rows)

    def lines(self, room: Optional[int]) -> list[str]:
        """The table as plain text of at most ``room`` columns; None: as wide as it is."""
        return self.fitted(room).lines(room)


@dataclass(frozen=True)
class Fitted:
    """A table with the columns, cells and widths that there is room for; ``left_out`` are heads of the others."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    widths: Sequence[int]
    left_out: Sequence[str]
    last: int

    def lines(self, room: Optional[int]) -> list[str]:
        """Head, rows, and what was left out, as plain text."""
        head = self._line([shortened(column.head, width) for column, width in zip(self.columns, self.widths)])
        rows = [self._line(row) for row in self.rows]
        if self.last and room is not None and len(rows) > self.last:
            rows.insert(-self.last, "-" * (sum(self.widths) + len(_GAP) * (len(self.widths) - 1)))
        cut = [line if room is None else line[:room] for line in (head, *rows)]
        return [*cut, *(line for note in self.notes for line in note.lines(room))]

    @property
    def notes(self) -> list[Line]:
        """Which columns this terminal has no room for."""
        if not self.left_out:
            return []
        return [Line(f"(no room for: {', '.join(dict.fromkeys(self.left_out))})", Tone.QUIET, 1)]

    def _line(self, cells: Sequence[str]) -> str:
        placed = [_placed(*one) for one in zip(cells, self.columns, self.widths)]
        return _GAP.join(placed).rstrip()


Part = Union[str, Line, Table]


def _placed(cell: str, column: Column, width: int) -> str:
    blanks = " " * (width - width_of(cell))
    return blanks + cell if column.right else cell + blanks


def _with_room(whole: dict[int, int], columns: Sequence[Column], room: int) -> dict[int, int]:
    """Widths of the columns that there is room for: the least important ones go, and come back where smaller ones can."""
    kept, out = dict(whole), []
    while _shrunk(kept, columns, room) is None:
        least = max(kept, key=lambda i: (columns[i].drop, i))
        if not columns[least].drop:
            return kept  # nothing more can go: lines are cut
        out.append(least)
        del kept[least]
    for back in reversed(out):
        more = {i: width for i, width in whole.items() if i in kept or i == back}
        kept = kept if _shrunk(more, columns, room) is None else more
    return _shrunk(kept, columns, room) or kept


def _shrunk(whole: dict[int, int], columns: Sequence[Column], room: int) -> Optional[dict[int, int]]:
    """Widths once the columns that may be shortened are, the widest first; None where that is not enough."""
    widths = dict(whole)
    excess = sum(widths.values()) + len(_GAP) * (len(widths) - 1) - room
    least = {i: max(columns[i].least, width_of(columns[i].head)) for i in widths if columns[i].least}
    if excess > sum(max(0, widths[i] - few) for i, few in least.items()):
        return None
    for _ in range(max(0, excess)):
        widest = max((i for i, few in least.items() if widths[i] > few), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def width_of(text: str) -> int:
    """Columns that a text takes: wide characters two, those that combine none."""
    if text.isascii():
        return len(text)
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shortened(text: str, width: int) -> str:
    """The text in so many columns: where it is longer the middle is left out, as names differ at their ends."""
    if width_of(text) <= width:
        return text
    tail = (width - 1) * 3 // 5
    return _first(text, width - 1 - tail) + _MARK + _first(text[::-1], tail)[::-1]


def _first(text: str, width: int) -> str:
    taken, used = [], 0
    for char in text:
        used += _width(char)
        if used > width:
            break
        taken.append(char)
    return "".join(taken)


def render(parts: Iterable[Part], room: Optional[int] = None, paint: Any = None) -> str:
    """The text of all parts, plain, or painted by a ``rknnlite_pages.rich_terminal.Painter``."""
    if paint is not None:
        painted: str = paint.render(parts)
        return painted
    lines: list[str] = []
    for part in parts:
        lines += [visible(part)] if isinstance(part, str) else [visible(line) for line in part.lines(room)]
    return "\n".join(lines)


def bytes_text(count: int) -> str:
    """A number of bytes, in MiB too where there are many.

    Examples:
        >>> bytes_text(3 << 20)
        '3145728 bytes, 3.00 MiB'
    """
    return f"{count} bytes" + (f", {count / 2**20:.2f} MiB" if count >= 2**20 else "")
