"""Tokens that are written out in texts (``added_tokens``): found before the text is cut, some before it is normalised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .characters import is_space, is_word
from .normalisers import Normaliser

__all__ = ["Added", "AddedTokens", "added_tokens"]


@dataclass(frozen=True)
class Added:
    """One of them.

    ``single_word``: only where no word goes on at either side; ``left`` and ``right``: white space there belongs to it;
    ``normalised``: it is looked for in the normalised text.
    """

    text: str
    number: int
    special: bool
    single_word: bool
    left: bool
    right: bool
    normalised: bool


def added_tokens(entries: Sequence[Mapping[str, Any]], vocabulary: Mapping[str, int]) -> list[Added]:
    """All of them; raises ValueError where an id is another one than the vocabulary's."""
    made = []
    for entry in entries:
        text, number = entry["content"], entry["id"]
        if not isinstance(text, str) or type(number) is not int or number < 0:
            raise ValueError("tokens are text with a number each")
        if vocabulary.get(text, number) != number:
            raise ValueError(f"token {text!r} is {number} here and {vocabulary[text]} in the vocabulary")
        names = ("special", "single_word", "lstrip", "rstrip", "normalized")
        made.append(Added(text, number, *(bool(entry.get(name)) for name in names)))
    return made


class AddedTokens:
    """Finds some of them in a text: the longest at each place."""

    def __init__(self, tokens: Iterable[Added], normalise: Normaliser) -> None:
        """``normalise``: what the spelling of the tokens goes through."""
        self._tokens: dict[str, Added] = {}
        for token in tokens:
            self._tokens.setdefault(normalise(token.text), token)
        self._tokens.pop("", None)
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._search = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def split(self, text: str) -> list[Union[str, int]]:
        """What lies between tokens as text, tokens as ids."""
        parts: list[Union[str, int]] = []
        at = 0
        for match in self._search.finditer(text):
            start, end = match.span()
            token = self._tokens[match.group()]
            if token.single_word and not _stands_alone(text, start, end):
                continue
            while token.left and start > at and is_space(text[start - 1]):
                start -= 1
            while token.right and end < len(text) and is_space(text[end]):
                end += 1
            if start > at:
                parts.append(text[at:start])
            parts.append(token.number)
            at = end
        if at < len(text):
            parts.append(text[at:])
        return parts


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not (start and is_word(text[start - 1])) and not (end < len(text) and is_word(text[end]))
