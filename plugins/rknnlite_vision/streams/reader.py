"""The thread that reads a source, and the pictures that wait for a worker."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

from rknnlite.errors import RknnError, RunTimeout

from .figures import Figures
from .stages import named

__all__ = ["Numbered", "Reader"]

_TICK = 0.1  # seconds between looks whether the source still gives something


class Numbered(NamedTuple):
    """A picture: which one it is, from 1, and when it was there."""

    number: int
    value: Any
    read: float


class Reader:
    """Reads ahead as far as there is room; of a live source the oldest picture goes where there is none."""

    def __init__(self, source: Iterable[Any], room: int, stall: float, figures: Figures) -> None:
        self.live = bool(getattr(source, "live", False))
        self._source, self._room, self._stall, self._figures = source, room, stall, figures
        self._waiting: deque[Numbered] = deque()
        self._change = threading.Condition()
        self._ended = self._stopped = False
        self._problem: Optional[RknnError] = None
        self._asked: Optional[float] = None  # since when the source has been asked for a picture
        self._thread = threading.Thread(target=self._read, name="rknnlite-pipeline-source", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more; ``take`` returns None."""
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def join(self) -> None:
        """Until the source is closed; not where it stalls, which cannot be ended from outside."""
        while self._thread.is_alive() and not self._stalls:
            self._thread.join(_TICK)

    def take(self) -> Optional[Numbered]:
        """The oldest picture that waits; None at the end. Raises RunTimeout, and what the source raised."""
        with self._change:
            while not (self._waiting or self._ended or self._stopped):
                if self._stalls:
                    error = RunTimeout(f"it stalls: nothing came for {self._stall:g} s")
                    raise named("source", self._figures.read + 1, error)
                self._change.wait(_TICK)
            if self._stopped:
                return None
            if self._waiting:
                self._change.notify_all()
                return self._waiting.popleft()
            if self._problem is not None:
                raise self._problem
            return None

    @property
    def _stalls(self) -> bool:
        asked = self._asked
        return asked is not None and time.perf_counter() - asked > self._stall

    def _read(self) -> None:
        try:
            self._read_all()
        except Exception as error:
            self._problem = named("source", self._figures.read + 1, error)
            self._problem.__cause__ = error
        finally:
            self._asked = None
            with self._change:
                self._ended = True
                self._change.notify_all()

    def _read_all(self) -> None:
        try:
            pictures = iter(self._source)
            while not self._stopped:
                self._asked = asked = time.perf_counter()
                value = next(pictures, self)  # itself: the end
                self._asked = None
                if value is self:
                    return
                self._offer(Numbered(self._figures.took(asked), value, time.perf_counter()))
        finally:
            self._asked = None
            getattr(self._source, "close", lambda: None)()

    def _offer(self, picture: Numbered) -> None:
        with self._change:
            while len(self._waiting) >= self._room and not self._stopped:
                if self.live:
                    self._waiting.popleft()
                    self._figures.lost()
                else:
                    self._change.wait()
            self._waiting.append(picture)
            self._change.notify_all()
