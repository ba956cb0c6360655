"""A collector of OpenTelemetry on this machine: what came over OTLP, as spans by name."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Collector", "Span", "collecting"]


@dataclass(frozen=True)
class Span:
    """As OTLP tells of it; times in nanoseconds since 1970, ``parent`` empty for the first of a trace."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """``url`` is for ``--traces``."""

    url: str
    spans: list[Span] = field(default_factory=list)
    bytes: bytearray = field(default_factory=bytearray)

    def named(self, name: str) -> list[Span]:
        """All of that name."""
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        """An export."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.bytes += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_span(one, service) for one in scope.spans]


def _span(one: Any, service: str) -> Span:
    return Span(
        one.name,
        service,
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        one.kind,
        one.start_time_unix_nano,
        one.end_time_unix_nano,
        one.status.code == 2,
        _attributes(one.attributes),
    )


def _attributes(found: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in found}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return (
        [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """One that takes what is sent."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            found.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
