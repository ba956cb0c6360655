"""A bare client: a channel and our own messages, without anybody's library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import grpc
from rknnlite_protocol.grpc_codec import parse_response, request_message
from rknnlite_protocol.grpc_messages import HEALTH, INFERENCE, message, methods
from rknnlite_protocol.requests import InferRequest, Tensor

__all__ = ["Client", "connected", "request_of", "told"]


class Client:
    """Calls by name; ``call("ModelReady", name="x")`` answers with the message."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def prepared(self, name: str, service: str = INFERENCE, raw: bool = False) -> Any:
        """What is called with a message, with bytes where ``raw``, or an iterator of them."""
        method = methods(service)[name]
        kind = ("stream" if method.requests_stream else "unary") + (
            "_stream" if method.responses_stream else "_unary"
        )
        return getattr(self.channel, kind)(
            method.path,
            request_serializer=None if raw else method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )

    def call(self, method: str, service: str = INFERENCE, /, **fields: Any) -> Any:
        return self.prepared(method, service)(methods(service)[method].request(**fields), timeout=60)

    def infer(self, name: str, inputs: Any, **options: Any) -> dict[str, Any]:
        answer = self.prepared("ModelInfer")(request_of(name, inputs, **options), timeout=60)
        return {tensor.name: tensor.data for tensor in parse_response(answer).outputs}

    def health(self, service: str = "") -> str:
        found = self.call("Check", HEALTH, service=service)
        kind = message("grpc.health.v1.HealthCheckResponse").DESCRIPTOR.enum_types_by_name["ServingStatus"]
        return str(kind.values_by_number[found.status].name)


def request_of(name: str, inputs: Any, **options: Any) -> Any:
    """The message of a request."""
    return request_message(InferRequest(name, [Tensor(*item) for item in inputs.items()], **options))


@contextlib.contextmanager
def connected(address: str, credentials: Any = None, **options: Any) -> Iterator[Client]:
    """A channel of its own."""
    chosen = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        *options.items(),
    ]
    if credentials is None:
        made = grpc.insecure_channel(address, options=chosen)
    else:
        made = grpc.secure_channel(address, credentials, options=chosen)
    with made as channel:
        yield Client(channel)


def told(error: Any) -> tuple[str, str, dict[str, Any]]:
    """Code, text and trailing metadata of what a call raised."""
    return error.code().name, error.details(), dict(error.trailing_metadata() or ())
