"""What the library and its server say to each other; the twin of ``client/common/protocol.h``, which a test compares."""

from __future__ import annotations

import array
import enum
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from rknnlite.errors import ParamInvalid
from rknnlite.native.processors import processors

__all__ = [
    "MOST_ARGS",
    "MOST_FDS",
    "NO_DESCRIPTORS",
    "PROTOCOL_VERSION",
    "Call",
    "Callback",
    "Descriptors",
    "Gone",
    "InitFact",
    "Request",
    "RunFlag",
    "Wire",
]

PROTOCOL_VERSION = 3
MOST_FDS = 64
MOST_ARGS = 5
_HEAD = struct.Struct(f"=II{MOST_ARGS}Q")
_ANSWER = struct.Struct(f"=iI{MOST_ARGS}Q")
_PIECE = 1 << 20
"""Bytes received at a time: room for them is taken first, and a head may promise more than ever comes."""
_WATCHED = 1e-4
"""Seconds without sleep."""
_MOST_PAUSE = 1023
"""Requests without such a try, where it was in vain again and again."""
_SEVERAL = processors() > 1
"""Whether the other end may run meanwhile."""
_CLOSED_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)
"""A plain number: one of ``enum`` takes longer."""
_ZEROS = (0,) * MOST_ARGS
_ROOM = socket.CMSG_SPACE(MOST_FDS * array.array("i").itemsize)


class Call(enum.IntEnum):
    """Calls of the libraries; those of librknn3_api end in 3, those of librkllmrt begin with LLM."""

    INIT = 1
    DUP = 2
    CLOSE = 3
    QUERY = 4
    CORE_MASK = 5
    BATCH_CORES = 6
    SHAPES = 7
    INPUTS = 8
    RUN = 9
    WAIT = 10
    OUTPUTS = 11
    MEMORY = 12
    FORGET = 13
    BIND = 14
    WEIGHTS = 15
    INTERNAL = 16
    SYNC = 17
    OPERATORS = 18
    MATMUL = 19
    MATMUL_BIND = 20
    MATMUL_MASK = 21
    MATMUL_QUANT = 22
    MATMUL_SCALE = 23
    MATMUL_SHAPE = 24
    MATMUL_RUN = 25
    NATIVE_B = 26
    INIT_3 = 27
    DEVICES_3 = 28
    LOAD_3 = 29
    MODEL_INIT_3 = 30
    DUP_3 = 31
    QUERY_3 = 32
    SHAPE_3 = 33
    RUN_3 = 34
    WAIT_3 = 35
    DUMP_3 = 36
    PROFILE_3 = 37
    PROFILE_MEMORY_3 = 38
    PLUGIN_3 = 39
    GIVEN_3 = 40
    KEY_3 = 41
    SESSION_3 = 42
    SESSION_CALLBACKS_3 = 43
    SESSION_RUN_3 = 44
    SESSION_STOP_3 = 45
    SESSION_STATE_3 = 46
    SESSION_PARAMS_3 = 47
    SESSION_TEMPLATE_3 = 48
    SESSION_TOOLS_3 = 49
    SESSION_POLICY_3 = 50
    SESSION_CLEAR_3 = 51
    SESSION_SAVE_3 = 52
    SESSION_LOAD_3 = 53
    CHAT_SERVER_3 = 54
    CHAT_STOP_3 = 55
    LLM_INIT = 56
    LLM_RUN = 57
    LLM_TEMPLATE = 58
    LLM_TOOLS = 59
    LLM_CLEAR = 60
    LLM_CUT = 61
    LLM_SIZES = 62
    LLM_LORA = 63
    LLM_LOAD = 64
    LLM_RELEASE = 65


class Callback(enum.IntEnum):
    """What the server asks the program for, on the second socket of a context with operators, of a session, or of a model."""

    NODE = 1
    INIT = 2
    COMPUTE = 3
    DESTROY = 4
    RESULT_3 = 5
    TOKENIZE_3 = 6
    EMBED_3 = 7
    SAMPLE_3 = 8
    OUTPUT_3 = 9
    STATUS_3 = 10
    LLM_RESULT = 11
    LLM_TOKENIZE = 12
    LLM_EMBED = 13


class RunFlag(enum.IntFlag):
    """Bits of the first argument of ``Call.RUN``."""

    WITH_INPUTS = 1
    WITH_OUTPUTS = 2
    NON_BLOCK = 4


class InitFact(enum.IntFlag):
    """Bits of what ``Call.INIT`` answers."""

    DYNAMIC = 1
    SYNCS = 2


class Gone(Exception):
    """The other end is closed."""


