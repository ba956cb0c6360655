"""What a command of ``rknnlite`` is, for our own and those of plugins: the contract, its output, its exit codes."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import enum
import functools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..errors import paragraph, visible
from .progress import Progress, clear_bars
from .terminal import Column, Line, Part, Table, Tone, bytes_text, render

__all__ = [
    "CORE_COMMANDS",
    "Column",
    "Command",
    "Console",
    "Exit",
    "Line",
    "Part",
    "Progress",
    "Table",
    "Tone",
    "as_json",
    "bytes_text",
    "lacking",
]


CORE_COMMANDS = ("info", "run", "doctor", "devices", "plugins")
"""Commands of everybody; all others come from plugins."""


class Exit(enum.IntEnum):
    """Exit codes of ``rknnlite``.

    Examples:
        >>> Exit.USAGE.value
        2
    """

    OK = 0
    FAILED = 1
    """The command ran into an error that has no code of its own."""
    USAGE = 2
    """Wrong arguments, or a value that is not legal."""
    MODEL = 3
    """The model cannot be used: no model, damaged, not supported, for another SoC."""
    UNAVAILABLE = 4
    """No backend, device, library or extra to do it with."""
    DATA = 5
    """Inputs do not fit the model, or cannot be read."""
    BELOW = 6
    """The result misses what was asked for, e.g. ``compare --min-cosine``."""
    INTERRUPTED = 130
    """Ctrl-C."""


class Console:
    """Where a command writes: results to stdout as text or as JSON, everything else to stderr.

    Text is cleaned of control characters, because names come from model files and answers from models. ``painter`` makes what
    paints on a terminal of so many columns; None where there is nothing that does.

    Examples:
        >>> Console(json=True).report({"fps": 30.5}, "30.5 frames per second")
        {"fps": 30.5}
    """

    def __init__(
        self,
        json: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
        painter: Callable[[int], Any] | None = None,
    ) -> None:
        self.json = json
        self._make_painter = painter
        self._out = out
        self._err = err

    @property
    def out(self) -> TextIO:
        """stdout; where it is closed, nowhere."""
        return self._out or sys.stdout or _nowhere()

    @property
    def err(self) -> TextIO:
        """stderr, likewise."""
        return self._err or sys.stderr or _nowhere()

    def report(self, data: Any, *parts: Part) -> None:
        """The result: ``data`` as one line of JSON with ``--json``, else the parts: text, lines and tables."""
        clear_bars()
        line = (
            json.dumps(as_json(data), ensure_ascii=False, allow_nan=False) if self.json else self._text(parts)
        )
        _write(self.out, line + "\n")

    def _text(self, parts: tuple[Part, ...]) -> str:
        return render(parts, self.room, self._painter(self.out))

    def piece(self, text: str) -> None:
        """Part of a text that is still being made; nothing with ``--json``."""
        if not self.json:
            _write(self.out, visible(text))

    def note(self, text: str) -> None:
        """A remark beside the result, on stderr."""
        clear_bars()
        _write(self.err, f"rknnlite: {paragraph(text)}\n")

    def live(self, stream: TextIO) -> bool:
        """Whether lines on that stream can be written over."""
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal, 80 where nobody knows."""
        return max(20, shutil.get_terminal_size((80, 24)).columns)

    @property
    def room(self) -> int | None:
        """Columns for a result; None where stdout is no terminal: then nothing is shortened or left out."""
        return self.width if self.out.isatty() else None

    def _painter(self, stream: TextIO) -> Any:
        """What paints, on a terminal that can and for a user who does not object (NO_COLOR)."""
        if self._make_painter is None or not self.live(stream) or os.environ.get("NO_COLOR"):
            return None
        return self._make_painter(self.width)

    def progress(self, label: str, total: int = 0) -> Progress:
        """A bar on stderr while a ``with`` block runs for more than two seconds; nothing where stderr is no terminal."""
        live = self.live(self.err)
        return Progress(
            (lambda text: _write(self.err, text)) if live else None,
            lambda: self.width,
            label,
            total,
            self._painter(self.err) if live else None,
        )


class Command(abc.ABC):
    """One command. A plugin registers an instance in ``rknnlite_register_commands``; one without name or help is refused.

    ``--json``, ``--help`` and errors are taken care of: an ``RknnError`` becomes a line on stderr and the exit code
    of its kind.

    Examples:
        >>> class Hello(Command):
        ...     name = "hello"
        ...     help = "greet somebody"
        ...     def arguments(self, parser):
        ...         parser.add_argument("who")
        ...     def run(self, args, console):
        ...         console.report({"hello": args.who}, f"hello {args.who}")
        ...         return Exit.OK
        >>> Hello().run(argparse.Namespace(who="board"), Console())
        hello board
        <Exit.OK: 0>
    """

    name: str = ""
    """The word after ``rknnlite``."""
    help: str = ""
    """One line for the list of commands."""
    examples: tuple[str, ...] = ()
    """Complete command lines, shown by ``--help``; the first is the commonest use."""
    common: tuple[str, ...] = ()
    """The options that ``--help`` lists, the others being left to ``--help-all``; all where it is empty."""
    rest: bool = False
    """The words behind ``--``, or else from the first that is no option, are those of another program: they are in
    ``args.rest`` as they were given."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027
        """Declare arguments; ``--json`` and ``--help`` are there already."""

    @abc.abstractmethod
    def run(self, args: argparse.Namespace, console: Console) -> int:
        """Do it and return an exit code. Give everything back on any exception, KeyboardInterrupt included."""


def lacking(thing: Any) -> str:
    """What a thing lacks that a plugin registered as a command; empty for one that can be taken."""
    if not isinstance(thing, Command):
        return "it is no Command"
    for field, what in (("name", "the word after rknnlite"), ("help", "one line for the list of commands")):
        value = getattr(thing, field)
        if not isinstance(value, str) or not value.strip():
            return f"it has no {field}; give its class {field} = ..., {what}"
    return ""


@functools.cache
def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that knows ASCII only
        stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))
    stream.flush()


def as_json(value: Any) -> Any:
    """What JSON can hold: dataclasses and named tuples as objects, arrays as lists, paths and enumerations as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [as_json(item) for item in value]
    return value
