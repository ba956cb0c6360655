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
import time
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

__all__ = ["Command", "Console", "Exit", "Progress", "as_json"]


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

    Text is cleaned of control characters, because names come from model files and answers from models.

    Examples:
        >>> Console(json=True).report({"fps": 30.5}, "30.5 frames per second")
        {"fps": 30.5}
    """

    def __init__(self, json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json = json
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

    def report(self, data: Any, text: str = "") -> None:
        """The result: ``data`` as one line of JSON with ``--json``, else ``text``."""
        line = json.dumps(as_json(data), ensure_ascii=False, allow_nan=False) if self.json else clean(text)
        _write(self.out, line + "\n")

    def piece(self, text: str) -> None:
        """Part of a text that is still being made; nothing with ``--json``."""
        if not self.json:
            _write(self.out, clean(text))

    def note(self, text: str) -> None:
        """A remark beside the result, on stderr."""
        _write(self.err, f"rknnlite: {clean(text)}\n")

    def live(self, stream: TextIO) -> bool:
        """Whether lines on that stream can be written over."""
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal, 80 where nobody knows."""
        return max(20, shutil.get_terminal_size((80, 24)).columns)

    def progress(self, label: str, total: int) -> Progress:
        """A bar on stderr while a ``with`` block runs; nothing where stderr is no terminal."""
        return Progress(self, label, total)


class Progress:
    """A bar that is drawn at most ten times a second. ``step`` may be called from any thread.

    Examples:
        >>> with Console().progress("frames", total=10) as progress:
        ...     progress.step(5)
    """

    def __init__(self, console: Console, label: str, total: int) -> None:
        self._console, self._label, self._total = console, label, max(1, total)
        self._done = 0
        self._drawn = 0.0
        self._on = console.live(console.err)

    def step(self, count: int = 1) -> None:
        """So much more is done."""
        self._done += count
        now = time.monotonic()
        if self._on and now - self._drawn >= 0.1:
            self._drawn = now
            self._draw()

    def _draw(self) -> None:
        share = min(1.0, self._done / self._total)
        room = max(5, self._console.width - len(self._label) - 9)
        bar = "#" * int(share * room)
        _write(self._console.err, f"\r{self._label} [{bar:<{room}}] {100 * share:3.0f}%")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._on:
            _write(self._console.err, "\r" + " " * (self._console.width - 1) + "\r")


class Command(abc.ABC):
    """One command. A plugin registers an instance in ``rknnlite_register_commands``.

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
    """Complete command lines, shown by ``--help``."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027
        """Declare arguments; ``--json`` and ``--help`` are there already."""

    @abc.abstractmethod
    def run(self, args: argparse.Namespace, console: Console) -> int:
        """Do it and return an exit code. Give everything back on any exception, KeyboardInterrupt included."""


@functools.cache
def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def clean(text: str) -> str:
    """Control characters (but line feed and tab) as escapes: no text may drive the terminal."""
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode("ascii") if _steers(c) else c for c in text)


def _steers(char: str) -> bool:
    """Control characters, lone surrogates, and those that turn the direction of writing."""
    turns = "\u202a" <= char <= "\u202e" or "\u2066" <= char <= "\u2069"
    return char not in "\n\t" and (turns or unicodedata.category(char) in ("Cc", "Cs"))


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
