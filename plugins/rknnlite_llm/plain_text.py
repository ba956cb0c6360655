"""Text of users stays text: control tokens that are written in messages and tools are no control tokens.

A template makes one text of a conversation, in which ``<|im_end|>`` of the template and ``<|im_end|>`` of a user look the
same. So those of users get a mark behind their first character, which ``Tokenizer.encode`` cuts at and leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rknnlite.spi.llm import MessagesInput

from .messages import MEDIA_TAGS, checked_messages

__all__ = ["MARK", "PlainText"]

MARK = "\ufdd0"
"""A code point that Unicode keeps for programs and that no text has."""
_START = 2  # characters by which a control token is looked for
_PART = 1 << 20


class PlainText:
    """Marks control tokens of some spellings. One of a single character cannot be cut, and stays what it is."""

    def __init__(self, special: Iterable[str]) -> None:
        self._special = {text for text in special if len(text) >= _START and text not in MEDIA_TAGS}
        self._lengths = sorted({len(text) for text in self._special})
        starts = {text[:_START] for text in self._special}
        begins = [f"{re.escape(start[0])}(?={re.escape(start[1:])})" for start in sorted(starts)]
        self._starts = re.compile("|".join(begins) or "(?!)")

    def conversation(self, said: MessagesInput) -> MessagesInput:
        """The conversation with marks in its messages and tools; raises ParamInvalid for what is none."""
        tools = None if said.tools is None else self._marked(list(said.tools))
        return replace(said, messages=self._marked(checked_messages(said.messages)), tools=tools)

    def marked(self, text: str) -> str:
        """A text with a mark in each control token."""
        found = [place + 1 for place in self._places(text) if self._is_at(text, place)]
        return MARK.join(text[begin:end] for begin, end in zip([0, *found], [*found, len(text)]))

    def _places(self, text: str) -> Iterator[int]:
        """Where control tokens may begin. In parts, as no other thread of Python runs while a regular expression does."""
        for begin in range(0, len(text), _PART):
            for match in self._starts.finditer(text, begin, begin + _PART + _START - 1):
                yield match.start()

    def _is_at(self, text: str, place: int) -> bool:
        return any(text[place : place + length] in self._special for length in self._lengths)

    def _marked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.marked(value)
        if isinstance(value, dict):
            return {self._marked(key): self._marked(inner) for key, inner in value.items()}
        return [self._marked(inner) for inner in value] if isinstance(value, (list, tuple)) else value
