"""The messages of gRPC, from the definitions beside this file (``messages.desc``; extra ``remote`` or ``server``).

They live in a pool of descriptors of their own: clients such as Triton's and KServe's bring messages of the same names,
and may be imported in the same process.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["BOARD", "HEALTH", "INFERENCE", "Method", "message", "methods"]

INFERENCE = "inference.GRPCInferenceService"
HEALTH = "grpc.health.v1.Health"
BOARD = "rknnlite.Board"


class Method(NamedTuple):
    """A call of a service: its path, the classes of its messages, and which side sends several."""

    path: str
    request: Any
    response: Any
    requests_stream: bool
    responses_stream: bool


@functools.cache
def message(name: str) -> Any:
    """The class of a message by its full name, ``inference.ModelInferRequest``; raises ImportError without protobuf."""
    from google.protobuf import message_factory

    descriptor = _pool().FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return _old_factory().GetPrototype(descriptor)  # protobuf before 4.22


@functools.cache
def methods(service: str) -> Mapping[str, Method]:
    """The calls of a service by name."""
    found = {}
    for method in _pool().FindServiceByName(service).methods:
        found[method.name] = Method(
            f"/{service}/{method.name}",
            message(method.input_type.full_name),
            message(method.output_type.full_name),
            *_streams(service, method.name),
        )
    return found


@functools.cache
def _definitions() -> Any:
    from google.protobuf import descriptor_pb2

    return descriptor_pb2.FileDescriptorSet.FromString((Path(__file__).parent / "messages.desc").read_bytes())


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for file in _definitions().file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def _old_factory() -> Any:
    from google.protobuf import message_factory

    return message_factory.MessageFactory(_pool())


def _streams(service: str, method: str) -> tuple[bool, bool]:
    """By the definition itself: descriptors of old versions of protobuf do not tell."""
    for file in _definitions().file:
        for candidate in file.service:
            if f"{file.package}.{candidate.name}" == service:
                entry = next(entry for entry in candidate.method if entry.name == method)
                return entry.client_streaming, entry.server_streaming
    raise KeyError(service)
