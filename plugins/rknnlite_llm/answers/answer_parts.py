"""What an answer consists of, and what is gathered of it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["AnswerPart", "NoCall", "PartKind", "Parts", "as_json"]

_SPACE = " \t\r\n"
_MOST_SPACE = 8


class PartKind(enum.Enum):
    """What a piece of an answer is. A call begins with its name; pieces of its arguments follow, JSON text."""

    REASONING = "reasoning"
    CONTENT = "content"
    CALL = "call"
    ARGUMENTS = "arguments"


@dataclass(frozen=True)
class AnswerPart:
    """A piece of an answer; ``call`` counts the tool calls from 0."""

    kind: PartKind
    text: str
    call: int = -1


class NoCall(Exception):
    """What looked like a call is none."""


class Parts:
    """Gathers parts. Blanks beside a call or a thought belong to it, as templates write them; up to 8 wait for that."""

    def __init__(self) -> None:
        self._parts: list[AnswerPart] = []
        self._blank = ""
        self._strip = False
        # nothing but blanks was said since the beginning, or since the last call or thought
        self.fresh = True
        self.calls = 0

    def say(self, text: str, kind: PartKind = PartKind.CONTENT) -> None:
        """Text of the content or of a thought."""
        text = self._blank + (text.lstrip(_SPACE) if self._strip else text)
        kept = max(len(text.rstrip(_SPACE)), len(text) - _MOST_SPACE)
        self._blank = text[kept:]
        if text.strip(_SPACE):
            self._strip = self.fresh = False
        self._add(kind, text[:kept])

    def section(self) -> None:
        """A call, or a thought begins or ends: blanks that wait are dropped, and those that come next."""
        self._blank, self._strip, self.fresh = "", True, True

    def flush(self, kind: PartKind = PartKind.CONTENT) -> None:
        """The end: blanks that wait go out."""
        blank, self._blank = self._blank, ""
        self._add(kind, blank)

    def call(self, name: str) -> None:
        """A call begins."""
        self.section()
        self._parts.append(AnswerPart(PartKind.CALL, name, self.calls))
        self.calls += 1

    def arguments(self, text: str) -> None:
        """More of the arguments of the last call."""
        self._add(PartKind.ARGUMENTS, text, self.calls - 1)

    def whole_calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Calls whose arguments were not written as JSON. Raises NoCall, before any, for values that JSON lacks."""
        for name, arguments in [(name, as_json(arguments)) for name, arguments in calls]:
            self.call(name)
            self.arguments(arguments)

    def take(self) -> list[AnswerPart]:
        """What has come together; afterwards nothing is there."""
        parts, self._parts = self._parts, []
        return parts

    def _add(self, kind: PartKind, text: str, call: int = -1) -> None:
        if not text:
            return
        last = self._parts[-1] if self._parts else None
        if last is not None and last.kind is kind and last.call == call:
            self._parts[-1] = AnswerPart(kind, last.text + text, call)
        else:
            self._parts.append(AnswerPart(kind, text, call))


def as_json(value: Any) -> str:
    """JSON text. Raises NoCall for values that JSON has no words for."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise NoCall from None
