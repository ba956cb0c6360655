"""Text of users stays text: control tokens that are written in messages and tools are no control tokens.

A template makes one text of a conversation, in which ``<|im_end|>`` of the template and ``<|im_end|>`` of a user look the
same. So those of users get a mark behind their first character, which ``Tokenizer.encode`` cuts at and leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rknnlite.spi.llm import MessagesInput

from .messages import MEDIA_TAGS, checked_messages

__all__ = ["MARK", "PlainText"]

MARK = "\ufdd0"
"""A code point that Unicode keeps for programs and that no text has."""
_START = 2  # characters by which a control token is looked for


class PlainText:
    """Marks control tokens of some spellings. One of a single character cannot be cut, and stays what it is."""

    def __init__(self, special: Iterable[str]) -> None:
        self._special = {text for text in special if len(text) >= _START and text not in MEDIA_TAGS}
        self._lengths = sorted({len(text) for text in self._special})
        starts = {text[:_START] for text in self._special}
        self._starts = re.compile(f"(?={'|'.join(map(re.escape, sorted(starts)))})" if starts else "(?!)")

    def conversation(self, said: MessagesInput) -> MessagesInput:
        """The conversation with marks in its messages and tools; raises ParamInvalid for what is none."""
        tools = None if said.tools is None else self._marked(list(said.tools))
        return replace(said, messages=self._marked(checked_messages(said.messages)), tools=tools)

    def marked(self, text: str) -> str:
        """A text with a mark in each control token."""
        found = [
            match.start() + 1 for match in self._starts.finditer(text) if self._is_at(text, match.start())
        ]
        return MARK.join(text[begin:end] for begin, end in zip([0, *found], [*found, len(text)]))

    def _is_at(self, text: str, place: int) -> bool:
        return any(text[place : place + length] in self._special for length in self._lengths)

    def _marked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.marked(value)
        if isinstance(value, dict):
            return {self._marked(key): self._marked(inner) for key, inner in value.items()}
        return [self._marked(inner) for inner in value] if isinstance(value, (list, tuple)) else value
