"""Malformed calls: a typed answer each, the context's thread goes on, no descriptor stays open."""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from rknnlite_librknnrt.context_thread import ContextThread
from rknnlite_librknnrt.open_contexts import OpenContexts
from rknnlite_librknnrt.protocol import Call, Wire

MODEL = Path(__file__).parents[2] / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
Told = tuple[int, tuple[int, ...], bytes]


class Talk:
    """One context of a program."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self._wire = sock, Wire(sock)

    def __call__(
        self, call: int, payload: bytes = b"", args: tuple[int, ...] = (), fds: tuple[int, ...] = ()
    ) -> Told:
        self._wire.ask(call, payload, args, fds)
        return self._wire.told()


class TalkHere(Talk):
    """The thread that serves it is in this process."""

    def __init__(self) -> None:
        sock, other = socket.socketpair()
        super().__init__(sock)
        self._thread = threading.Thread(
            target=ContextThread(OpenContexts(), 1, Wire(other)).serve, daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        self.sock.close()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def talk() -> Iterator[Talk]:
    talk = TalkHere()
    yield talk
    talk.end()


def test_a_path_that_is_not_utf8(talk: Talk) -> None:
    code, _, said = talk(Call.INIT, b"/nowhere/\xff\xfe.rknn", (0, 0, 0))
    assert code == -6 and b"nowhere" in said
    assert talk(Call.QUERY)[0] < 0  # it still answers


@pytest.mark.parametrize("call", list(Call))
def test_descriptors_of_malformed_calls(call: Call) -> None:
    with Path(os.devnull).open("rb") as file:
        before = len(list(Path("/proc/self/fd").iterdir()))
        talk = TalkHere()
        for payload in (b"", b"\xff" * 7):
            assert talk(call, payload, (1 << 63,) * 5, (file.fileno(),) * 3)[0] <= 0
        talk.end()
        assert len(list(Path("/proc/self/fd").iterdir())) == before


@contextmanager
def server() -> Iterator[tuple[int, Callable[[], Talk]]]:
    """The real process: its pid, and what opens a context there."""
    control, theirs = socket.socketpair()
    leash, end = os.pipe()
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, 50) for file in (theirs.fileno(), leash, 2)]
    moved = "; ".join(f"os.dup2({number}, {place})" for number, place in zip(high, (3, 4, 5)))
    program = f"import os; {moved}; from rknnlite_librknnrt.server import main; main()"
    process = subprocess.Popen([sys.executable, "-c", program], pass_fds=high, stderr=subprocess.DEVNULL)
    for file in (leash, *high):
        os.close(file)
    theirs.close()
    numbers = itertools.count(1)

    def context() -> Talk:
        ours, its = socket.socketpair()
        with its:
            socket.send_fds(control, [struct.pack("=Q", next(numbers))], [its.fileno()])
        return Talk(ours)

    try:
        with control:
            assert struct.unpack("=II", control.recv(8))[1] == process.pid
            yield process.pid, context
    finally:
        os.close(end)
        assert process.wait(20) == 0


@pytest.mark.slow
def test_five_thousand_malformed_calls_leave_no_descriptor_in_the_server() -> None:
    """Calls of every kind in any order, with descriptors that they do not take, some on contexts that are open."""
    random = Random(7)
    with server() as (pid, context), Path(os.devnull).open("rb") as file:

        def held() -> int:
            return len(list(Path(f"/proc/{pid}/fd").iterdir()))

        def some(count: int) -> None:
            talk = context()
            if random.random() < 0.5:
                assert talk(Call.INIT, bytes(MODEL), (0, 0, 0))[0] == 0
            for _ in range(count):
                payload = random.randbytes(random.choice((0, 3, 16, 64, 200)))
                args = tuple(random.choice((0, 1, 2, 1 << 20, 1 << 63)) for _ in range(5))
                call = random.choice([call for call in Call if call != Call.CLOSE])
                talk(call, payload, args, (file.fileno(),) * random.randrange(4))
            talk.sock.close()

        def settled() -> int:
            """Threads end a moment after their sockets."""
            for _ in range(100):
                before = held()
                time.sleep(0.05)
                if before == held():
                    break
            return before

        some(50)
        before = settled()
        for _ in range(100):
            some(50)
        assert settled() == before
