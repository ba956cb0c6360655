"""The Open Inference Protocol over gRPC, in the event loop of the HTTP server."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, Optional

import grpc
from rknnlite_protocol.grpc_messages import BOARD, HEALTH, INFERENCE, methods

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.files.reading import read_bytes

from ..app_state import State
from ..http_server import HEAD_SECONDS, listening
from ..settings import ServerSettings
from .board_rpc import board_calls
from .inference_rpc import health_calls, inference_calls
from .rpc_access import Access
from .rpc_calls import Handler, handlers
from .rpc_counting import CountedCalls
from .rpc_errors import outcome
from .rpc_traced import TracedCalls

__all__ = ["Rpc", "outcome"]

IDLE_SECONDS = 300.0
"""A connection without a call is closed after them; clients connect anew by themselves."""
_BOUNDED_INFLATION = (1, 85)  # versions before inflate a message of any size before they look at the limit


class Rpc:
    """The gRPC server of an application: ``bind`` anywhere, ``start`` and ``stop`` in its event loop."""

    def __init__(self, state: State) -> None:
        self.state, self.port = state, state.settings.grpc_port
        self._bound: list[socket.socket] = []
        self._server: Any = None
        self._stopping: Optional[asyncio.Future[None]] = None

    @property
    def address(self) -> str:
        """Where clients connect: ``HOST:PORT``, the port known once it is bound."""
        host = self.state.settings.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def bind(self) -> None:
        """Take the port, before anything else is done; raises BackendUnavailable where another server has it."""
        if self._bound:
            return
        try:
            self._bound = listening(self.state.settings.host, self.port)
        except (OSError, UnicodeError, OverflowError) as error:
            raise _taken(self.address, error) from None
        self.port = self._bound[0].getsockname()[1]

    async def start(self) -> None:
        """Raises BackendUnavailable where the port is taken, ParamInvalid for an unusable certificate."""
        self.bind()
        self.ending = asyncio.Event()  # made here: it belongs to the event loop
        settings = self.state.settings
        self._server = server = grpc.aio.server(interceptors=self._interceptors(), options=_options(settings))
        for service, answers in self._services().items():
            server.add_generic_rpc_handlers((handlers(service, answers, self.state),))
        try:
            self._listen(settings)
        except RuntimeError as error:
            raise _taken(self.address, error) from None
        finally:
            self._release()
        await server.start()

    async def stop(self, grace: float) -> None:
        """Take no more calls, and end those under way after ``grace`` seconds; may be called again."""
        self._release()
        if self._server is None:
            return
        if self._stopping is None:
            self.ending.set()
            self._stopping = asyncio.ensure_future(self._server.stop(grace))
        await asyncio.shield(self._stopping)

    def _listen(self, settings: ServerSettings) -> None:
        """On the addresses that are bound: two sockets may have one port as long as neither listens."""
        credentials = _credentials(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
        for made in self._bound:
            host = made.getsockname()[0]
            address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
            if credentials is None:
                found = self._server.add_insecure_port(address)
            else:
                found = self._server.add_secure_port(address, credentials)
            if found != self.port:
                raise RuntimeError("the address cannot be used")
            if host in ("0.0.0.0", "::"):
                break  # gRPC takes both families by itself

    def _release(self) -> None:
        bound, self._bound = self._bound, []
        for made in bound:
            made.close()

    def _interceptors(self) -> list[Any]:
        """Those that have something to do: each costs every call some time."""
        found: list[Any] = []
        if self.state.traces is not None:
            found.append(TracedCalls(self.state.traces))
        if self.state.metrics is not None:
            services = self._services()
            paths = [methods(service)[name].path for service, answers in services.items() for name in answers]
            found.append(CountedCalls(self.state.metrics, paths))
        if self.state.settings.has_keys:
            found.append(Access(self.state))
        return found

    def _services(self) -> dict[str, dict[str, Handler]]:
        return {
            INFERENCE: inference_calls(self.state, self.ending),
            BOARD: board_calls(self.state),
            HEALTH: health_calls(self.state, self.ending),
        }


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
    """Limits: of messages, of silence, of connections that are none."""
    options = [
        ("grpc.max_receive_message_length", settings.max_body + (1 << 16)),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", 1024),
        ("grpc.server_handshake_timeout_ms", int(HEAD_SECONDS * 1000)),
        ("grpc.max_connection_idle_ms", int(IDLE_SECONDS * 1000)),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]
    if not inflates():
        options.append(("grpc.compression_enabled_algorithms_bitset", 1))  # none but identity
    return options


def inflates() -> bool:
    """Whether compressed messages are taken: where their size is bounded before they are inflated."""
    numbers = [int(word) for word in grpc.__version__.split(".")[:2] if word.isdigit()]
    return tuple(numbers) >= _BOUNDED_INFLATION


def _credentials(certificate: str, key: str) -> Any:
    try:
        pair = (read_bytes(Path(key)), read_bytes(Path(certificate)))
        return grpc.ssl_server_credentials([pair])
    except (OSError, ValueError) as error:
        raise ParamInvalid(
            f"the certificate {certificate} or its key {key} cannot be used: {error}"
        ) from None


def _taken(address: str, error: object) -> BackendUnavailable:
    return BackendUnavailable(
        f"gRPC: {address} cannot be listened on ({error}); is another server running there? --grpc-port chooses another"
    )
