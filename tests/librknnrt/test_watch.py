"""How the server waits for requests: without sleep where the last one came soon, and that was not in vain lately."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from rknnlite_librknnrt import protocol
from rknnlite_librknnrt.protocol import Call, Gone, Wire


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Wire, Wire]]:
    monkeypatch.setattr(protocol, "_SEVERAL", True)
    monkeypatch.setattr(protocol, "_WATCHED", 0.05)
    here, there = socket.socketpair()
    wires = Wire(here), Wire(there)
    yield wires
    for wire in wires:
        wire.close()


def test_a_request_that_comes_at_once_makes_the_next_wait_a_watchful_one(ends: tuple[Wire, Wire]) -> None:
    server, client = ends
    client.ask(Call.RUN)
    assert server.receive().call == Call.RUN and server._watch._quick
    thread = threading.Timer(0.01, client.ask, (Call.WAIT,))
    thread.start()
    assert server.receive().call == Call.WAIT
    assert (server._watch._failed, server._watch._pause) == (0, 0)
    thread.join()


def test_what_was_in_vain_is_tried_less_and_less(ends: tuple[Wire, Wire]) -> None:
    server, client = ends
    watch = server._watch
    pauses = []
    for _ in range(3):
        watch._quick, watch._pause = True, 0
        late = threading.Timer(0.12, client.ask, (Call.RUN,))
        late.start()
        server.receive()
        late.join()
        pauses.append(watch._pause)
        assert not watch._quick, "the wait was a long one"
    assert pauses == [1, 3, 7]
    watch._quick, watch._pause = True, 2
    client.ask(Call.RUN)
    server.receive()
    assert watch._pause == 1
    watch._pause = 0
    client.ask(Call.RUN)
    server.receive()
    assert watch._failed == 3, "what succeeds makes up for it"


def test_with_one_processor_nobody_watches(ends: tuple[Wire, Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_SEVERAL", False)
    server, client = ends
    client.ask(Call.RUN)
    server.receive()
    assert not server._watch._quick


def test_the_end_is_noticed_while_watching(ends: tuple[Wire, Wire]) -> None:
    server, client = ends
    server._watch._quick = True
    client._sock.shutdown(socket.SHUT_RDWR)
    started = time.perf_counter()
    with pytest.raises(Gone):
        server.receive()
    assert time.perf_counter() - started < 5
