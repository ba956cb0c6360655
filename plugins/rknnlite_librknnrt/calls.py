"""What handles the calls of one context, and which contexts are open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Optional, TypeVar

from rknnlite.errors import ContextInvalid
from rknnlite.spi import Context

from .protocol import Request

__all__ = ["Answer", "Desks", "Handler"]

Thing = TypeVar("Thing")


class Answer:
    """What a call answers: bytes, numbers, descriptors."""

    __slots__ = ("args", "fds", "payload")

    def __init__(self, payload: bytes = b"", args: tuple[int, ...] = (), fds: tuple[int, ...] = ()) -> None:
        self.payload, self.args, self.fds = payload, args, fds


Handler = Callable[[Request], Optional[Answer]]


class Desks:
    """The open models of the program by their numbers, for those that share weights or are duplicated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Any] = {}

    def add(self, number: int, opened: Any) -> None:
        """Make a context known; of librknn3_api a model, a session or a chat server."""
        with self._lock:
            self._open[number] = opened

    def find(self, number: int) -> Context:
        """The context of that number; raises ContextInvalid."""
        with self._lock:
            found = self._open.get(number)
        if not isinstance(found, Context) or found.closed:
            raise ContextInvalid(f"there is no open context {number} to share the weights of")
        return found

    def get(self, number: int, kind: type[Thing]) -> Thing:
        """What is open under that number, if it is of that kind; raises ContextInvalid."""
        with self._lock:
            found = self._open.get(number)
        if not isinstance(found, kind):
            raise ContextInvalid(f"there is no open {kind.__name__.lower().rstrip('3')} {number}")
        return found

    def all(self, kind: type[Thing]) -> list[Thing]:
        """All of a kind."""
        with self._lock:
            return [found for found in self._open.values() if isinstance(found, kind)]

    def forget(self, number: int) -> None:
        """It is closed."""
        with self._lock:
            self._open.pop(number, None)
