"""Scores of pictures with one answer: how often the class is the best guess or among the best, how well words are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..results import Classes, Words

__all__ = ["TopScore", "WordScore", "edits"]

_FEW = 5


@dataclass
class TopScore:
    """How often the right class was guessed.

    Examples:
        >>> import numpy as np
        >>> score = TopScore()
        >>> score.add(7, Classes(np.array([3, 7]), np.array([0.6, 0.3])))
        >>> score.numbers
        {'top-1': 0.0, 'top-5': 1.0}
    """

    count: int = 0
    first: int = 0
    among: int = 0

    def add(self, answer: int, found: Classes) -> None:
        """One picture; -1 is a class that the network does not have."""
        best = found.classes[:_FEW].tolist()
        self.count += 1
        self.first += best[:1] == [answer]
        self.among += answer in best

    @property
    def numbers(self) -> dict[str, float]:
        """Shares of all pictures."""
        return {"top-1": self.first / max(1, self.count), f"top-{_FEW}": self.among / max(1, self.count)}


@dataclass
class WordScore:
    """How many words are read without a mistake, and how many characters are wrong in all of them.

    Args:
        ignore_case: A and a are one.

    Examples:
        >>> score = WordScore()
        >>> score.add("B 12", Words("B 1Z", 0.9))
        >>> score.numbers
        {'words': 0.0, 'character errors': 0.25}
    """

    ignore_case: bool = False
    count: int = 0
    right: int = 0
    characters: int = 0
    wrong: int = 0

    def add(self, answer: str, found: Words) -> None:
        """One picture."""
        wanted, read = (answer.lower(), found.text.lower()) if self.ignore_case else (answer, found.text)
        self.count += 1
        self.right += wanted == read
        self.characters += len(wanted)
        self.wrong += edits(wanted, read)

    @property
    def numbers(self) -> dict[str, float]:
        """The share of words, and mistakes for each character that is there."""
        return {
            "words": self.right / max(1, self.count),
            "character errors": self.wrong / max(1, self.characters),
        }


def edits(text: Sequence[str], other: Sequence[str]) -> int:
    """Least number of characters that must be put in, taken away or changed (Levenshtein).

    Examples:
        >>> edits("kitten", "sitting")
        3
    """
    row = list(range(len(other) + 1))
    for n, char in enumerate(text, 1):
        before, row[0] = row[0], n
        for m, theirs in enumerate(other, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (char != theirs))
    return row[-1]
