"""The HTTP server below the application: its sockets, its patience with clients, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "Server", "listening"]

HEAD_SECONDS = 30.0
"""Time for the head of a request to be complete."""
_MOST_JOINED = 1 << 16
"""Bytes that wait for the end of a turn."""
_LAST_WORDS = 3.0  # seconds to tell clients that their answers end here


class _Joined:
    """A transport by which what is written in one turn of the event loop is sent at once: head and body of a small answer.

    Each call to the system, and each time that it wakes the client, takes longer than all that is done for the answer here.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send soon, and large data now: its writer is told to wait where it is not taken."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _MOST_JOINED:
            self._flush()

    def _flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        """When everything is sent."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(H11Protocol):
    """HTTP/1.1; closed when the head of a request does not come within ``HEAD_SECONDS``."""

    _timer: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Joined(transport, self.loop))
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """Ends when its requests are answered, or ``drain`` seconds after it was told to; ``cut`` then ends what runs.

    ``beside`` ends another server meanwhile, within the seconds that it is given.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        drain: float,
        cut: Callable[[], None],
        beside: Optional[Callable[[float], Awaitable[None]]] = None,
    ) -> None:
        super().__init__(config)
        self._drain, self._cut, self._beside = drain, cut, beside

    def install_signal_handlers(self) -> None:
        """Older versions of uvicorn: none, ``signals`` has them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Newer versions of uvicorn: none, because they would end the process by the signal once more."""
        yield

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the server, a second SIGINT at once; in the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: Optional[list[socket.socket]] = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and self.should_exit:  # told to stop before it had begun
            await self.shutdown(sockets=sockets)

    async def shutdown(self, sockets: Optional[list[socket.socket]] = None) -> None:
        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(self._drain, lambda: loop.run_in_executor(None, self._cut)),
            loop.call_later(self._drain + _LAST_WORDS, self._abort),
        ]
        other = asyncio.ensure_future(self._beside(self._drain)) if self._beside is not None else None
        try:
            await super().shutdown(sockets=sockets)
            if other is not None:
                await other
        finally:
            for timer in timers:
                timer.cancel()

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # type: ignore[union-attr]


def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to all addresses of a host, on one port; 0 chooses a free one. Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    missing: Optional[OSError] = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            made = socket.socket(family, kind, protocol)
            bound.append(made)
            if os.name == "posix":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            chosen = bound[0].getsockname()[1] if len(bound) > 1 else port
            try:
                made.bind((address[0], chosen, *address[2:]))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                bound.pop().close()  # localhost is ::1 even where there is no IPv6
                missing = error
    except BaseException:
        for made in bound:
            made.close()
        raise
    if not bound:
        raise missing or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    return bound
