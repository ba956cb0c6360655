"""JSON as it is being written: followed character by character, handed on as it comes."""

from __future__ import annotations

import json
import re
from typing import Callable

from rknnlite.files.json_text import parse_json

from .answer_parts import NoCall, Parts
from .incremental_text import IncrementalText, Reading

__all__ = ["JsonFollower", "call_arguments", "json_string", "json_value"]

_SPACE = " \t\r\n"
_WORD = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPES = '"\\/bfnrtu'
_CLOSERS = {"{": "}", "[": "]"}


class JsonFollower:
    """One JSON value. ``done`` when it is complete; control characters in texts, which JSON forbids, are escaped."""

    def __init__(self) -> None:
        self.done = False
        self._open: list[str] = []
        self._want = self._value
        self._word = ""
        self._hex = 0
        self._key = False

    def follow(self, char: str) -> str | None:
        """The character as it goes on; None when it is no longer part of the value. Raises NoCall for bad JSON."""
        return self._want(char)

    def _value(self, char: str) -> str | None:
        if char in _SPACE:
            return char
        if char == '"':
            self._want = self._text
        elif char in _CLOSERS:
            self._open.append(char)
            self._want = self._first_key if char == "{" else self._first_item
        elif char.isascii() and (char.isalnum() or char == "-"):
            self._word, self._want = char, self._scalar
        else:
            raise NoCall
        return char

    def _first_item(self, char: str) -> str | None:
        return self._close(char) if char == "]" else self._value(char)

    def _first_key(self, char: str) -> str | None:
        return self._close(char) if char == "}" else self._next_key(char)

    def _next_key(self, char: str) -> str | None:
        if char in _SPACE:
            return char
        if char != '"':
            raise NoCall
        self._key, self._want = True, self._text
        return char

    def _colon(self, char: str) -> str | None:
        if char == ":":
            self._want = self._value
        elif char not in _SPACE:
            raise NoCall
        return char

    def _behind(self, char: str) -> str | None:
        """Behind a value within an object or list."""
        if char == ",":
            self._want = self._next_key if self._open[-1] == "{" else self._value
            return char
        return char if char in _SPACE else self._close(char)

    def _close(self, char: str) -> str:
        if char != _CLOSERS[self._open[-1]]:
            raise NoCall
        self._open.pop()
        self._complete()
        return char

    def _complete(self) -> None:
        self.done, self._want = not self._open, self._behind

    def _text(self, char: str) -> str | None:
        if char == "\\":
            self._want = self._escape
        elif char == '"':
            if self._key:
                self._key, self._want = False, self._colon
            else:
                self._complete()
        elif char < " ":
            return json.dumps(char)[1:-1]
        return char

    def _escape(self, char: str) -> str | None:
        if char not in _ESCAPES:
            raise NoCall
        self._hex, self._want = (4, self._digit) if char == "u" else (0, self._text)
        return char

    def _digit(self, char: str) -> str | None:
        if char not in "0123456789abcdefABCDEF":
            raise NoCall
        self._hex -= 1
        if not self._hex:
            self._want = self._text
        return char

    def _scalar(self, char: str) -> str | None:
        if char.isascii() and (char.isalnum() or char in "+-."):
            self._word += char
            return char
        if not _WORD.fullmatch(self._word):
            raise NoCall
        self._complete()
        return None if self.done else self._behind(char)


def json_value(source: IncrementalText, take: Callable[[str], None]) -> Reading[None]:
    """Read one value and hand its text over as it comes. Raises NoCall at bad JSON, which is not taken."""
    follower = JsonFollower()
    while not follower.done:
        char = yield from source.peek()
        if not char:
            raise NoCall
        pieces = []
        try:
            while not follower.done and source.at < len(source.data):
                piece = follower.follow(source.data[source.at])
                if piece is None:
                    break
                pieces.append(piece)
                source.at += 1
        finally:
            take("".join(pieces))


def json_string(source: IncrementalText) -> Reading[str]:
    """Read a text; raises NoCall."""
    yield from source.blank()
    yield from source.expect('"')
    source.at -= 1
    pieces: list[str] = []
    yield from json_value(source, pieces.append)
    return str(parse_json("".join(pieces)))


def call_arguments(
    source: IncrementalText, parts: Parts, name: str, closers: tuple[str, ...] = ()
) -> Reading[bool]:
    """Read arguments: an object, an object in a text, or null. The call begins where the object begins like one.

    JSON that breaks later goes on as the model wrote it, up to a closing marker: False. Raises NoCall before that.
    """
    yield from source.blank()
    char = yield from source.peek()
    if char != "{":
        parts_of = yield from _quoted(source)
        parts.call(name)
        parts.arguments(parts_of)
        return True
    start = source.at
    source.at += 1
    yield from source.blank()
    if (yield from source.peek()) not in ('"', "}"):
        raise NoCall
    source.at = start
    parts.call(name)
    try:
        yield from json_value(source, parts.arguments)
    except NoCall:
        yield from source.each_before(parts.arguments, *closers)
        return False
    return True


def _quoted(source: IncrementalText) -> Reading[str]:
    """Arguments that are no object by themselves."""
    if (yield from source.took("null")):
        return "{}"
    text = yield from json_string(source)
    try:
        if isinstance(parse_json(text or "{}"), dict):
            return text or "{}"
    except ValueError:
        pass
    raise NoCall
