"""Grammars as llama.cpp writes them (GBNF), translated to those of the grammar library (Lark).

Every character becomes a terminal of its own. Longer terminals would be matched greedily, and the language would be
another one: ``[a-z]* "z"`` has no sentence then.
"""

from __future__ import annotations

import re
from typing import NoReturn, Optional

from ..errors import ParamInvalid

__all__ = ["lark_of_gbnf"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_BLANK, _BLANKS = re.compile(r"(?:[ \t]|#[^\r\n]*)*"), re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_COUNT = re.compile(r"\{\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}")
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([nrt"\\\[\]]))')
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_SURROGATES = range(0xD800, 0xE000)


def lark_of_gbnf(text: str) -> str:
    """The same grammar for Lark. Raises ParamInvalid with line and column."""
    try:
        return _Reader(text).grammar()
    except RecursionError:
        raise ParamInvalid("the grammar is nested too deeply") from None


class _Reader:
    """Reads rules from left to right; ``_names`` maps names to those of the rules written."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._names: dict[str, str] = {}
        self._used: dict[str, int] = {}

    def grammar(self) -> str:
        rules: dict[str, str] = {}
        self._skip(True)
        while self._at < len(self._text):
            at, name = self._at, self._name()
            self._skip()
            if not self._take("::="):
                self._wrong("::= is missing")
            self._skip(True)
            if name in rules:
                self._wrong(f"the rule {name} is there twice", at)
            rules[name] = self._alternatives(False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                self._wrong("this is no part of a rule")
            self._skip(True)
        for name, at in (*self._used.items(), ("root", 0)):
            if name not in rules:
                self._wrong(f"there is no rule {name}", at)
        lines = [f"{self._own(name)}: {body}" for name, body in rules.items()]
        return "\n".join([f"start: {self._own('root')}", *lines])

    def _own(self, name: str) -> str:
        return self._names.setdefault(name, f"r{len(self._names)}")

    def _alternatives(self, nested: bool) -> str:
        found = [self._sequence(nested)]
        while self._take("|"):
            self._skip(True)
            found.append(self._sequence(nested))
        return " | ".join(found)

    def _sequence(self, nested: bool) -> str:
        items: list[str] = []
        while True:
            item = self._item()
            if item is None:
                return " ".join(items) or '""'
            items.append(item + self._count())
            self._skip(nested)

    def _item(self) -> Optional[str]:
        """A literal, a class, a group or a rule's name; None when something else comes."""
        if self._take('"'):
            return self._literal()
        if self._take("["):
            return self._class()
        if self._take("."):
            return r"/[\x{0}-\x{10FFFF}]/"
        if self._take("("):
            self._skip(True)
            body = self._alternatives(True)
            if not self._take(")"):
                self._wrong(") is missing")
            return f"({body})"
        if _NAME.match(self._text, self._at):
            at, name = self._at, self._name()
            self._used.setdefault(name, at)
            return self._own(name)
        return None

    def _count(self) -> str:
        """How often the last item comes."""
        self._skip()
        for sign in "*+?":
            if self._take(sign):
                return sign
        match = _COUNT.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        low, comma, high = match.groups()
        if high is not None and int(high) < int(low):
            self._wrong("the second number is below the first")
        return f"{{{low},{high or ''}}}" if comma else f"{{{low}}}"

    def _literal(self) -> str:
        found = []
        while not self._take('"'):
            found.append(f"/{self._character()}/")
        return f"({' '.join(found)})" if found else '""'

    def _class(self) -> str:
        found = ["^"] if self._take("^") else []
        while not self._take("]"):
            first = self._character()
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                last = self._character()
                if int(last[3:-1], 16) < int(first[3:-1], 16):
                    self._wrong("the range ends before it begins")
                found.append(f"{first}-{last}")
            else:
                found.append(first)
        if found in ([], ["^"]):
            self._wrong("the class is empty")
        return f"/[{''.join(found)}]/"

    def _character(self) -> str:
        r"""The next character, as ``\x{...}``."""
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
        if code > 0x10FFFF or code in _SURROGATES:
            self._wrong("a character that is none", at)
        return f"\\x{{{code:X}}}"

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