class Descriptors:
    """The descriptors that came with one message: what nobody takes over is closed with it."""

    def __init__(self, fds: Sequence[int] = ()) -> None:
        self._fds = list(fds)

    @classmethod
    def of(cls, extra: Sequence[tuple[int, int, bytes]]) -> Descriptors:
        """Those in the ancillary data of ``recvmsg``."""
        fds = array.array("i")
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        return cls(fds)

    def __len__(self) -> int:
        return len(self._fds)

    def __iter__(self) -> Iterator[int]:
        return iter(self._fds)

    @property
    def first(self) -> int:
        """The first one, to look at; it stays here. Raises ParamInvalid."""
        if not self._fds:
            raise ParamInvalid("the call wants a descriptor, none came with it")
        return self._fds[0]

    def take(self) -> int:
        """The first one, the caller's to close from now on. Raises ParamInvalid."""
        fd = self.first
        del self._fds[0]
        return fd

    def take_socket(self) -> socket.socket:
        """The same as a socket. Raises ParamInvalid: it is none."""
        try:
            sock = socket.socket(fileno=self.first)
        except OSError as error:
            raise ParamInvalid(f"the call wants a socket: {error.strerror}") from None
        self.take()
        return sock

    def close(self) -> None:
        """Close what was not taken over."""
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)


NO_DESCRIPTORS = Descriptors()
"""Of most messages; nobody adds to any."""

_Message = tuple[tuple[Any, ...], Descriptors]
"""The numbers of a head, and what came with it."""


class Request(NamedTuple):
    """One call, or one callback."""

    call: int
    args: tuple[int, ...]
    payload: bytes
    fds: Descriptors


class _Watch:
    """As ``struct watch`` of the library: waits for a request, without sleep where the last one came soon."""

    def __init__(self, sock: socket.socket) -> None:
        self._quick, self._failed, self._pause = False, 0, 0
        self._there = select.poll()
        self._there.register(sock, select.POLLIN)

    def wait(self, read: Callable[[], _Message]) -> _Message:
        """What ``read`` gives, which sleeps until there is something."""
        started = perf_counter()
        if self._quick and self._pause:
            self._pause -= 1
        elif self._quick:
            look, end = self._there.poll, started + _WATCHED
            while not (here := bool(look(0))) and perf_counter() < end:
                os.sched_yield()
            self._failed = self._failed // 2 if here else min(2 * self._failed + 1, _MOST_PAUSE)
            self._pause = 0 if here else self._failed
        message = read()
        self._quick = _SEVERAL and perf_counter() - started < _WATCHED
        return message


class Wire:
    """One socket; messages go over it whole."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._head = bytearray(_HEAD.size)
        self._watch = _Watch(sock)

    def receive(self) -> Request:
        """The next request; its descriptors are the caller's to close. Raises Gone."""
        (call, size, *args), given = self._watch.wait(self._message)
        try:
            return Request(call, tuple(args), self._exactly(size) if size else b"", given)
        except BaseException:
            given.close()
            raise

    def result(self) -> tuple[int, tuple[int, ...]]:
        """Code and numbers that the other end answers to a callback. Raises Gone."""
        code, args, _ = self.told()
        return code, args

    def told(self) -> tuple[int, tuple[int, ...], bytes]:
        """The same, and the bytes that come with them. Raises Gone."""
        (code, size, *args), given = self._message(_ANSWER)
        given.close()  # nothing that is asked is answered with any
        return code, tuple(args), self._exactly(size) if size else b""

    def answer(
        self, code: int, payload: bytes = b"", args: Sequence[int] = (), fds: Sequence[int] = ()
    ) -> None:
        """Answer a request. Raises Gone."""
        self._send(_ANSWER.pack(code, len(payload), *args, *_ZEROS[len(args) :]), payload, fds)

    def ask(self, call: int, payload: bytes = b"", args: Sequence[int] = (), fds: Sequence[int] = ()) -> None:
        """Send a request. Raises Gone."""
        self._send(_HEAD.pack(call, len(payload), *args, *_ZEROS[len(args) :]), payload, fds)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def _message(self, form: struct.Struct = _HEAD) -> _Message:
        """The numbers of a head, and the descriptors that came with it."""
        try:
            got, extra, _, _ = self._sock.recvmsg_into([self._head], _ROOM, _CLOSED_ON_EXEC)
        except OSError:
            raise Gone from None
        given = Descriptors.of(extra) if extra else NO_DESCRIPTORS
        if got < form.size:
            try:
                if not got:
                    raise Gone
                self._head[got:] = self._exactly(form.size - got)
            except BaseException:
                given.close()
                raise
        return form.unpack(self._head), given

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._sock.recv(min(size - len(parts), _PIECE))
            except OSError:
                raise Gone from None
            if not part:
                raise Gone
            parts += part
        return bytes(parts)

    def _send(self, head: bytes, payload: bytes, fds: Sequence[int]) -> None:
        try:
            if fds:
                data = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                sent = self._sock.sendmsg([head, payload], data)
                rest = (head + payload)[sent:]
                if rest:
                    self._sock.sendall(rest)
            else:
                self._sock.sendall(head + payload if payload else head)
        except OSError:
            raise Gone from None
