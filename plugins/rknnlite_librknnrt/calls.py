"""What handles the calls of one context, and which contexts are open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Optional

from rknnlite.errors import ContextInvalid
from rknnlite.spi import Context

from .protocol import Request

__all__ = ["Answer", "Desks", "Handler"]


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
        self._open: dict[int, Context] = {}

    def add(self, number: int, context: Context) -> None:
        """Make a context known."""
        with self._lock:
            self._open[number] = context

    def find(self, number: int) -> Context:
        """The context of that number; raises ContextInvalid."""
        with self._lock:
            found = self._open.get(number)
        if found is None or found.closed:
            raise ContextInvalid(f"there is no open context {number} to share the weights of")
        return found

    def forget(self, number: int) -> None:
        """It is closed."""
        with self._lock:
            self._open.pop(number, None)
