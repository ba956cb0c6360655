"""The process that computes for one program in another language: a thread for each of its contexts.

The library starts it with three descriptors: 3 gives a socket for each context, 4 is the leash, by which the kernel
kills this process when the program ends, and 5 is the program's stderr.
"""

from __future__ import annotations

import array
import logging
import os
import socket
import struct
import threading
from pathlib import Path

from rknnlite.errors import ParamInvalid
from rknnlite.log import level, logger

from .context_thread import ContextThread
from .open_contexts import OpenContexts
from .protocol import PROTOCOL_VERSION, Descriptors, Gone, Wire

__all__ = ["main"]

_CONTROL, _LEASH, _STDERR = 3, 4, 5
_NUMBER = struct.Struct("=Q")


def main() -> None:
    """Serve until the program ends."""
    os.closerange(_STDERR + 1, _most_descriptors())
    control = socket.socket(fileno=_CONTROL)
    control.sendall(struct.pack("=II", PROTOCOL_VERSION, os.getpid()))
    os.dup2(_STDERR, 1)
    os.dup2(_STDERR, 2)
    os.close(_STDERR)
    _show_warnings()
    contexts = OpenContexts()
    while True:
        try:
            number, sock = _next(control)
        except Gone:
            os._exit(0)  # nothing here would have to be written
        except ParamInvalid as error:
            logger.error("no context can be opened: %s", error)
            continue
        try:
            threading.Thread(target=_serve, args=(contexts, number, sock), daemon=True).start()
        except RuntimeError as error:  # no more threads; the program finds its end closed
            logger.error("no context can be opened: %s", error)
            sock.close()


def _show_warnings() -> None:
    """Warnings go to the program's stderr, unless ``RKNN_LOG_LEVEL`` says what does."""
    if level() is None:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(logging.Formatter("%(levelname).1s rknnlite: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False


def _serve(contexts: OpenContexts, number: int, sock: socket.socket) -> None:
    ContextThread(contexts, number, Wire(sock)).serve()


def _next(control: socket.socket) -> tuple[int, socket.socket]:
    """Number and socket of a new context. Raises ParamInvalid where no socket came, and Gone."""
    room = socket.CMSG_SPACE(array.array("i").itemsize)
    data, extra, _, _ = control.recvmsg(_NUMBER.size, room, socket.MSG_CMSG_CLOEXEC)
    given = Descriptors.of(extra)
    try:
        if len(data) < _NUMBER.size:
            raise Gone
        return _NUMBER.unpack(data)[0], given.take_socket()
    finally:
        given.close()


def _most_descriptors() -> int:
    try:
        return max(int(entry.name) for entry in Path("/proc/self/fd").iterdir()) + 1
    except OSError:
        return 4096
