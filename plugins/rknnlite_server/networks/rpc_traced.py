"""gRPC calls in traces: a span for each, below the caller's where it sent one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from rknnlite_protocol.traces import Traces

from .rpc_errors import status_name

__all__ = ["TracedCalls"]

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
_OUR_FAULT = ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")


class TracedCalls(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Outside of all others."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)
        for kind in _KINDS:
            call = getattr(handler, kind, None)
            if call is not None:
                wrap = self._stream if kind.endswith("_stream") else self._one
                return handler._replace(**{kind: wrap(call, details)})
        return handler

    def _span(self, details: Any) -> Any:
        service, _, method = details.method.strip("/").partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        given = {key: value for key, value in details.invocation_metadata or () if isinstance(value, str)}
        return self._traces.span(f"{service}/{method}", "SERVER", given, attributes)

    def _ended(self, span: Any, context: Any, failed: bool) -> None:
        status = status_name(context, failed)
        span.set_attribute("rpc.grpc.status_code", grpc.StatusCode[status].value[0])
        if status in _OUR_FAULT:
            self._traces.failed(span, status)

    def _one(self, call: Any, details: Any) -> Any:
        async def traced(request: Any, context: Any) -> Any:
            with self._span(details) as span:
                failed = True
                try:
                    answer = await call(request, context)
                    failed = False
                    return answer
                finally:
                    self._ended(span, context, failed)

        return traced

    def _stream(self, call: Any, details: Any) -> Any:
        async def traced(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._span(details) as span:
                failed = True
                try:
                    async for answer in call(request, context):
                        yield answer
                    failed = False
                finally:
                    self._ended(span, context, failed)

        return traced
