"""The way to a board: one channel, over which gRPC itself balances, looks after health, retries and stays connected."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import grpc
from rknnlite_protocol.grpc_messages import BOARD, HEALTH, INFERENCE, methods
from rknnlite_protocol.traces import outgoing

from rknnlite.errors import DeviceUnavailable, ParamInvalid, RknnError
from rknnlite.files.reading import read_bytes

from .boards import Board, host_of
from .errors import error_of

__all__ = ["Channel", "Metadata"]

Metadata = tuple[tuple[str, str], ...]
_ATTEMPTS = 5  # the most that gRPC makes
_RETRY_BUFFER = 256 << 20  # bytes of requests that may be sent again; gRPC's own 256 KiB hold no picture
_RETRY = {
    "maxAttempts": _ATTEMPTS,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
}
_AWAY = ["UNAVAILABLE", "CANCELLED"]  # the second by a front whose server ends
_BUSY = "RESOURCE_EXHAUSTED"
_SERVICES = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "healthCheckConfig": {"serviceName": ""},
    "methodConfig": [
        # These carry what they need and change nothing: they may be made again, by another board too. What comes in
        # pieces goes on where it broke off instead (``upload``, ``frames``).
        {
            "name": [{"service": INFERENCE, "method": "ModelInfer"}],
            "retryPolicy": {**_RETRY, "retryableStatusCodes": [*_AWAY, _BUSY]},
        },
        {
            "name": [{"service": BOARD, "method": name} for name in ("Describe", "Facts", "Perf", "Stored")],
            "retryPolicy": {**_RETRY, "retryableStatusCodes": _AWAY},
        },
    ],
}
_OPTIONS = [
    ("grpc.service_config", json.dumps(_SERVICES)),
    ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # a board is a neighbour; the proxy of a site does not know it
    ("grpc.use_local_subchannel_pool", 1),  # nothing stays connected behind a channel that was closed
]


class Channel:
    """Calls to a board; ``retries``: those that failed on their way are made again.

    Raises ParamInvalid for an unusable key or certificate, DeviceUnavailable for unknown hosts.
    """

    def __init__(self, board: Board, retries: bool = True) -> None:
        board.check_key()
        self.board = board
        self._metadata: Metadata = (("authorization", f"Bearer {board.key}"),) if board.key else ()
        options = [*_OPTIONS, ("grpc.enable_retries", int(retries))]
        target, name = _target(board)
        if board.encrypted and name:
            options.append(("grpc.ssl_target_name_override", name))
        if board.encrypted:
            self._channel = grpc.secure_channel(target, _credentials(board), options)
        else:
            self._channel = grpc.insecure_channel(target, options)

    @property
    def metadata(self) -> Metadata:
        """Of a call that is made now: the key, and the trace of a program that uses OpenTelemetry."""
        return self._metadata + outgoing()

    # -- calls --------------------------------------------------------------------------------------------

    def unary(self, service: str, name: str, raw: bool = False) -> Any:
        """What makes a call, to be kept for many; ``raw``: bytes go and come."""
        method = methods(service)[name]
        if raw:
            return self._channel.unary_unary(method.path)
        return self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )

    def call(self, service: str, name: str, seconds: float, doing: str, **fields: Any) -> Any:
        """Make a call once; raises what ``error_of`` says."""
        request = methods(service)[name].request(**fields)
        try:
            return self.unary(service, name)(request, timeout=seconds, metadata=self.metadata)
        except grpc.RpcError as error:
            raise self.error(error, doing) from None

    def stream(self, name: str, pieces: Iterator[Any], seconds: Optional[float] = None) -> Any:
        """A call of the board's service, or of inference, that sends several messages; what it answers."""
        service = BOARD if name in methods(BOARD) else INFERENCE
        method = methods(service)[name]
        kind = self._channel.stream_stream if method.responses_stream else self._channel.stream_unary
        serialise = method.request.SerializeToString if service == BOARD else None
        make = kind(
            method.path,
            request_serializer=serialise,
            response_deserializer=method.response.FromString if service == BOARD else None,
        )
        return make(pieces, timeout=seconds, metadata=self.metadata)

    def is_healthy(self, seconds: float) -> bool:
        """Whether the server says that it serves; never raises."""
        try:
            return bool(self.call(HEALTH, "Check", seconds, "asking").status == 1)
        except RknnError:
            return False

    def error(self, error: Any, doing: str) -> RknnError:
        """What a ``grpc.RpcError`` stands for."""
        return error_of(error, self.board, doing)

    def close(self) -> None:
        """End all calls and connections; may be called again."""
        self._channel.close()


def _credentials(board: Board) -> Any:
    if not board.ca:
        return grpc.ssl_channel_credentials()
    try:
        return grpc.ssl_channel_credentials(read_bytes(Path(board.ca)))
    except OSError as error:
        raise ParamInvalid(
            f"board {board.label}: its certificate {board.ca} cannot be read: {error.strerror}"
        ) from None


def _target(board: Board) -> tuple[str, str]:
    """Where gRPC connects to, and the name in the certificate where that does not follow from it.

    One address goes through gRPC's resolver, which asks again when a connection is lost; of several the hosts are
    looked up here: gRPC takes lists of numbers alone.
    """
    if len(board.addresses) == 1:
        return f"dns:///{board.addresses[0]}", board.server_name
    hosts = {host_of(address) for address in board.addresses}
    if board.encrypted and not board.server_name and len(hosts) > 1:
        raise ParamInvalid(
            f"board {board.label}: several addresses with certificates need server_name in remotes, the name that all the "
            "certificates have"
        )
    found: dict[int, list[str]] = {socket.AF_INET: [], socket.AF_INET6: []}
    for address in board.addresses:
        for family, numbers in _looked_up(board, address).items():
            found[family].append(numbers)
    # a list has one kind of numbers; IPv4 where both do
    family = max(found, key=lambda family: len(found[family]))
    if len(found[family]) < len(board.addresses):
        raise DeviceUnavailable(
            f"board {board.label}: some hosts have IPv4 addresses only, others IPv6 only; give all in one form"
        )
    scheme = "ipv4" if family == socket.AF_INET else "ipv6"
    return f"{scheme}:{','.join(found[family])}", board.server_name or (
        hosts.pop() if len(hosts) == 1 else ""
    )


def _looked_up(board: Board, address: str) -> dict[int, str]:
    """The numbers of a host with its port, one per family."""
    host, port = host_of(address), address.rpartition(":")[2]
    try:
        entries = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise DeviceUnavailable(
            f"board {board.label}: host {host} is unknown ({error.strerror or error}); is the name right?"
        ) from None
    found: dict[int, str] = {}
    for family, _, _, _, place in entries:
        if family in (socket.AF_INET, socket.AF_INET6):
            number = f"[{place[0]}]" if family == socket.AF_INET6 else place[0]
            found.setdefault(family, f"{number}:{port}")
    return found
