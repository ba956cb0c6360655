"""A line of text that is longer than a network has room for: its parts, and what is written in them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .results import Words

__all__ = ["joined", "parts_of_line"]

Array = NDArray[Any]
_SQUEEZED = 1.3
_FAINT = 0.15
_MOST = 64  # parts, about
_BLANK = 0.17
"""Of the height of a line: so wide is a blank between words at least, and no gap between letters."""


def parts_of_line(line: Array, longest: float) -> Iterator[tuple[Array, bool]]:
    """A line of text in parts of at most ``longest`` times its height, and whether there is a blank before each.

    It is cut where least is written. A part may be three tenths longer: networks read squeezed letters, not halves.

    Examples:
        >>> line = np.full((10, 50, 3), 255, np.uint8)
        >>> line[2:8, 3:18] = line[2:8, 25:48] = 0
        >>> [(part.shape[1], apart) for part, apart in parts_of_line(line, 3)]
        [(21, False), (29, True)]
    """
    height, width = line.shape[:2]
    room = max(1, int(height * longest), -(-width // _MOST))
    ink = (line.max(axis=0) - line.min(axis=0)).max(axis=1)
    start, apart = 0, False
    while width - start > _SQUEEZED * room:
        first = start + max(1, room // 2)
        begin, end = _quietest(ink[first : start + room + 1], float(ink.max()))
        cut = first + (begin + end) // 2
        yield line[:, start:cut], apart
        start, apart = cut, end - begin >= _BLANK * height
    yield line[:, start:], apart


def _quietest(ink: Array, most: float) -> tuple[int, int]:
    """Where the longest run of columns with hardly more than the least ink begins and ends; of several the last."""
    quiet = np.concatenate([[False], ink <= ink.min() + _FAINT * most, [False]])
    begins, ends = np.flatnonzero(quiet[1:] > quiet[:-1]), np.flatnonzero(quiet[1:] < quiet[:-1])
    longest = len(ends) - 1 - int((ends - begins)[::-1].argmax())
    return int(begins[longest]), int(ends[longest])


def joined(count: int, read: Iterable[tuple[int, bool, Any]]) -> tuple[Words, ...]:
    """The words of each of ``count`` lines, of (line, whether a blank is before, words). Scores are means over letters.

    Examples:
        >>> joined(2, [(0, False, Words("two", 0.5)), (0, True, Words("lines", 0.9)), (1, False, Words("", 0.0))])
        (Words(text='two lines', score=0.75), Words(text='', score=0.0))
    """
    texts, sums, letters = [""] * count, [0.0] * count, [0] * count
    for row, apart, words in read:
        texts[row] += " " * bool(apart and texts[row] and words.text) + words.text
        sums[row] += words.score * len(words.text)
        letters[row] += len(words.text)
    return tuple(Words(text, total / max(1, n)) for text, total, n in zip(texts, sums, letters))
