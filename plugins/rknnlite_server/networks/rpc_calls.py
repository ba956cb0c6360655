"""Calls of gRPC around their answers: how many there may be at a time, time for a message, errors.

Every call is registered as a stream of bytes, which is the same on the wire. So a message is read only when there is
room for it, and not waited for longer than ``BODY_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from rknnlite_protocol.grpc_messages import methods

from rknnlite.errors import InputInvalid, RknnError, shown

from .. import request_body
from ..app_state import State
from ..async_helpers import closing, within
from ..errors import ApiError
from .rpc_access import audited
from .rpc_errors import abort

__all__ = ["Handler", "handlers"]

_ROOM = 256  # calls of one name at a time; of ModelInfer that many may be arriving
Handler = Callable[[Any, Any], Any]


class _Room:
    """How many calls of a name are inside."""

    def __init__(self, name: str, state: State) -> None:
        self._name, self._state, self._inside = name, state, 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Raises ApiError where there is none."""
        if self._inside >= self._most():
            raise ApiError(
                503,
                "rate_limit_error",
                f"{self._inside} calls of {self._name} are under way; try again later",
                retry_after=1,
            )
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _most(self) -> int:
        if self._name != "ModelInfer":
            return _ROOM
        return _ROOM + sum(network.turnstile.most for network in self._state.repository.open)


def handlers(service: str, answers: dict[str, Handler], state: State) -> Any:
    """The calls of a service that are answered; others are UNIMPLEMENTED by gRPC itself."""
    made = {}
    for name, method in methods(service).items():
        if name not in answers:
            continue
        kind = "stream_stream" if method.responses_stream else "stream_unary"
        wrap = _guarded_stream if method.responses_stream else _guarded
        made[name] = getattr(grpc, f"{kind}_rpc_method_handler")(
            audited(wrap(answers[name], method, _Room(name, state)), method.path, state),
            response_serializer=method.response.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service, made)


def _guarded(answer: Handler, method: Any, room: _Room) -> Handler:
    async def call(requests: Any, context: Any) -> Any:
        try:
            with room.place():
                return await answer(await _asked(requests, method), context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await abort(context, error)

    return call


def _guarded_stream(answer: Handler, method: Any, room: _Room) -> Handler:
    async def call(requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            with room.place():
                asked = await _asked(requests, method)
                async with closing(answer(asked, context)) as found:
                    async for one in found:
                        yield one
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await abort(context, error)

    return call


async def _asked(requests: Any, method: Any) -> Any:
    """What a call is asked: an iterator over messages, or the one message."""
    return _parsed(requests, method) if method.requests_stream else await _only(requests, method)


async def _only(requests: Any, method: Any) -> Any:
    """The one message of a call; raises ApiError where it does not come, InputInvalid where it is none."""
    try:
        found = await within(requests.__anext__(), request_body.BODY_SECONDS)
    except StopAsyncIteration:
        raise InputInvalid("the call has no message") from None
    except asyncio.TimeoutError:
        raise ApiError(
            408,
            "invalid_request_error",
            f"the message was not complete within {request_body.BODY_SECONDS:g} s",
        ) from None
    return _message(found, method)


async def _parsed(requests: Any, method: Any) -> AsyncIterator[Any]:
    async for found in requests:
        yield _message(found, method)


def _message(found: bytes, method: Any) -> Any:
    try:
        return method.request.FromString(found)
    except RknnError:
        raise
    except Exception as error:  # DecodeError, and whatever else versions of protobuf say
        raise InputInvalid(
            f"{len(found)} bytes are no {method.request.DESCRIPTOR.name}: {shown(error)}"
        ) from None
