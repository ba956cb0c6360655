"""Calls as JSON objects, ``{"name": ..., "arguments": {...}}``: one, several, or a list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from .answer_parts import NoCall, Parts
from .incremental_text import IncrementalText, Reading
from .streamed_json import call_arguments, json_string, json_value

__all__ = ["json_call", "json_calls"]

Bare = Optional[Callable[[str], bool]]
"""For objects without a marker: which names are functions. Such an object needs arguments to be a call."""

_ARGUMENTS = ("arguments", "parameters")
_PLAIN = ("id", "type", "index")


def json_calls(
    source: IncrementalText, parts: Parts, closers: tuple[str, ...] = (), bare: Bare = None
) -> Reading[None]:
    """Read calls, side by side, joined by ``,`` or ``;``, or a list of them. Raises NoCall when the first is none.

    What comes behind the last call is left.
    """
    yield from source.blank()
    in_list = bool((yield from source.took("[")))
    yield from json_call(source, parts, closers, bare)
    while True:
        end = source.at
        yield from source.blank()
        if in_list and (yield from source.took("]")):
            return
        yield from source.took(",", ";")
        yield from source.blank()
        try:
            if (yield from source.peek()) != "{":
                raise NoCall
            yield from json_call(source, parts, closers, bare)
        except NoCall:
            source.at = end
            return


def json_call(source: IncrementalText, parts: Parts, closers: tuple[str, ...], bare: Bare) -> Reading[None]:
    """Read one object; raises NoCall. Once its arguments have begun it is a call, whatever follows."""
    yield from source.blank()
    yield from source.expect("{")
    name, raw = "", ""
    while True:
        key = yield from json_string(source)
        yield from source.blank()
        yield from source.expect(":")
        if key == "name":
            name = yield from json_string(source)
            if not name or (bare is not None and not bare(name)):
                raise NoCall
        elif key in _ARGUMENTS and name:
            if (yield from call_arguments(source, parts, name, closers)):
                yield from _rest(source)
            return
        elif key in _ARGUMENTS and not raw:
            raw = yield from _value(source)
        elif key in _PLAIN:
            yield from _value(source)
        else:
            raise NoCall
        if name and raw:
            yield from _again(raw, parts, name)
            yield from _rest(source)
            return
        yield from source.blank()
        if not (yield from source.took(",")):
            yield from source.expect("}")
            if not name or bare is not None:
                raise NoCall
            parts.whole_calls([(name, {})])
            return


def _value(source: IncrementalText) -> Reading[str]:
    pieces: list[str] = []
    yield from json_value(source, pieces.append)
    return "".join(pieces)


def _again(raw: str, parts: Parts, name: str) -> Reading[None]:
    """Arguments that came before the name."""
    inner = IncrementalText()
    inner.data, inner.ended = raw, True
    yield from call_arguments(inner, parts, name)


def _rest(source: IncrementalText) -> Reading[None]:
    """What comes behind the arguments: more keys, the end of the object. What is something else is left."""
    while True:
        end = source.at
        yield from source.blank()
        try:
            if (yield from source.took("}")):
                return
            yield from source.expect(",")
            if (yield from json_string(source)) not in (*_PLAIN, "name"):
                raise NoCall
            yield from source.blank()
            yield from source.expect(":")
            yield from _value(source)
        except NoCall:
            source.at = end
            return
