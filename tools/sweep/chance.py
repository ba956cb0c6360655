"""Seeded draws that are the same with every version of Python and numpy.

Only ``random.Random(text).random()`` is used: the one method whose results Python promises to keep.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Chance"]

T = TypeVar("T")


class Chance:
    """Draws of one random case."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def whole(self, low: int, high: int) -> int:
        """A whole number of [low, high]."""
        return low + int(self._random.random() * (high - low + 1))

    def real(self, low: float, high: float) -> float:
        """A number of [low, high), with four decimals."""
        return round(low + self._random.random() * (high - low), 4)

    def odds(self, share: float) -> bool:
        """True in ``share`` of all cases."""
        return self._random.random() < share

    def pick(self, *options: T) -> T:
        """One of the options."""
        return options[self.whole(0, len(options) - 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        left = list(items)
        return [left.pop(self.whole(0, len(left) - 1)) for _ in items]

    def several(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` of the items, in their order."""
        chosen = set(self.shuffled(range(len(items)))[:count])
        return [item for place, item in enumerate(items) if place in chosen]

    def channels(self) -> int:
        """A number of channels: below, at and above the blocks of 8, 16 and 32, and the odd ones."""
        return self.pick(1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 16, 17, 24, 31, 32, 33, 40, 48)

    def side(self, low: int = 5, high: int = 19) -> int:
        """A height or width."""
        return self.whole(low, high)

    def parts(self, whole: int, count: int) -> list[int]:
        """``whole`` as a sum of ``count`` positive numbers."""
        cuts = sorted(self.shuffled(range(1, whole))[: count - 1])
        return [b - a for a, b in zip([0, *cuts], [*cuts, whole])]

    def divisor(self, number: int) -> int:
        """A divisor of the number."""
        return self.pick(*(d for d in range(1, number + 1) if number % d == 0))
