"""Traces of a fleet: a batch and a request on a board belong to the trace of whoever asked."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")
requests = pytest.importorskip("starlette.requests")

from rknnlite_protocol.traces import Traces, outgoing  # noqa: E402
from rknnlite_ray import replica as module  # noqa: E402
from rknnlite_ray.fingerprint import facts_of  # noqa: E402
from rknnlite_ray.predictor import RknnPredictor  # noqa: E402

from tests.support.collector import collecting  # noqa: E402
from tests.support.corpus import genuine  # noqa: E402

MODEL = genuine("conv_1x1.rk3588.i8")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_batch_belongs_to_the_trace_of_its_program() -> None:
    with collecting() as collector:
        ours = Traces(collector.url)
        with ours.span("mine"):
            trace = outgoing()
        ours.close()
        predict = RknnPredictor(MODEL, backend="cpu", traces=collector.url, trace=trace)
        predict({"in0": np.zeros((3, 9, 11, 20), np.uint8)})
        predict.close()
        del predict  # Ray ends the process instead, which does the same
    (mine,), (batch,) = collector.named("mine"), collector.named("map batch")
    assert (batch.trace, batch.parent) == (mine.trace, mine.id)
    assert batch.attributes["rknnlite.rows"] == 3 and not batch.failed


def test_traces_make_no_other_results() -> None:
    assert facts_of({"model": MODEL, "traces": "http://a:1", "trace": (("traceparent", "x"),)}) == facts_of(
        {"model": MODEL}
    )


def test_a_request_belongs_to_the_trace_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_processors", lambda: 1)
    with collecting() as collector:
        replica = module.Replica(MODEL, "conv", "cpu", "auto", 1 << 20, traces=collector.url)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        for path in ("/v2/models/conv", "/v2/models/none/infer"):
            scope = {
                "type": "http", "method": "GET", "path": path, "root_path": "", "query_string": b"", "server": ("here", 80),
                "scheme": "http", "headers": [(b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())],
            }  # fmt: skip
            asyncio.run(replica(requests.Request(scope, receive)))
        replica.close()
        del replica
    one, wrong = collector.spans
    assert (one.name, one.trace, one.parent) == ("GET /v2/models/{name}", TRACE, PARENT)
    assert one.attributes["http.response.status_code"] == 200
    assert (
        wrong.name == "GET /v2/models/{name}/infer" and wrong.attributes["http.response.status_code"] == 405
    )
