"""Which contexts of the program are open."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

from rknnlite.errors import ContextInvalid
from rknnlite.spi import Context

__all__ = ["OpenContexts"]

Thing = TypeVar("Thing")


class OpenContexts:
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
            raise ContextInvalid(f"there is no open {kind.__name__.lower()} {number}")
        return found

    def all(self, kind: type[Thing]) -> list[Thing]:
        """All of a kind."""
        with self._lock:
            return [found for found in self._open.values() if isinstance(found, kind)]

    def forget(self, number: int) -> None:
        """It is closed."""
        with self._lock:
            self._open.pop(number, None)
