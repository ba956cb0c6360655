"""``GET /metrics``: figures for Prometheus, of one application; without ``--metrics`` 501."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Optional, Union

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rknnlite.extras import missing
from rknnlite.spi.llm import RunSummary

from .errors import ApiError
from .route_paths import RoutePaths
from .served_model import ServedModel
from .served_speech import ServedSpeech

__all__ = ["Counting", "Metrics", "metrics"]

_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_EACH = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_WHOLE = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """A registry of its own; the figures may be counted in any thread."""

    def __init__(self, models: Callable[[], Iterable[Union[ServedModel, ServedSpeech]]]) -> None:
        """``models`` tells which there are at the moment. Raises BackendUnavailable without the package prometheus-client."""
        try:
            from prometheus_client import (
                CollectorRegistry,
                Counter,
                Histogram,
                ProcessCollector,
                generate_latest,
            )
            from prometheus_client.core import GaugeMetricFamily
        except ImportError as error:
            raise missing("server", "--metrics needs prometheus-client", error) from None
        self._models, self._gauge, self._text = models, GaugeMetricFamily, generate_latest
        self._registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"rknnlite_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, label: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"rknnlite_{name}", text, (label,), registry=registry, buckets=buckets)

        self._requests = counter("requests", "Requests that were answered", "route", "status")
        self._seconds = histogram("request_seconds", "Time from request to end of answer", "route", _WHOLE)
        self._prompt = counter("prompt_tokens", "Tokens of prompts that were computed", "model")
        self._cached = counter("cached_tokens", "Tokens of prompts found in the KV cache", "model")
        self._generated = counter("generated_tokens", "Tokens that were generated", "model")
        self._guessed = counter("guessed_tokens", "Tokens that were guessed ahead", "model")
        self._accepted = counter("accepted_tokens", "Guessed tokens that were chosen", "model")
        self._sound = counter("sound_seconds", "Sound that was written down or said", "model")
        self._sound_run = counter("sound_run_seconds", "Time that this took", "model")
        self._failed = counter("failed_runs", "Runs of a model that ended with an error", "model")
        self._first = histogram(
            "first_token_seconds", "Time to the first token, waiting included", "model", _FIRST
        )
        self._each = histogram(
            "token_seconds", "Time per token behind the first, mean of a run", "model", _EACH
        )
        registry.register(self)
        ProcessCollector(registry=registry)

    def collect(self) -> Iterator[Any]:
        """What is counted at the moment somebody asks (the collector's part of Prometheus' interface)."""
        for name, text in (("running", "Requests that are computed"), ("waiting", "Requests in the queue")):
            gauge = self._gauge(f"rknnlite_{name}", text, labels=["model"])
            for model in list(self._models()):
                gauge.add_metric([model.name], getattr(model.turnstile, name))
            yield gauge

    def describe(self) -> Iterator[Any]:
        """None: the registry need not collect to find out names."""
        return iter(())

    def answered(self, route: str, status: int | str, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def ran(self, model: str, arrived: float, run: Future[RunSummary]) -> None:
        """Count a run that ended; ``arrived`` is when its request came, in perf_counter seconds."""
        if run.cancelled() or run.exception() is not None:
            self._failed.labels(model).inc()
            return
        summary = run.result()
        self._prompt.labels(model).inc(summary.n_prefill_tokens)
        self._cached.labels(model).inc(summary.n_cached_tokens)
        self._generated.labels(model).inc(summary.n_decode_tokens)
        self._guessed.labels(model).inc(summary.n_guessed_tokens)
        self._accepted.labels(model).inc(summary.n_accepted_tokens)
        if summary.n_decode_tokens:
            self._first.labels(model).observe(summary.first_token - arrived)
        if summary.n_decode_tokens > 1:
            self._each.labels(model).observe(
                (summary.end - summary.first_token) / (summary.n_decode_tokens - 1)
            )

    def sounded(self, model: str, sound: float, seconds: float) -> None:
        """Count ``sound`` seconds that a speech model heard or said in ``seconds``."""
        self._sound.labels(model).inc(sound)
        self._sound_run.labels(model).inc(seconds)

    def add(self, collector: Any) -> None:
        """Further figures, which are read when somebody asks."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """All figures in Prometheus' form of text."""
        return self._text(self._registry)


async def metrics(request: Request) -> Response:
    """The route."""
    found: Optional[Metrics] = request.app.state.rknnlite.metrics
    if found is None:
        raise ApiError(
            501,
            "not_supported_error",
            "This server does not support metrics endpoint. Start it with `--metrics`",
        )
    return Response(found.text(), media_type="text/plain; version=0.0.4")


class Counting:
    """Around the whole application: status and time of each request, under the path of its route."""

    def __init__(self, app: ASGIApp, found: Metrics, routes: Sequence[BaseRoute]) -> None:
        self._app, self._metrics, self._paths = app, found, RoutePaths(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            return await self._app(scope, receive, watched)
        finally:
            self._metrics.answered(self._paths.of(scope["path"]), status, time.perf_counter() - start)
