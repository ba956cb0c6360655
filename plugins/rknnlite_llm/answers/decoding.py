"""Tokens of an answer as text: markers are seen by the parser, other special tokens by nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional, Protocol

from .formats import AnswerFormat

__all__ = ["SpecialTokens", "answer_decoder", "special_token"]


class SpecialTokens(Protocol):
    """What is needed of a tokenizer."""

    @property
    def special(self) -> dict[str, int]:
        """Texts of its special tokens -> their ids."""

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of some tokens."""


def special_token(tokenizer: SpecialTokens) -> Callable[[str], Optional[int]]:
    """Tells the id of a marker that is one special token, None of one that is plain text; see ``tool_rule``."""
    return tokenizer.special.get


def answer_decoder(
    tokenizer: SpecialTokens, form: AnswerFormat, tools: bool = True
) -> Callable[[Sequence[int]], str]:
    """A decoder that leaves special tokens out, except the markers of a form; without tools those of thoughts only."""
    shown = form.markers(tools)
    hidden = frozenset(number for text, number in tokenizer.special.items() if text not in shown)

    def decode(ids: Sequence[int]) -> str:
        return tokenizer.decode([i for i in ids if i not in hidden], skip_special=False)

    return decode
