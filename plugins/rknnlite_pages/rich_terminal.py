"""The same lines and tables with colours, by ``rich``; imported on a terminal only."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.text import Text

from rknnlite.errors import visible
from rknnlite.spi.terminal import Fitted, Line, Part, Table, Tone

__all__ = ["Painter"]

_WORDS = {
    "ok": "green",
    "yes": "green",
    "info": "dim",
    "no": "dim",
    "warn": "bold yellow",
    "FAIL": "bold red",
    "\\": "dim",
    "-": "dim",
}
"""Cells and first words that have a colour of their own."""


class Painter:
    """Text with escape sequences for a terminal of ``room`` columns."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._text = io.StringIO()
        self._console = Console(
            file=self._text,
            force_terminal=True,
            width=room,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def render(self, parts: Iterable[Part]) -> str:
        """All parts; no line feed at the end."""
        lines: list[Text] = []
        for part in parts:
            lines += self._lines(part)
        return "\n".join(map(self._painted, lines))

    def bar(self, done: float, total: float, width: int) -> str:
        """A bar of so many columns."""
        self._console.print(ProgressBar(total=total, completed=done, width=width), end="")
        return self._taken().rstrip("\n")

    def _lines(self, part: Part) -> list[Text]:
        if isinstance(part, str):
            return [_first_word(line) for line in visible(part).split("\n")]
        if isinstance(part, Line):
            if part.tone is Tone.PLAIN:
                return [_first_word(visible(line)) for line in part.lines(self._room)]
            return [Text(visible(line), part.tone.value) for line in part.lines(self._room)]
        assert isinstance(part, Table)
        return self._table(part.fitted(self._room))

    def _table(self, table: Fitted) -> list[Text]:
        head, *rest = [Text(line) for line in table.lines(self._room)]
        head.stylize(Tone.HEAD.value)
        notes = sum(len(note.lines(self._room)) for note in table.notes)
        for number, line in enumerate(rest):
            if number >= len(rest) - notes or set(line.plain) == {"-"}:
                line.stylize(Tone.QUIET.value)
                continue
            _stylize_words(line)
        return [head, *rest]

    def _painted(self, line: Text) -> str:
        self._console.print(line, end="", soft_wrap=True)
        return self._taken()

    def _taken(self) -> str:
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return text


def _first_word(line: str) -> Text:
    """A line whose first word may say how things are."""
    text, word = Text(line), line.split(" ", 1)[0]
    if word in _WORDS and line[len(word) :].startswith("  "):
        text.stylize(_WORDS[word], 0, len(word))
    return text


def _stylize_words(line: Text) -> None:
    start = 0
    for cell in line.plain.split("  "):
        style = _WORDS.get(cell.strip())
        if style:
            line.stylize(style, start, start + len(cell))
        start += len(cell) + 2
