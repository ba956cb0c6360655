"""Answers in channels (gpt-oss): ``<|channel|>analysis<|message|>...<|end|>``, final, and calls in commentary."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Optional

from .answer_parts import NoCall, PartKind, Parts
from .incremental_text import IncrementalText, Reading
from .streamed_json import call_arguments

__all__ = ["MARKERS", "channels"]

_CHANNEL, _MESSAGE, _START = "<|channel|>", "<|message|>", "<|start|>"
_CONSTRAIN = "<|constrain|>"
_CLOSING = ("<|end|>", "<|call|>", "<|return|>")
_ENDS = (*_CLOSING, _START, _CHANNEL)
MARKERS = (_CHANNEL, _MESSAGE, _START, _CONSTRAIN, *_CLOSING)
_TO = re.compile(r"\bto=functions\.([A-Za-z0-9_.\-]{1,128})")


def channels(source: IncrementalText, parts: Parts, tools: bool, thinking: bool) -> Reading[None]:
    """Read a whole answer. What is outside of channels is content; a head that the answer ends in is dropped."""
    if thinking:
        yield from _told(source, parts, PartKind.REASONING)
    while (yield from source.peek()):
        start = source.at
        marker = yield from source.took(*_ENDS)
        if marker in _CLOSING:
            continue
        if not marker and not (yield from source.found(" to=")):
            yield from _told(source, parts, PartKind.CONTENT)
            continue
        head = yield from _head(source)
        if head is not None:
            yield from _message(source, parts, head, tools)
        elif not source.ended or source.at < len(source.data):
            parts.say(source.data[start : source.at])


def _head(source: IncrementalText) -> Reading[Optional[str]]:
    """What stands before the message: the role, the channel, to whom it goes. None when no message follows."""
    pieces: list[str] = []
    while True:
        marker = yield from source.each_before(pieces.append, _CHANNEL, _MESSAGE, _CONSTRAIN, *_CLOSING)
        if not marker or marker in _CLOSING:
            return None
        source.at += len(marker)
        if marker == _MESSAGE:
            return "".join(pieces)
        pieces.append(" ")


def _message(source: IncrementalText, parts: Parts, head: str, tools: bool) -> Reading[None]:
    to = _TO.search(head)
    if to and tools:
        start = source.at
        try:
            yield from call_arguments(source, parts, to.group(1), _ENDS)
            return
        except NoCall:
            source.at = start
    yield from _told(source, parts, PartKind.REASONING if "analysis" in head and not to else PartKind.CONTENT)


def _told(source: IncrementalText, parts: Parts, kind: PartKind) -> Reading[None]:
    """Text up to the end of its message."""
    parts.section()
    say: Callable[[str], None] = lambda text: parts.say(text, kind)  # noqa: E731
    marker = yield from source.each_before(say, *_ENDS)
    if not marker:
        parts.flush(kind)
    parts.section()
