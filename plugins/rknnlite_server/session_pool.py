"""Sessions of one model for many conversations: each turn goes where most of it lies in the KV cache already."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi.llm import LlmSession

__all__ = ["SessionPool"]


def _none() -> LlmSession:
    raise AssertionError("a pool that is closed makes nothing")


class SessionPool:
    """At most ``size`` sessions, made when they are first needed; for any number of threads."""

    def __init__(self, make: Callable[[], LlmSession], size: int) -> None:
        """Raises ParamInvalid unless there is room for one session."""
        if size < 1:
            raise ParamInvalid(f"a pool of {size} sessions; it needs one or more")
        self.size = size
        self._make = make
        self._lock = threading.Lock()
        self._free: list[LlmSession] = []  # the one that waits longest comes first
        self._taken: set[LlmSession] = set()
        self._closed = False

    @property
    def running(self) -> int:
        """Sessions that are in somebody's hands."""
        return len(self._taken)

    def take(self, tokens: Sequence[int] = ()) -> LlmSession:
        """A free session, the one whose cache holds most of the tokens' beginning; give it back with ``give``.

        Unless that spares half of the work, a new one is made before another conversation's cache is given up. Raises
        ContextInvalid when all are taken.
        """
        with self._lock:
            if self._closed:
                raise ContextInvalid("the sessions are closed; the server is stopping")
            cached = [session.cached(tokens) for session in self._free]
            best = max(range(len(cached)), key=cached.__getitem__, default=None)
            room = len(self._free) + len(self._taken) < self.size
            if best is not None and (2 * cached[best] >= max(1, len(tokens)) or not room):
                session = self._free.pop(best)
            elif room:
                session = self._make()
            else:
                raise ContextInvalid(f"all {self.size} sessions of the model are in use")
            self._taken.add(session)
            return session

    def give(self, session: LlmSession) -> None:
        """Give a session back when its run is over; one that has crashed is not given out again."""
        with self._lock:
            self._taken.discard(session)
            if not self._closed and session.usable:
                self._free.append(session)
                return
        session.close()

    def close(self) -> None:
        """Stop and close all sessions; may be called again. Taken ones are closed when they are given back."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
            taken = list(self._taken)
            self._make = _none  # what makes sessions has the pool: together they would stay until somebody looks for such circles
        for session in taken:
            session.stop()
        for session in free:
            session.close()
