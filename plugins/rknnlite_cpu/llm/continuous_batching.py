"""Continuous batching: the tokens of all sessions that wait at the same time go through the weights in one pass.

Decoding is bound by reading the weights, so the next tokens of several sessions cost little more than one. Each session calls
``forward`` from a thread of its own; one of them computes the pass for all that wait. A session joins and leaves at any step.
Sums of one row and of several are not always rounded alike, so logits differ in the last bits by who steps along.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional, Union

from numpy.typing import NDArray

from .decoder import Decoder
from .decoder_input import DecoderInput
from .kv_cache import KvCache

__all__ = ["StepBatcher"]

Array = NDArray[Any]
_MOST = 32
"""Sessions in one pass."""
_PATIENCE = 0.1
"""Share of the time of a pass that is waited for sessions that are choosing their token."""


class _Entry:
    """What one session wants computed."""

    def __init__(self, rows: DecoderInput, cache: KvCache, wants_logits: bool, guesses: bool = False) -> None:
        self.rows, self.cache, self.wants_logits, self.guesses = rows, cache, wants_logits, guesses
        self.hidden: Optional[Array] = None
        self.logits: Optional[Array] = None
        self.error: Optional[Exception] = None
        self.done = False

    @property
    def alone(self) -> bool:
        """A chunk of a prompt, which is enough work by itself."""
        return len(self.rows) > 1 and not self.guesses

    @property
    def heads(self) -> int:
        """How many of the last hidden states become logits."""
        return (len(self.rows) if self.guesses else 1) if self.wants_logits else 0


class StepBatcher:
    """Passes through one model's decoder, one at a time."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._turn = threading.Condition()
        self._waiting: list[_Entry] = []
        self._computing = False
        self._decoding = 0
        self._last_pass = 0.0

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Around the steps of a session that generates: others wait a moment for its next token."""
        with self._turn:
            self._decoding += 1
        try:
            yield
        finally:
            with self._turn:
                self._decoding -= 1
                self._turn.notify_all()

    def forward(
        self, rows: Union[Array, DecoderInput], cache: KvCache, wants_logits: bool = True
    ) -> tuple[Array, Optional[Array]]:
        """Hidden states (n, hidden) of some tokens behind the cache, and the logits (vocab,) of the last one."""
        return self._through(_Entry(DecoderInput.of(rows), cache, wants_logits))

    def verify(self, embeds: Array, cache: KvCache) -> tuple[Array, Array]:
        """As ``forward`` for a token and guesses of those behind it: logits (n, vocab) behind every one, as if they came singly.

        Of the cache's policy nothing may happen meanwhile: there is room, and no group of keys gets full.
        """
        cache.stepwise = True
        try:
            hidden, logits = self._through(_Entry(DecoderInput.of(embeds), cache, True, guesses=True))
        finally:
            cache.stepwise = False
        assert logits is not None
        return hidden, logits

    def _through(self, entry: _Entry) -> tuple[Array, Optional[Array]]:
        with self._turn:
            self._waiting.append(entry)
            self._turn.notify_all()
        before = entry.cache.total
        try:
            while True:
                group = self._lead_or_follow(entry)
                if entry.done:
                    break
                self._compute(group)
        except BaseException:
            self._withdraw(entry, before)
            raise
        if entry.error is not None:
            raise entry.error
        assert entry.hidden is not None
        return entry.hidden, entry.logits

    def logits(self, hidden: Array) -> Array:
        """Hidden states (n, hidden) -> float32 (n, vocab)."""
        return self._decoder.logits([hidden])

    def _withdraw(self, entry: _Entry, before: int) -> None:
        """After an interrupt: nobody computes for this session any more, and its cache is as it was."""
        with self._turn:
            if entry in self._waiting:
                self._waiting.remove(entry)
            self._turn.wait_for(lambda: entry.done or not self._computing)
            self._turn.notify_all()
        if not entry.cache.wrapped:
            entry.cache.truncate(before)

    def _lead_or_follow(self, entry: _Entry) -> list[_Entry]:
        """Wait until the entry is done, or until this thread is to compute the returned ones."""
        since = time.monotonic()
        with self._turn:
            while not entry.done:
                if not self._computing and entry in self._waiting:
                    left = since + _PATIENCE * self._last_pass - time.monotonic()
                    if left <= 0 or self._all_there():
                        return self._begin()
                    self._turn.wait(left)
                else:
                    self._turn.wait()
                    since = time.monotonic()
            return []

    def _all_there(self) -> bool:
        return self._waiting[0].alone or len(self._waiting) >= min(self._decoding, _MOST)

    def _begin(self) -> list[_Entry]:
        """The next pass: a chunk of a prompt alone, or single tokens, and guesses behind them, together."""
        self._computing = True
        first = self._waiting[0]
        together = [first] if first.alone else [e for e in self._waiting if not e.alone][:_MOST]
        self._waiting = [e for e in self._waiting if e not in together]
        return together

    def _compute(self, group: list[_Entry]) -> None:
        start = time.monotonic()
        try:
            hidden, logits = self._computed(group)
            place = 0
            for entry, rows in zip(group, hidden):
                entry.hidden = rows
                if logits is not None and entry.heads:
                    entry.logits = logits[place : place + entry.heads] if entry.guesses else logits[place]
                    place += entry.heads
                entry.done = True
        except Exception as error:  # of all who took part
            for entry in group:
                entry.error, entry.done = error, True
        finally:
            with self._turn:
                self._waiting[:0] = [entry for entry in group if not entry.done]  # interrupted: others go on
                self._computing = False
                self._last_pass = time.monotonic() - start
                self._turn.notify_all()

    def _computed(self, group: list[_Entry]) -> tuple[list[Array], Optional[Array]]:
        """Hidden states of every entry, and logits one below the other."""
        if len(group) == 1 and group[0].heads == 1:
            found = self._decoder.step(group[0].rows, group[0].cache)
            if found is not None:
                return [found[0]], found[1]
        hidden = self._decoder.forward([(entry.rows, entry.cache) for entry in group])
        ends = [rows[-entry.heads :] for rows, entry in zip(hidden, group) if entry.heads]
        return hidden, self._decoder.logits(ends) if ends else None

    def forget(self) -> None:
        """After a fork, in the child: whoever computed is not here."""
        self._turn = threading.Condition()
        self._waiting, self._computing, self._decoding = [], False, 0
