"""gRPC calls in the figures: as requests over HTTP are, by path and status."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc

from ..metrics import Metrics
from .rpc_errors import status_name

__all__ = ["CountedCalls"]

_ELSE = "other"  # so that made-up paths make no figures of their own
_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class CountedCalls(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Outside of all others, so that those who are sent away count too."""

    def __init__(self, found: Metrics, paths: Iterable[str]) -> None:
        self._metrics, self._paths = found, frozenset(paths)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        start = time.perf_counter()
        path = details.method if details.method in self._paths else _ELSE
        handler = await continuation(details)
        if handler is None:
            self._metrics.answered(path, grpc.StatusCode.UNIMPLEMENTED.name, time.perf_counter() - start)
            return None

        def ended(context: Any, failed: bool) -> None:
            self._metrics.answered(path, status_name(context, failed), time.perf_counter() - start)

        for kind in _KINDS:
            call = getattr(handler, kind)
            if call is not None:
                wrap = _counted_stream if kind.endswith("_stream") else _counted
                return handler._replace(**{kind: wrap(call, ended)})
        return handler


def _counted(call: Any, ended: Callable[[Any, bool], None]) -> Any:
    async def counted(request: Any, context: Any) -> Any:
        failed = True
        try:
            answer = await call(request, context)
            failed = False
            return answer
        finally:
            ended(context, failed)

    return counted


def _counted_stream(call: Any, ended: Callable[[Any, bool], None]) -> Any:
    async def counted(request: Any, context: Any) -> AsyncIterator[Any]:
        failed = True
        try:
            async for answer in call(request, context):
                yield answer
            failed = False
        finally:
            ended(context, failed)

    return counted
