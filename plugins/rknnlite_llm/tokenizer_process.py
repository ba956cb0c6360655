"""The process of a tokenizer whose regular expressions nobody knows; ``isolated_tokenizer`` starts it and sits at the other end.

Requests are JSON objects of one member each: ``open`` with a path, ``encode`` with a text and whether special tokens are
put around it, ``decode`` with token ids and whether special ones are left out. Answers have ``result`` or ``error``.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
from typing import Any, Optional

from rknnlite.errors import RknnError

from .isolated_tokenizer import receive, send
from .tokenizer import Tokenizer

__all__ = ["main"]

_ROOM = 4 << 30
"""Address space of the process, which a hostile normalizer may want more of."""


class _Server:
    """One tokenizer."""

    def __init__(self) -> None:
        self._tokenizer: Optional[Tokenizer] = None

    def answer(self, step: str, argument: Any) -> Any:
        """The result of a request."""
        if step == "open":
            self._tokenizer = Tokenizer(argument, isolate=False)
            return len(self._tokenizer)
        assert self._tokenizer is not None
        return self._tokenizer.encode(*argument) if step == "encode" else self._tokenizer.decode(*argument)


def main() -> None:
    """Answer requests on the socket that is the last argument until that is closed."""
    with contextlib.suppress(OSError, ValueError):  # less is allowed here anyway
        resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
    server = _Server()
    with socket.socket(fileno=int(sys.argv[-1])) as sock:
        while True:
            try:
                request = receive(sock)
            except EOFError:
                return
            try:
                ((step, argument),) = request.items()
                answer = {"result": server.answer(step, argument)}
            except (RknnError, AssertionError, AttributeError, TypeError, ValueError, OverflowError) as error:
                answer = {"error": str(error)}
            send(sock, answer)
