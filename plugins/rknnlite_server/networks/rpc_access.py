"""Who is let in over gRPC: calls with a key, within its limits; and what the audit is told of administrative ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Optional

import grpc
from rknnlite_protocol.grpc_messages import HEALTH, INFERENCE

from ..app_state import State
from ..audit import is_administrative
from ..errors import ApiError
from ..rate_limits import Account, account_of_task
from .rpc_errors import abort, status_name

__all__ = ["Access", "audited", "authorization"]

_OPEN = frozenset(
    {f"/{HEALTH}/Check", f"/{HEALTH}/Watch", f"/{INFERENCE}/ServerLive", f"/{INFERENCE}/ServerReady"}
)
_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
Handler = Callable[[Any, Any], Any]


class Access(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets calls with a key through, before their messages are read."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        if details.method in _OPEN:
            return await continuation(details)
        account = self._state.keyring.account(authorization(details.invocation_metadata))
        if account is None:
            return grpc.stream_stream_rpc_method_handler(self._without_key(details.method))
        handler = await continuation(details)
        for kind in _KINDS:
            call = getattr(handler, kind, None)
            if call is not None:
                wrap = self._limited_stream if kind.endswith("_stream") else self._limited
                return handler._replace(**{kind: wrap(call, account, details.method)})
        return handler

    def _without_key(self, path: str) -> Handler:
        async def refuse(requests: Any, context: Any) -> AsyncIterator[Any]:
            self._told("", path, context)
            yield await abort(context, ApiError(401, "authentication_error", "Invalid API Key"))

        return refuse

    def _limited(self, call: Handler, account: Account, path: str) -> Handler:
        async def limited(request: Any, context: Any) -> Any:
            with contextlib.ExitStack() as held:
                await self._enter(held, account, path, context)
                return await call(request, context)

        return limited

    def _limited_stream(self, call: Handler, account: Account, path: str) -> Handler:
        async def limited(request: Any, context: Any) -> AsyncIterator[Any]:
            with contextlib.ExitStack() as held:
                await self._enter(held, account, path, context)
                async for answer in call(request, context):
                    yield answer

        return limited

    async def _enter(self, held: contextlib.ExitStack, account: Account, path: str, context: Any) -> None:
        account_of_task.set(account)
        try:
            held.enter_context(account.request())
        except ApiError as error:
            self._told(account.name, path, context, "RESOURCE_EXHAUSTED")
            await abort(context, error)

    def _told(self, name: str, path: str, context: Any, status: str = "UNAUTHENTICATED") -> None:
        if is_administrative(path):
            self._state.audit.write(name, context.peer(), path, status, 0.0)


def audited(call: Handler, path: str, state: State) -> Handler:
    """The same call with a line in the audit at its end, where it is administrative; others stay as they are."""
    if not is_administrative(path):
        return call

    async def told(request: Any, context: Any) -> Any:
        start, failed = time.perf_counter(), True
        try:
            answer = await call(request, context)
            failed = False
            return answer
        finally:
            account: Optional[Account] = account_of_task.get()
            name = account.name if account is not None else ""
            seconds = time.perf_counter() - start
            state.audit.write(name, context.peer(), path, status_name(context, failed), seconds)

    return told


def authorization(metadata: Any) -> str:
    """As headers of HTTP are read: bytes as Latin-1, whatever they are."""
    given = dict(metadata or ()).get("authorization", "")
    if isinstance(given, str):
        given = given.encode("utf-8", "surrogateescape")
    return bytes(given).decode("latin-1")
