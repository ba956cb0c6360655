"""Text of users stays text: control tokens that are written in messages and tools are no control tokens.

A template makes one text of a conversation, in which ``<|im_end|>`` of the template and ``<|im_end|>`` of a user look the
same. So those of users get a mark behind their first character, which ``Tokenizer.encode`` cuts at and leaves out. For
a runtime that tokenizes by itself the mark is a character more, which keeps the control token out all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rknnlite.spi.llm import MessagesInput

from .messages import MEDIA_TAGS, checked_messages, media_parts

__all__ = ["MARK", "PlainText"]

MARK = "\ufdd0"
"""A code point that Unicode keeps for programs and that no text has."""
_LOOKED_AT = 64  # characters by which a control token is looked for
_PART = 1 << 20
"""Characters that are looked through at a time: no other thread of Python runs while a regular expression does."""


class PlainText:
    """Marks control tokens of some spellings. One of a single character cannot be cut, and stays what it is."""

    def __init__(self, special: Iterable[str]) -> None:
        special = {*special}
        self._text = _Marks(special - MEDIA_TAGS)
        tags = special & MEDIA_TAGS
        self._with_tags = _Marks(special) if tags else self._text
        self._with_all_tags = _Marks(special | MEDIA_TAGS)

    def conversation(self, said: MessagesInput) -> MessagesInput:
        """The conversation with marks in its messages and tools; raises ParamInvalid for what is none.

        A tag such as ``<image>`` is text, too, unless it is all that tells the place of a picture.
        """
        checked_messages(said.messages)
        marks = self._with_tags
        if said.blocks:
            marks = self._with_all_tags if media_parts(said.messages) else self._text
        tools = None if said.tools is None else _each(list(said.tools), marks.of_users)
        messages = checked_messages(_each(list(said.messages), marks.of_users))
        joined = _each(messages, self._text.added)  # parts of a message are one text now
        return replace(said, messages=joined, tools=tools)

    def within(self, value: Any) -> Any:
        """A text with marks, or an object or a list with marks in its texts."""
        return _each(value, self._with_tags.of_users)

    def marked(self, text: str) -> str:
        """A text with a mark in each control token; tags of media are left alone."""
        return self._text.of_users(text)


class _Marks:
    """Marks some spellings."""

    def __init__(self, spellings: Iterable[str]) -> None:
        tree = _tree({text[:_LOOKED_AT] for text in spellings if len(text) > 1})
        # The first letter is not looked ahead at, as re then skips to where one is.
        begins = [f"{re.escape(letter)}(?={_any_of(inner)})" for letter, inner in tree.items()]
        self._first = re.compile("|".join(begins) or "(?!)")

    def added(self, text: str) -> str:
        """With marks beside those that are there."""
        places = list(self._places(text))
        return MARK.join(text[begin:end] for begin, end in zip([0, *places], [*places, len(text)]))

    def _places(self, text: str) -> Iterator[int]:
        """Where marks belong."""
        for begin in range(0, len(text), _PART):
            for match in self._first.finditer(text, begin, begin + _PART + _LOOKED_AT - 1):
                if match.start() < begin + _PART:
                    yield match.end()

    def of_users(self, text: str) -> str:
        """With no other marks than these."""
        return self.added(text.replace(MARK, ""))


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """An object, a list or a text with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_each(key, change): _each(inner, change) for key, inner in value.items()}
    return [_each(inner, change) for inner in value] if isinstance(value, (list, tuple)) else value


def _tree(words: Iterable[str]) -> dict[str, Any]:
    """Words by their letters; the end of one is an empty letter."""
    tree: dict[str, Any] = {}
    for word in words:
        place = tree
        for letter in word:
            place = place.setdefault(letter, {})
        place[""] = {}
    return tree


def _any_of(tree: dict[str, Any]) -> str:
    """A regular expression for the words of a tree, which looks at each letter once; of two the one that begins the other."""
    if "" in tree:
        return ""
    return f"(?:{'|'.join(re.escape(letter) + _any_of(inner) for letter, inner in tree.items())})"
