"""Calls as Gemma writes them: Python in a fence or a list, and marked calls with quotes of their own."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable
from typing import Any

from rknnlite.files.json_text import parse_json

from .answer_parts import NoCall, Parts
from .incremental_text import IncrementalText, Reading
from .json_calls import json_calls
from .offered_tools import OfferedTools

__all__ = ["bare_list", "bare_object", "braces", "fenced_json", "tool_code"]

_LONGEST = 65536
_DEEPEST = 100
_MARK = "\u02d1"
"""Behind a name that is a word of Python's own (``from=``); no name of a program has it, and identifiers may."""
_WORDS = "|".join(sorted(set(keyword.kwlist) - {"True", "False", "None"}))
_NAMED = re.compile(rf"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\b({_WORDS})(?=\s*(?:\(|=(?!=)))""", re.DOTALL)


def bare_object(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """An object without a marker: ``{`` was read."""
    source.at -= 1
    yield from json_calls(source, parts, bare=offered.known)


def fenced_json(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """The same between a pair of fences."""
    yield from json_calls(source, parts, ("```",), bare=offered.known)
    yield from source.blank()
    yield from source.took("```")


def tool_code(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """Python between a pair of fences."""
    code = yield from source.before("```")
    calls = _python(code, offered)
    yield from source.expect("```")
    parts.whole_calls(calls)


def bare_list(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
    """``[f(a=1), g()]``, or a list of JSON objects; ``[`` was read."""
    start = source.at - 1
    yield from source.blank()
    if (yield from source.peek()) == "{":
        source.at = start
        yield from json_calls(source, parts, bare=offered.known)
        return
    name = yield from source.name()
    yield from source.expect("(")
    if not offered.known(name):
        raise NoCall
    yield from _balanced(source)
    parts.whole_calls(_python(source.data[start : source.at], offered))


def _balanced(source: IncrementalText) -> Reading[None]:
    """Take the text up to the bracket that closes the list in which a call has been opened."""
    open_now, quote, start = 2, "", source.at
    while open_now:
        char = yield from source.peek()
        if not char or source.at - start > _LONGEST:
            raise NoCall
        source.at += 1
        if quote:
            if char == "\\":
                yield from source.peek()
                source.at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{":
            open_now += 1
        elif char in ")]}":
            open_now -= 1


def _python(code: str, offered: OfferedTools) -> list[tuple[str, dict[str, Any]]]:
    """The calls in a piece of Python; it is never run. Raises NoCall."""
    if len(code) > _LONGEST:
        raise NoCall
    try:
        body = _parsed(code.strip()).body
        calls = [call for line in body if isinstance(line, ast.Expr) for call in _expressions(line.value)]
        if not calls or len(calls) < len(body):
            raise NoCall
        return [_call(call, offered) for call in calls]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise NoCall from None


def _parsed(code: str) -> ast.Module:
    """As ``ast.parse``; functions and arguments may have names that Python keeps for itself: they get a mark."""
    try:
        return ast.parse(code)
    except SyntaxError:
        return ast.parse(_NAMED.sub(lambda found: found[0] + (_MARK if found[1] else ""), code))


def _expressions(value: ast.expr) -> list[ast.expr]:
    return list(value.elts) if isinstance(value, (ast.List, ast.Tuple)) else [value]


def _call(call: ast.expr, offered: OfferedTools) -> tuple[str, dict[str, Any]]:
    if not isinstance(call, ast.Call):
        raise NoCall
    name = ast.unparse(call.func).replace(_MARK, "")
    if name == "print" and len(call.args) == 1 and not call.keywords:
        return _call(call.args[0], offered)
    names = list(offered.properties(name))
    if not all(part.isidentifier() for part in name.split(".")) or len(call.args) > len(names):
        raise NoCall
    arguments = {key: ast.literal_eval(value) for key, value in zip(names, call.args)}
    for given in call.keywords:
        if given.arg is None:
            raise NoCall
        arguments[given.arg.replace(_MARK, "")] = ast.literal_eval(given.value)
    return name, arguments


def braces(
    opening: str, quote: str, end: str
) -> Callable[[IncrementalText, Parts, OfferedTools], Reading[None]]:
    """A reader of ``call:name{a:QUOTEtextQUOTE,b:1}END``."""

    def read(source: IncrementalText, parts: Parts, offered: OfferedTools) -> Reading[None]:
        yield from source.expect("call:")
        name = yield from source.name()
        body = yield from source.before(end, opening)
        arguments = _Braces(body, quote).whole()
        yield from source.expect(end)
        parts.whole_calls([(name, arguments)])

    return read


class _Braces:
    """Values in Gemma's own writing."""

    def __init__(self, text: str, quote: str) -> None:
        self._text, self._quote, self._at, self._deep = text, quote, 0, 0

    def whole(self) -> dict[str, Any]:
        """The arguments; raises NoCall when the text is something else."""
        value = self._value()
        if not isinstance(value, dict) or self._text[self._at :].strip():
            raise NoCall
        return value

    def _value(self) -> Any:
        self._blank()
        if self._took(self._quote):
            return self._quoted()
        if self._took("{"):
            return dict(self._items("}", self._pair))
        if self._took("["):
            return self._items("]", self._value)
        return _plain(self._up_to(",}]"))

    def _items(self, end: str, item: Callable[[], Any]) -> list[Any]:
        self._deep += 1
        if self._deep > _DEEPEST:
            raise NoCall
        found: list[Any] = []
        self._blank()
        while not self._took(end):
            if found and not self._took(","):
                raise NoCall
            found.append(item())
            self._blank()
        self._deep -= 1
        return found

    def _pair(self) -> tuple[str, Any]:
        self._blank()
        key = self._quoted() if self._took(self._quote) else self._up_to(":").strip()
        self._blank()
        if not key or not self._took(":"):
            raise NoCall
        return key, self._value()

    def _quoted(self) -> str:
        end = self._text.find(self._quote, self._at)
        if end < 0:
            raise NoCall
        text, self._at = self._text[self._at : end], end + len(self._quote)
        return text

    def _up_to(self, stops: str) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in stops:
            self._at += 1
        return self._text[start : self._at]

    def _blank(self) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\n", "\t", "\r"):
            self._at += 1

    def _took(self, marker: str) -> bool:
        if not self._text.startswith(marker, self._at):
            return False
        self._at += len(marker)
        return True


def _plain(text: str) -> Any:
    """A number, true, false, null; anything else is text without quotes."""
    text = text.strip()
    if not text:
        raise NoCall
    try:
        return parse_json(text)
    except ValueError:
        return text
