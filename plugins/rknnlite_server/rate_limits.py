"""What one key may ask for: requests and tokens a minute, and requests at a time.

A limit a minute is a bucket: it holds as many as the limit, is full at first, and fills up evenly within a minute. How many
tokens a request takes is known when they are there, so a bucket of tokens may be overdrawn by what runs; the next request is
let in when there is something in it again.
"""

from __future__ import annotations

import contextvars
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from .errors import ApiError

__all__ = ["TOKENS_A_SECOND", "Account", "Limits", "account_of_task", "owner_of_task", "spend_tokens"]

_MINUTE = 60.0
TOKENS_A_SECOND = 50
"""What a second of sound counts: the positions that Whisper's encoder makes of it."""


@dataclass(frozen=True)
class Limits:
    """``requests`` and ``tokens`` a minute, ``concurrent`` requests at a time; 0 is no limit."""

    requests: int = 0
    tokens: int = 0
    concurrent: int = 0


class _Bucket:
    """So many a minute; 0 is no limit. ``clock`` in seconds."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit, self._clock = limit, clock
        self._level, self._at = float(limit), clock()

    def change(self, limit: int) -> None:
        """Another limit; what was spent stays spent."""
        if limit != self.limit:
            self._level, self.limit = self.level() + limit - self.limit, limit

    def level(self) -> float:
        """What is left; below 0 where more was spent than there was."""
        now = self._clock()
        self._level = min(float(self.limit), self._level + (now - self._at) * self.limit / _MINUTE)
        self._at = now
        return self._level

    def spend(self, count: int) -> None:
        """Take out, also what is not in it."""
        if self.limit:
            self._level = self.level() - count

    def seconds_until(self, level: float) -> float:
        """Seconds until so much is in it."""
        return max(0.0, level - self.level()) * _MINUTE / self.limit if self.limit else 0.0


class Account:
    """What a key has spent; for one event loop."""

    def __init__(
        self,
        name: str,
        limits: Optional[Limits] = None,
        clock: Callable[[], float] = time.monotonic,
        identity: str = "",
    ) -> None:
        """``name`` is what the audit calls the key, ``identity`` stays the same as long as the key does."""
        self.identity = identity
        self.name, self._limits = name, limits or Limits()
        self._requests = _Bucket(self._limits.requests, clock)
        self._tokens = _Bucket(self._limits.tokens, clock)
        self.running = 0

    def change(self, name: str, limits: Limits) -> None:
        """Other limits for the same key."""
        self.name, self._limits = name, limits
        self._requests.change(limits.requests)
        self._tokens.change(limits.tokens)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around a request; raises ApiError 429 where it is one too many."""
        most = self._limits.concurrent
        if most and self.running >= most:
            raise self._refused(f"{most} requests at a time", 1)
        self.count_request()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def spend_tokens(self, count: int) -> None:
        """Tokens of a prompt or an answer."""
        self._tokens.spend(count)

    def seconds_without_tokens(self) -> float:
        """Seconds until there are tokens; 0 where there are some."""
        return self._tokens.seconds_until(1)

    def headers(self) -> dict[str, str]:
        """The limits, what is left, and when all of it will be there again, in OpenAI's words; none without limits."""
        found = {}
        for word, bucket in (("requests", self._requests), ("tokens", self._tokens)):
            if bucket.limit:
                found[f"x-ratelimit-limit-{word}"] = str(bucket.limit)
                found[f"x-ratelimit-remaining-{word}"] = str(max(0, math.floor(bucket.level())))
                found[f"x-ratelimit-reset-{word}"] = f"{bucket.seconds_until(bucket.limit):.3f}s"
        return found

    def count_request(self) -> None:
        """One request more, which is not the only one of its call; raises ApiError 429 where it is one too many."""
        wait = self._requests.seconds_until(1)
        if wait:
            raise self._refused(f"{self._requests.limit} requests a minute", wait)
        wait = self._tokens.seconds_until(1)
        if wait:
            raise self._refused(f"{self._tokens.limit} tokens a minute", wait)
        self._requests.spend(1)

    def _refused(self, limit: str, wait: float) -> ApiError:
        seconds = max(1, math.ceil(wait))
        error = ApiError(
            429,
            "rate_limit_error",
            f"the key {self.name} has {limit}; try again in {seconds} s",
            code="rate_limit_exceeded",
            retry_after=seconds,
        )
        error.headers.update(self.headers())
        return error


account_of_task: contextvars.ContextVar[Optional[Account]] = contextvars.ContextVar("account", default=None)
"""Whose request the task works for; tasks that it starts have the same."""


def owner_of_task() -> str:
    """Whose the request is that is being answered: the identity of its key; one owner where there are no keys."""
    account = account_of_task.get()
    return account.identity if account is not None else ""


def spend_tokens(count: int) -> None:
    """Count tokens for the key of the request that is being answered."""
    account = account_of_task.get()
    if account is not None:
        account.spend_tokens(count)
