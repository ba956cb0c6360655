"""Rules of strangers, compiled in a process of its own first.

The grammar library counts most of what a grammar uses up, not all: a chain of a few thousand rules overflows its stack,
which ends the whole program, and some numbers in a schema cost many seconds. What gets through here is safe to compile.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import threading
from typing import Any, Optional

from rknnlite_programs.childprocess import ChildProcess

from rknnlite.errors import ParamInvalid, RknnError, RunTimeout
from rknnlite.native.processes import python_main

from . import with_llguidance as lib
from .isolated_tokenizer import receive, send

__all__ = ["GrammarCheck", "main"]

_SECONDS, _START_LIMIT = 5.0, 60.0
_ROOM = 2 << 30
"""Address space of the process."""
_STACK = 2 << 20
"""A quarter of what a thread has here, so that what fits there fits here."""


class GrammarCheck:
    """Called with a grammar it raises ParamInvalid, or it is well; from one thread at a time."""

    def __init__(self) -> None:
        self._child: Optional[ChildProcess] = None

    def __call__(self, grammar: str) -> None:
        try:
            answer = _ask(self._running(), grammar, _SECONDS)
        except RunTimeout:
            raise ParamInvalid(f"compiling it takes longer than {_SECONDS:g} s") from None
        except RknnError:
            raise ParamInvalid("compiling it takes too much memory, or it is nested too deeply") from None
        if answer:
            raise ParamInvalid(answer)

    def _running(self) -> ChildProcess:
        if self._child is None or not self._child.alive:
            child = ChildProcess("grammar check", python_main(__name__), stderr=subprocess.DEVNULL)
            _ask(child, "", _START_LIMIT)
            self._child = child
        return self._child

    def close(self) -> None:
        """End the process; may be called again."""
        if self._child is not None:
            self._child.close()


def _ask(child: ChildProcess, grammar: str, limit: float) -> str:
    with child.exchange("compiling a grammar", limit) as sock:
        send(sock, grammar)
        return str(receive(sock))


def main() -> None:
    """Answer on the socket that is the last argument: "" for a grammar that can be used, else why not."""
    with contextlib.suppress(OSError, ValueError):  # less is allowed here anyway
        resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
    with socket.socket(fileno=int(sys.argv[-1])) as sock:
        view = lib.tokenizer([bytes([byte]) for byte in range(256)] + [b""], (), 256, list)
        threading.stack_size(_STACK)
        while True:
            try:
                grammar = receive(sock)
            except EOFError:
                return
            said: list[str] = []
            thread = threading.Thread(target=_judge, args=(view, grammar, said), daemon=False)
            thread.start()
            thread.join()
            send(sock, said[0])


def _judge(view: Any, grammar: Any, said: list[str]) -> None:
    try:
        if grammar:
            lib.matcher(view, grammar)
        said.append("")
    except ParamInvalid as error:
        said.append(str(error))
    except BaseException as error:  # a library's panic is none of Exception
        said.append(lib.reason(f"{type(error).__name__}: {error}"))
