"""What is written in one turn of the event loop goes to the system at once."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("uvicorn")
from rknnlite_server.http_server import _MOST_JOINED, _Joined


class Transport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def pause_reading(self) -> str:
        return "paused"


async def both() -> tuple[Transport, _Joined]:
    transport = Transport()
    return transport, _Joined(transport, asyncio.get_running_loop())


def test_head_and_body_go_together() -> None:
    async def run() -> None:
        transport, joined = await both()
        joined.write(b"head ")
        joined.write(b"body")
        assert transport.sent == []
        await asyncio.sleep(0)
        assert transport.sent == [b"head body"]
        await asyncio.sleep(0)
        joined.write(b"next")
        await asyncio.sleep(0)
        assert transport.sent == [b"head body", b"next"]

    asyncio.run(run())


def test_large_data_go_now() -> None:
    async def run() -> None:
        transport, joined = await both()
        joined.write(b"head")
        joined.write(bytes(_MOST_JOINED))
        assert [len(part) for part in transport.sent] == [_MOST_JOINED + 4]
        await asyncio.sleep(0)
        assert len(transport.sent) == 1

    asyncio.run(run())


def test_closing_sends_what_waits_and_an_abort_does_not() -> None:
    async def run() -> None:
        transport, joined = await both()
        joined.write(b"last words")
        joined.close()
        assert transport.sent == [b"last words"] and transport.closing
        assert joined.pause_reading() == "paused"
        aborted, joined = await both()
        joined.write(b"lost")
        aborted.closing = True
        await asyncio.sleep(0)
        assert aborted.sent == []

    asyncio.run(run())
