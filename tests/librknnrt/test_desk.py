"""Malformed calls: a typed answer each, the context's thread goes on, no descriptor stays open."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rknnlite_librknnrt.calls import Desks
from rknnlite_librknnrt.desk import Desk
from rknnlite_librknnrt.protocol import Call, Wire

Told = tuple[int, tuple[int, ...], bytes]


class Talk:
    """One context of a program; the thread that serves it is in this process."""

    def __init__(self) -> None:
        self.sock, other = socket.socketpair()
        self._wire = Wire(self.sock)
        self._thread = threading.Thread(target=Desk(Desks(), 1, Wire(other)).serve, daemon=True)
        self._thread.start()

    def __call__(
        self, call: int, payload: bytes = b"", args: tuple[int, ...] = (), fds: tuple[int, ...] = ()
    ) -> Told:
        self._wire.ask(call, payload, args, fds)
        return self._wire.told()

    def end(self) -> None:
        self.sock.close()
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def talk() -> Iterator[Talk]:
    talk = Talk()
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
        talk = Talk()
        for payload in (b"", b"\xff" * 7):
            assert talk(call, payload, (1 << 63,) * 5, (file.fileno(),) * 3)[0] <= 0
        talk.end()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
