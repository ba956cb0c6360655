"""Spans of a server: around requests over HTTP, and of what models did for them. Only where it was started with ``--traces``."""

from __future__ import annotations

import contextvars
import functools
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from typing import Any

from rknnlite_protocol.requests import InferResponse
from rknnlite_protocol.traces import Traces, traces_of_task
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rknnlite.spi.llm import CallState, RunSummary, SamplingParams

from .route_paths import RoutePaths

__all__ = ["TracedRequests", "trace_infer", "trace_run"]

_PLAIN = ("/v1/completions", "/api/generate")
_operation: contextvars.ContextVar[str] = contextvars.ContextVar("operation", default="chat")


class TracedRequests:
    """ASGI middleware around the whole application: a span for each request, below the client's where it sent one."""

    def __init__(self, app: ASGIApp, traces: Traces, routes: Sequence[BaseRoute]) -> None:
        self._app, self._traces, self._paths = app, traces, RoutePaths(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = self._paths.of(scope["path"])
        attributes = {
            "http.request.method": scope["method"],
            "http.route": route,
            "url.scheme": scope["scheme"],
            "network.protocol.version": scope["http_version"],
        }
        _operation.set("text_completion" if route in _PLAIN else "chat")
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with self._traces.span(f"{scope['method']} {route}", "SERVER", given, attributes) as span:

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        self._traces.failed(span, str(status))
                await send(message)

            await self._app(scope, receive, watched)


def trace_run(
    model: str, sampling: SamplingParams, max_tokens: int, arrived: float, run: Future[RunSummary]
) -> None:
    """Tell of a run of a language model when it is over; ``arrived``, its request, in ``time.perf_counter`` seconds."""
    traces = traces_of_task.get()
    if traces is None:
        return
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": _operation.get(),
        "gen_ai.provider.name": "rknnlite",
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k,
    }
    told = functools.partial(_ran, traces, traces.current(), arrived, attributes)
    run.add_done_callback(told)


def _ran(
    traces: Traces, below: Any, arrived: float, attributes: dict[str, Any], run: Future[RunSummary]
) -> None:
    name = f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}"
    problem = "cancelled" if run.cancelled() else run.exception()
    if problem is not None:
        kind = problem if isinstance(problem, str) else type(problem).__name__
        traces.past(name, arrived, time.perf_counter(), below, attributes, kind)
        return
    summary = run.result()
    made = {
        "gen_ai.usage.input_tokens": summary.n_prefill_tokens + summary.n_cached_tokens,
        "gen_ai.usage.cache_read.input_tokens": summary.n_cached_tokens,
        "gen_ai.usage.output_tokens": summary.n_decode_tokens,
        "gen_ai.response.finish_reasons": [
            "length" if summary.state is CallState.MAX_NEW_TOKEN_REACHED else "stop"
        ],
    }
    below = traces.past(name, arrived, summary.end, below, {**attributes, **made})
    traces.past("queue", arrived, summary.start, below, {})
    traces.past("prefill", summary.start, summary.first_token, below, {})
    traces.past("decode", summary.first_token, summary.end, below, {})


async def trace_infer(traces: Traces, network: str, answering: Awaitable[InferResponse]) -> InferResponse:
    """Await an answer of a network, in a span with those of its queue and its run."""
    arrived = time.perf_counter()
    with traces.span(f"infer {network}", attributes={"rknnlite.model": network}):
        response = await answering
        timing, below = response.timing, traces.current()
        traces.past("queue", arrived, timing.begun / 1e9, below, {})
        traces.past("run", timing.ready / 1e9, timing.ran / 1e9, below, {})
    return response
