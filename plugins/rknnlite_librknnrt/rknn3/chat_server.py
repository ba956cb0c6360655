"""The chat server of ``start_server``: rknnlite's own command, in a process that the kernel ends with this one."""

from __future__ import annotations

import ctypes as ct
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text
from rknnlite.files.writing import write_file
from rknnlite.native.processes import python_main

from ..calls import Reply
from ..open_contexts import OpenContexts
from ..protocol import Callback, Gone, Request, Wire

__all__ = ["main", "serve", "stop"]

_INITED, _EXITED, _ERROR = range(3)
_PR_SET_PDEATHSIG = 1
_PATIENCE = 0.1
"""Seconds between two questions whether the model is loaded."""


class ChatServer:
    """One chat server."""

    def __init__(self, file: Path) -> None:
        self._url = _health(file)
        command = python_main(__name__, str(os.getpid()), str(file), options=["-E"])
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let it answer what it has begun, and end."""
        self._stopped.set()
        self._process.send_signal(signal.SIGTERM)

    def wait(self, ready: Callable[[], None]) -> Optional[int]:
        """Until it has ended; ``ready`` hears once that models are loaded. Its status, None after ``stop``."""
        waiting = True
        while True:
            try:
                status = self._process.wait(_PATIENCE if waiting else None)
                return None if self._stopped.is_set() else status
            except subprocess.TimeoutExpired:
                if _answers(self._url):
                    waiting = False
                    ready()


def serve(request: Request, contexts: OpenContexts, number: int) -> Reply:
    """Run a server until it ends. Raises ContextInvalid where one runs, ParamInvalid for unusable settings."""
    if contexts.all(ChatServer):
        raise ContextInvalid("a server runs already; call stop_server first")
    asks = Wire(request.fds.take_socket())
    with tempfile.TemporaryDirectory(prefix="rknnlite-") as folder:
        try:
            chat = ChatServer(_file(request.payload, Path(folder)))
            contexts.add(number, chat)
            status = chat.wait(lambda: _tell(asks, _INITED))
            _tell(asks, _ERROR if status else _EXITED)
        finally:
            contexts.forget(number)
            asks.close()
    if status:
        raise RknnError(f"the chat server has ended with status {status}; its lines above say why")
    return Reply()


def stop(contexts: OpenContexts) -> Reply:
    """End the server, if one runs."""
    for chat in contexts.all(ChatServer):
        chat.stop()
    return Reply()


def _file(payload: bytes, folder: Path) -> Path:
    """The file of parameters that the program names, or one with what it says."""
    text = payload.decode("utf-8", "surrogateescape")
    if not text.lstrip().startswith("{"):
        return Path(text)
    file = folder / "params.json"
    write_file(file, payload, 0o600)
    return file


def _health(file: Path) -> str:
    """Where the server says whether it is ready. Raises ParamInvalid."""
    try:
        found: Any = parse_json(read_text(file))
        host, port = found.get("host", "127.0.0.1"), int(found.get("port", 8080))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ParamInvalid(f"{file} is no file of parameters: {error}") from None
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    return f"http://{host}:{port}/health"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE * 10) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def _tell(asks: Wire, status: int) -> None:
    try:
        asks.ask(Callback.STATUS_3, args=(status,))
        asks.result()
    except Gone:
        pass


def main() -> None:
    """The server's process: it ends with the one that started it, at once."""
    parent, file = int(sys.argv[1]), sys.argv[2]
    ct.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    sys.argv = ["rknnlite", "serve", "--params-file", file]
    runpy.run_module("rknnlite", run_name="__main__")
