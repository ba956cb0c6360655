"""The process that has the library: it reads requests from a socket and writes what the model says to it.

One thread reads, because an abort comes while a run goes on; another one makes all calls of the library but that.
What the library prints goes to the parent through the pipe that stdout and stderr are.
"""

from __future__ import annotations

import ctypes as ct
import os
import queue
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Optional

from rknnlite.errors import RknnError

from .failure import failure_of
from .identify import LibraryUnknown
from .loader import Api, find, replaced
from .native import NativeModel
from .requests import CallbackResult, Run, Start
from .wire import Channel, Message

__all__ = ["main"]

_LINES = 1  # _IOLBF


class _Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._model: Optional[NativeModel] = None
        self._libc = ct.CDLL(None)
        self._lines_at_once()
        threading.Thread(target=self._serve, daemon=True).start()

    def read(self) -> None:
        """Take messages until the other side is gone."""
        while True:
            try:
                kind, value = self._channel.receive()
            except (EOFError, OSError, RknnError):
                return
            if kind is Message.REQUEST:
                self._requests.put(value)
            elif kind is Message.ABORT and self._model is not None:
                self._model.abort()

    def _serve(self) -> None:
        while True:
            number, name, *args = self._requests.get()
            try:
                kind, answer = Message.ANSWER, self._answer(name, args)
            except Exception as error:
                kind, answer = Message.FAILED, failure_of(error)
            self._libc.fflush(None)
            os.write(2, b"\0%d\n" % number)  # the parent knows by this that all lines of the call have come
            try:
                self._channel.send(kind, answer)
            except OSError:
                os._exit(0)
            if name == "close":
                os._exit(0)

    def _answer(self, name: str, args: list[Any]) -> Any:
        if name == "open":
            return self._open(*args)
        if self._model is None:
            raise RknnError("no model is open")
        if name == "run":
            (request,) = args
            assert isinstance(request, Run)
            return self._model.run(request, self._send_result)
        if name == "close":
            return self._model.close()
        return self._model.call(name, *args)

    def _open(self, path: str, version: Optional[str], known: str, start: Start) -> None:
        identity = find(Path(path), version)
        if identity.version != known:
            raise LibraryUnknown(replaced(identity.path, known, identity.version))
        self._model = NativeModel(Api(identity), start)

    def _send_result(self, result: CallbackResult) -> None:
        if result.hidden is None and result.logits is None:
            self._channel.send_token(result)
        else:
            self._channel.send(Message.RESULT, result)

    def _lines_at_once(self) -> None:
        """Have what is printed leave the process line by line: a crash takes the rest along."""
        for stream in ("stdout", "stderr"):
            try:
                file = ct.c_void_p.in_dll(self._libc, stream)
            except ValueError:  # another C library
                continue
            self._libc.setvbuf(file, None, _LINES, 0)


def main() -> None:
    """Serve the socket whose number is the last argument."""
    sock = socket.socket(fileno=int(sys.argv[-1]))
    _Worker(Channel(sock)).read()
    os._exit(0)
