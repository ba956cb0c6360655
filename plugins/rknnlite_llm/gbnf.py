"""Grammars as llama.cpp writes them (GBNF), read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, Optional, Union

from rknnlite.errors import ParamInvalid

__all__ = ["Alternatives", "Characters", "Node", "Reference", "Repeated", "Sequence", "joined", "read_gbnf"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_BLANK, _BLANKS = re.compile(r"(?:[ \t]|#[^\r\n]*)*"), re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_COUNT = re.compile(r"\{\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}")
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([nrt"\\\[\]]))')
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_SURROGATES = range(0xD800, 0xE000)
_LAST = 0x10FFFF
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class Characters:
    """One of these characters: ranges of code points, ends included, in order."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Alternatives:
    """One of them."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeated:
    """Again and again; ``most`` None: without end."""

    item: Node
    least: int
    most: Optional[int]


@dataclass(frozen=True)
class Reference:
    """What a rule says."""

    name: str


Node = Union[Characters, Sequence, Alternatives, Repeated, Reference]


_MOST_DEPTH = 50
"""Brackets inside each other; each takes several calls of whoever walks through a rule."""


def read_gbnf(text: str) -> dict[str, Node]:
    """The rules by name, one of them ``root``. Raises ParamInvalid with line and column."""
    return _Reader(text).rules()


class _Reader:
    """Reads rules from left to right; ``_used`` says where a name was met first."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._used: dict[str, int] = {}

    def rules(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        self._skip(True)
        while self._at < len(self._text):
            at, name = self._at, self._name()
            self._skip()
            if not self._take("::="):
                self._wrong("::= is missing")
            self._skip(True)
            if name in found:
                self._wrong(f"the rule {name} is there twice", at)
            found[name] = self._alternatives(False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._wrong("this is no part of a rule")
            self._skip(True)
        for name, at in (*self._used.items(), ("root", 0)):
            if name not in found:
                self._wrong(f"there is no rule {name}", at)
        return found

    def _alternatives(self, nested: bool) -> Node:
        found = [self._sequence(nested)]
        while self._take("|"):
            self._skip(True)
            found.append(self._sequence(nested))
        return found[0] if len(found) == 1 else Alternatives(tuple(found))

    def _sequence(self, nested: bool) -> Node:
        items: list[Node] = []
        while True:
            item = self._item()
            if item is None:
                return items[0] if len(items) == 1 else Sequence(tuple(items))
            items.append(self._counted(item))
            self._skip(nested)

    def _item(self) -> Optional[Node]:
        """A literal, a class, a group or a rule's name; None when something else comes."""
        if self._take('"'):
            return self._literal()
        if self._take("["):
            return self._class()
        if self._take("."):
            return Characters(((0, _LAST),))
        if self._take("("):
            self._depth += 1
            if self._depth > _MOST_DEPTH:
                self._wrong(f"brackets are nested too deeply, more than {_MOST_DEPTH}")
            self._skip(True)
            body = self._alternatives(True)
            if not self._take(")"):
                self._wrong(") is missing")
            self._depth -= 1
            return body
        if _NAME.match(self._text, self._at):
            at, name = self._at, self._name()
            self._used.setdefault(name, at)
            return Reference(name)
        return None

    def _counted(self, item: Node) -> Node:
        """With what says how often it comes."""
        self._skip()
        for sign, (least, most) in _SIGNS.items():
            if self._take(sign):
                return Repeated(item, least, most)
        match = _COUNT.match(self._text, self._at)
        if match is None:
            return item
        self._at = match.end()
        low, comma, high = match.groups()
        if high is not None and int(high) < int(low):
            self._wrong("the second number is below the first")
        return Repeated(item, int(low), (int(high) if high else None) if comma else int(low))

    def _literal(self) -> Node:
        found: list[Node] = []
        while not self._take('"'):
            code = self._character()
            found.append(Characters(((code, code),)))
        return found[0] if len(found) == 1 else Sequence(tuple(found))

    def _class(self) -> Node:
        others, found = self._take("^"), []
        while not self._take("]"):
            first = last = self._character()
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                last = self._character()
                if last < first:
                    self._wrong("the range ends before it begins")
            found.append((first, last))
        ranges = joined(found)
        ranges = _complement(ranges) if others and found else ranges
        if not ranges:
            self._wrong("the class is empty")
        return Characters(ranges)

    def _character(self) -> int:
        """The next character."""
        text, at = self._text, self._at
        if at >= len(text) or text[at] in "\r\n":
            self._wrong("the line ends within quotes or brackets")
        match = _ESCAPE.match(text, at)
        if match is not None:
            self._at = match.end()
            digits = match[1] or match[2] or match[3]
            code = int(digits, 16) if digits else ord(_LETTERS.get(match[4], match[4]))
        elif text[at] == "\\":
            self._wrong("an escape that is none")
        else:
            self._at, code = at + 1, ord(text[at])
        if code > _LAST or code in _SURROGATES:
            self._wrong("a character that is none", at)
        return code

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            self._wrong("a rule's name is missing")
        self._at = match.end()
        return match.group()

    def _skip(self, lines: bool = False) -> None:
        """Pass over blanks and comments, with ``lines`` over ends of lines, too."""
        match = (_BLANKS if lines else _BLANK).match(self._text, self._at)
        self._at = match.end() if match is not None else self._at

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _wrong(self, why: str, at: Optional[int] = None) -> NoReturn:
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        raise ParamInvalid(f"line {line}, column {column}: {why}")


def joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """In order, without overlaps."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _complement(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _LAST]
    return tuple((start, end) for start, end in zip(starts, ends) if start <= end)
