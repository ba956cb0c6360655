"""Who may run now, who waits, and who is sent away."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from .errors import ApiError

__all__ = ["Reservation", "Room", "Turnstile"]

_REMEMBERED = 16


class Turnstile:
    """Lets ``size`` through at a time and ``waiting`` more wait, first come first served; for one event loop."""

    def __init__(self, size: int, waiting: int, full: int = 429) -> None:
        """``full`` is the HTTP status of those who are sent away: 429 in OpenAI's API, 503 in others."""
        self._size, self._most, self._full = size, waiting, full
        self._inside = 0
        self._line: deque[asyncio.Future[None]] = deque()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def size(self) -> int:
        """How many are let through at a time."""
        return self._size

    @property
    def most(self) -> int:
        """How many there may be with those who wait."""
        return self._size + self._most

    @property
    def running(self) -> int:
        """Requests that are being computed."""
        return self._inside

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._line)

    @asynccontextmanager
    async def turn(self, patience: float | None = None) -> AsyncIterator[None]:
        """Hold one of the places; raises ApiError: 429 or 503 when the queue is full, 504 after ``patience`` seconds in it."""
        await self._enter(patience)
        start = time.monotonic()
        try:
            yield
        finally:
            self._seconds.append(time.monotonic() - start)
            self._leave()

    async def _enter(self, patience: float | None) -> None:
        if self._inside < self._size and not self._line:
            self._inside += 1
            return
        if len(self._line) >= self._most:
            raise ApiError(
                self._full,
                "rate_limit_error",
                f"{self._inside} requests run and {len(self._line)} wait; try again later",
                code="rate_limit_exceeded",
                retry_after=self._patience(),
            )
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await asyncio.wait((place,), timeout=patience)
        except asyncio.CancelledError:
            if place.done():
                self._leave()  # the turn had come, and nobody takes it
            else:
                self._line.remove(place)
            raise
        if not place.done():
            self._line.remove(place)
            raise ApiError(
                504,
                "timeout_error",
                f"no room for the request within {patience:g} s",
                retry_after=self._patience(),
            )

    def _leave(self) -> None:
        if self._line:
            self._line.popleft().set_result(None)  # the place is handed over
        else:
            self._inside -= 1

    def _patience(self) -> int:
        """Seconds until there may be room: what the last requests took, shared by those that run."""
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else 1.0
        return max(1, math.ceil(mean * (len(self._line) + 1) / self._size))


class Room:
    """Memory for requests that are read, wait or run, whosever they are; for one event loop."""

    def __init__(self, size: int) -> None:
        """``size`` in bytes."""
        self._size, self.used = size, 0

    @contextmanager
    def hold(self, count: int = 0) -> Iterator[Reservation]:
        """Room for ``count`` bytes, and for as many more as are taken; raises ApiError 503 where there is none."""
        held = Reservation(self)
        try:
            held.take(count)
            yield held
        finally:
            self.used -= held.count

    def take(self, count: int) -> None:
        """Room for ``count`` more bytes; raises ApiError."""
        if self.used + count > self._size:
            raise ApiError(
                503,
                "rate_limit_error",
                f"requests of {self.used} bytes are under way, {count} more do not fit into {self._size}; try again later",
                code="rate_limit_exceeded",
                retry_after=1,
            )
        self.used += count


class Reservation:
    """What one request has of the room."""

    def __init__(self, room: Room) -> None:
        self._room, self.count = room, 0

    def take(self, count: int) -> None:
        """More of it; raises ApiError."""
        self._room.take(count)
        self.count += count
