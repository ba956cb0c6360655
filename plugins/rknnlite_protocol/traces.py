"""OpenTelemetry's traces: spans of a process, sent to a collector by a thread of their own; W3C's ``traceparent`` in and out.

Nothing of OpenTelemetry is imported before somebody makes ``Traces``. Names of spans and attributes are those of its semantic
conventions for HTTP, RPC and generative models. No text of a request or of an answer is told.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional
from urllib.parse import urlsplit

from rknnlite.errors import ParamInvalid, shown
from rknnlite.extras import missing

__all__ = ["Traces", "in_this_trace", "outgoing", "traces_of_task", "traces_until_the_end"]

_LAST_SECONDS = 3.0  # that the end of a process waits for a collector
_PATH = "/v1/traces"


class Traces:
    """Makes spans. What a collector does not take in time is dropped: nothing waits for it.

    The environment says the rest, as in every program with OpenTelemetry: ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER``,
    ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_BSP_*``.
    """

    def __init__(self, address: str = "", exporter: Any = None) -> None:
        """``address`` of a collector that takes OTLP over HTTP; empty: the environment's, else this machine's.

        Raises BackendUnavailable without the packages, ParamInvalid for what is no address.
        """
        try:
            from opentelemetry import context, propagate, trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise missing("otel", "traces cannot be sent", error) from None
        if exporter is None:
            exporter = OTLPSpanExporter(endpoint=_endpoint(address))
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "rknnlite"}))
        self._context, self._propagate, self._trace = context, propagate, trace
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("rknnlite")

    @contextmanager
    def span(
        self,
        name: str,
        kind: str = "INTERNAL",
        given: Optional[Mapping[str, str]] = None,
        attributes: Optional[Mapping[str, Any]] = None,
    ) -> Iterator[Any]:
        """A span around a ``with`` block, below the one that is around it, or that of the sender whose headers are ``given``.

        An exception makes it failed, and says its class alone.
        """
        parent = self._propagate.extract(given) if given is not None else None
        made = self._tracer.start_span(
            name, parent, getattr(self._trace.SpanKind, kind), attributes=attributes or {}
        )
        task = traces_of_task.set(self)
        token = self._context.attach(self._trace.set_span_in_context(made))
        try:
            yield made
        except BaseException as error:
            self.failed(made, type(error).__name__)
            raise
        finally:
            with contextlib.suppress(ValueError):  # a stream that was given up ends elsewhere
                traces_of_task.reset(task)
                self._context.detach(token)
            made.end()

    def failed(self, span: Any, kind: str) -> None:
        """A span ends with an error of this kind: a class, or a status."""
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.StatusCode.ERROR)

    def current(self) -> Any:
        """What spans that are made elsewhere are ``below``."""
        return self._context.get_current()

    def past(
        self, name: str, start: float, end: float, below: Any, attributes: Mapping[str, Any], failed: str = ""
    ) -> Any:
        """A span from ``start`` to ``end``, in ``perf_counter`` seconds, from any thread; gives what others can be ``below``."""
        shift = time.time_ns() - time.perf_counter_ns()
        begin = int(start * 1e9) + shift
        made = self._tracer.start_span(name, below, attributes=attributes, start_time=begin)
        if failed:
            self.failed(made, failed)
        made.end(max(begin, int(end * 1e9) + shift))
        return self._trace.set_span_in_context(made, below)

    def close(self) -> None:
        """Send what is left, for ``_LAST_SECONDS`` at most."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(_LAST_SECONDS)


def traces_until_the_end(owner: object, address: Optional[str]) -> Optional[Traces]:
    """Traces that are closed with their owner, or with the process; none where there is no address."""
    if address is None:
        return None
    traces = Traces(address)
    weakref.finalize(owner, traces.close)
    return traces


traces_of_task: contextvars.ContextVar[Optional[Traces]] = contextvars.ContextVar("traces", default=None)
"""Who makes the spans of what the task works for; None: there are none."""


def in_this_trace(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as another thread should call it, so that its spans and calls belong to the span that is around this call."""
    if traces_of_task.get() is None:
        return function
    return functools.partial(contextvars.copy_context().run, function)


def outgoing() -> tuple[tuple[str, str], ...]:
    """Headers for a call to another process; none in a program that has not imported OpenTelemetry."""
    propagate = sys.modules.get("opentelemetry.propagate")
    if propagate is None:
        return ()
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return tuple(carrier.items())


def _endpoint(address: str) -> Optional[str]:
    """Where spans are sent; a collector's address alone gets OTLP's path."""
    if not address:
        return None
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not address.isprintable():
        raise ParamInvalid(
            f"traces: {shown(address)} is no address of a collector, such as http://127.0.0.1:4318"
        )
    return address if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{_PATH}"
