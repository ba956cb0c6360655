"""Speculative decoding: tokens that are guessed, and checked in one pass through the weights.

A pass over several tokens costs little more than over one, because it reads the same weights. So the tokens behind the chosen one
are guessed (``Guesser``), and the logits behind all of them are computed together. Then everything goes on as without guesses: the
session's own sampler, callback or rule chooses each token from the model's own logits. A guess only says which logits are there
already; one that was not chosen is forgotten with all that is behind it. Hence greedy answers stay what they are, and drawn ones
have the model's distribution: a guess ``g`` is taken with probability ``p(g)``, else the token comes from ``p`` without ``g``. That
is rejection sampling for a guess that is certain of itself. The same seed draws the same tokens. Sums of several rows are not
always rounded as those of one, so logits differ in the last bits.

The cache is cut back behind every pass and grows token by token as they are chosen, so that whoever looks in between, stops the
run or saves the cache finds what would be there without guesses.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks

from .continuous_batching import StepBatcher
from .conversation import Conversation

__all__ = ["Guesser", "Lookup", "Pace", "Speculation"]

Array = NDArray[Any]
Row = tuple[Array, Optional[Array]]
_LONGEST, _SHORTEST = 4, 2
_FIRST = 4
_PAUSES = (8, 128)


class Guesser(Protocol):
    """What may come next."""

    def guess(self, tokens: Sequence[int], count: int) -> list[int]:
        """Up to ``count`` tokens behind these; numbers below 0 among them are no text. None where it has no idea."""


class Lookup:
    """What followed the last tokens when they stood in the conversation before; for one run."""

    def __init__(self) -> None:
        self._known = 0
        self._places: dict[tuple[int, ...], int] = {}

    def guess(self, tokens: Sequence[int], count: int) -> list[int]:
        """See ``Guesser``; ``tokens`` only ever grow."""
        for end in range(self._known + 1, len(tokens)):
            for size in range(_SHORTEST, min(_LONGEST, end) + 1):
                self._places[tuple(tokens[end - size : end])] = end
        self._known = max(0, len(tokens) - 1)
        for size in range(min(_LONGEST, len(tokens)), _SHORTEST - 1, -1):
            place = self._places.get(tuple(tokens[-size:]))
            if place is not None:
                return self._behind(list(tokens), place, count)
        return []

    @staticmethod
    def _behind(tokens: list[int], place: int, count: int) -> list[int]:
        """Text that repeats itself goes on into what is guessed."""
        known = len(tokens)
        for number in range(place, place + count):
            if tokens[number] < 0:
                break
            tokens.append(tokens[number])
        return tokens[known:]


class Pace:
    """How many tokens to guess: as many as paid of late, by the clock; none for a while when they did not.

    A pause is twice as long as the one before it, so that text which cannot be guessed is hardly ever guessed at.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count, self._pause = most, min(_FIRST, most), _PAUSES[0]
        self._resting = 0
        self._single = 0.0
        self._gain = 1.0

    @property
    def count(self) -> int:
        """Tokens to guess now; at first, and while it pauses, none."""
        return 0 if self._resting or not self._single else self._count

    def single(self, seconds: float) -> None:
        """One token took so long."""
        self._single = 0.5 * (self._single + seconds) if self._single else seconds
        self._resting = max(0, self._resting - 1)

    def guessed(self, count: int, accepted: int, seconds: float) -> None:
        """``accepted`` of ``count`` guesses were chosen; to guess and to check took so long."""
        self._gain = 0.5 * (self._gain + (1 + accepted) * self._single / max(seconds, 1e-9))
        self._count = min(self._most, 2 * count) if accepted == count else max(1, accepted + 1)
        if self._gain >= 1:
            self._pause = _PAUSES[0]
        else:
            self._resting, self._pause = self._pause, min(2 * self._pause, _PAUSES[1])
            self._gain, self._count = 1.0, min(_FIRST, self._most)


class Speculation:
    """The guesses of one run; ``guessed`` and ``accepted`` count them."""

    def __init__(
        self, steps: StepBatcher, talk: Conversation, calls: CheckedCallbacks, guesser: Guesser, most: int
    ) -> None:
        self._steps, self._talk, self._calls, self._guesser = steps, talk, calls, guesser
        self._pace = Pace(most)
        self._rows: deque[tuple[int, Array, Array]] = deque()
        self._last: tuple[int, int, float] | None = None  # guesses, how many were accepted before, seconds
        self.guessed = self.accepted = 0

    def step(self, left: int, single: Callable[[], Row]) -> Row:
        """Hidden state (1, hidden) and logits (vocab,) behind the chosen token; ``left`` more are to be chosen at most.

        ``single`` computes them for this token alone.
        """
        token = self._talk.unfed[0]
        if self._rows and self._rows[0][0] == token:
            self.accepted += 1
            return self._next()
        self._settle()
        start = time.perf_counter()
        guesses = self._guesses(token, left - 1)
        if not guesses:
            row = single()
            self._pace.single(time.perf_counter() - start)
            return row
        self._check([token, *guesses])
        self._last = len(guesses), self.accepted, time.perf_counter() - start
        return self._next()

    def _settle(self) -> None:
        """What is left of the guesses was wrong."""
        self._rows.clear()
        if self._last is not None:
            count, before, seconds = self._last
            self._pace.guessed(count, self.accepted - before, seconds)
            self._last = None

    def _guesses(self, token: int, left: int) -> list[int]:
        talk = self._talk
        count = min(self._pace.count, left, talk.cache.guesses())
        if count <= 0 or len(talk.keys) != talk.cache.total:
            return []
        return self._guesser.guess([*talk.keys, token], count)

    def _check(self, tokens: list[int]) -> None:
        """Compute what is behind each token; the cache stays as it is."""
        cache = self._talk.cache
        before = cache.total
        embeds = self._calls.embeddings(np.array(tokens, np.int32))
        hidden, logits = self._steps.verify(embeds, cache)
        cache.truncate(before)
        self._rows.extend(zip(tokens, np.split(hidden, len(tokens)), logits))
        self.guessed += len(tokens) - 1

    def _next(self) -> Row:
        """The chosen token is in the cache now."""
        token, hidden, logits = self._rows.popleft()
        self._talk.cache.advance(1)
        self._talk.fed(np.array([token]), [token])
        return hidden, logits
