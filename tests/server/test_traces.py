"""OpenTelemetry's traces of a server, as a collector on this machine gets them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")

import numpy as np
from rknnlite_protocol.traces import Traces
from rknnlite_server.settings import ServerSettings

import rknnlite
from rknnlite.errors import ParamInvalid
from tests.support.collector import collecting

from .conftest import MODEL, QUESTION, running, until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
INTERNAL, SERVER = 1, 2


def test_a_chat_is_a_trace_below_that_of_its_client() -> None:
    with collecting() as collector:
        with running(ServerSettings(models=(MODEL,), traces=collector.url)) as served:
            body = {"messages": QUESTION, "max_tokens": 3}
            assert served.http.post("/v1/chat/completions", json=body, headers=HEADERS).status_code == 200
            streamed = served.http.post("/v1/chat/completions", json={"messages": QUESTION, "stream": True})
            assert streamed.text.endswith("data: [DONE]\n\n")
            served.http.get("/v1/models/none")
        first, streamed_request = collector.named("POST /v1/chat/completions")
    assert (first.trace, first.parent, first.kind, first.service) == (TRACE, PARENT, SERVER, "rknnlite")
    assert first.attributes["http.route"] == "/v1/chat/completions"
    assert (first.attributes["http.request.method"], first.attributes["http.response.status_code"]) == (
        "POST",
        200,
    )
    chat, streamed_chat = collector.named("chat tiny")
    assert (chat.trace, chat.parent) == (TRACE, first.id) and streamed_chat.parent == streamed_request.id
    assert streamed_request.trace == streamed_chat.trace != TRACE and streamed_request.parent == ""
    assert (
        chat.attributes["gen_ai.usage.output_tokens"] == 3
        and chat.attributes["gen_ai.usage.input_tokens"] > 3
    )
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert chat.attributes["gen_ai.request.model"] == "tiny"
    parts = [
        next(one for one in collector.named(name) if one.parent == chat.id)
        for name in ("queue", "prefill", "decode")
    ]
    assert [one.trace for one in parts] == [TRACE] * 3
    for one, after in zip(parts, parts[1:]):
        times = [chat.start, one.start, one.end, after.start, after.end, chat.end]
        assert all(early <= late + 1_000_000 for early, late in zip(times, times[1:]))
        assert abs(one.end - after.start) < 1_000_000
    assert first.start <= chat.start <= chat.end
    (unknown,) = collector.named("GET /v1/models/{name:path}")
    assert unknown.attributes["http.response.status_code"] == 404 and not unknown.failed
    assert b"What is" not in collector.bytes and b"2 + 3" not in collector.bytes


def test_runs_that_were_given_up_are_told_too() -> None:
    with collecting() as collector:
        with running(ServerSettings(models=(MODEL,), traces=collector.url)) as served:
            wild = {"messages": QUESTION, "stream": True, "temperature": 100, "top_k": 0, "top_p": 1}
            with served.http.stream("POST", "/v1/chat/completions", json=wild) as response:
                next(response.iter_lines())
            until(lambda: not served.state.models["tiny"].turnstile.running)
        assert len(collector.named("chat tiny")) == 1
    (request,) = collector.named("POST /v1/chat/completions")
    assert collector.named("chat tiny")[0].parent == request.id


@pytest.mark.parametrize("header", ["", "00-zz", f"00-{'0' * 32}-{PARENT}-01", "x" * 4000, "\xff" * 55])
def test_a_header_that_is_none_begins_a_new_trace(header: str) -> None:
    with collecting() as collector:
        with running(ServerSettings(models=(MODEL,), traces=collector.url)) as served:
            served.http.get("/v1/models", headers={"traceparent": header.encode("latin-1")})
        (request,) = collector.named("GET /v1/models")
    assert request.parent == "" and set(request.trace) != {"0"}


def test_a_trace_goes_on_from_a_server_to_the_board_behind_it() -> None:
    pytest.importorskip("grpc")
    from .networks.conftest import RESNET, path_of

    model = str(path_of(RESNET))
    image = np.zeros((1, 224, 224, 3), np.uint8)
    inputs = [{"name": "x", "shape": list(image.shape), "datatype": "UINT8", "data": image.ravel().tolist()}]
    with collecting() as collector:
        behind = ServerSettings(allow_upload=True, grpc_port=0, backend="cpu", traces=collector.url)
        with running(behind) as board:
            address = f"127.0.0.1:{board.state.rpc.port}"
            front = ServerSettings(
                networks=(model,),
                grpc_port=-1,
                backend="remote",
                device_id=address,
                workers=1,
                traces=collector.url,
            )
            with running(front) as served:
                (network,) = served.state.repository.loaded
                inputs[0]["name"] = network.pool.inputs[0].name
                answer = served.http.post(
                    f"/v2/models/{RESNET}/infer", json={"inputs": inputs}, headers=HEADERS
                )
                assert answer.status_code == 200, answer.text
    (call,) = [span for span in collector.spans if span.trace == TRACE and span.name.endswith("/ModelInfer")]
    (request,) = [span for span in collector.spans if span.parent == PARENT]
    (here,) = collector.named(f"infer {RESNET}")
    (there,) = [span for span in collector.spans if span.parent == call.id]
    assert request.name.startswith("POST /v2/models/{")
    assert (request.trace, request.parent) == (TRACE, PARENT)
    assert here.parent == request.id and call.parent == here.id and there.trace == TRACE
    assert (call.kind, call.attributes["rpc.grpc.status_code"]) == (SERVER, 0)
    runs = [span for span in collector.named("run") if span.trace == TRACE]
    assert {span.parent for span in runs} == {here.id, there.id}


def test_a_program_without_opentelemetry_sends_nothing_and_imports_nothing() -> None:
    code = (
        "import sys; from rknnlite_server.app import make_app; from rknnlite_server.settings import ServerSettings\n"
        "make_app(ServerSettings(allow_upload=True, grpc_port=-1))\n"
        "from rknnlite_protocol.traces import in_this_trace, outgoing\n"
        "assert outgoing() == () and in_this_trace(print) is print\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_traces_there_is_no_layer_for_them() -> None:
    from rknnlite_server.app import make_app
    from rknnlite_server.traced import TracedRequests

    app = make_app(ServerSettings(models=(MODEL,)))
    assert not any(layer.cls is TracedRequests for layer in app.user_middleware)


@pytest.mark.parametrize("address", ["collector:4318", "ftp://a", "http://", "http://a:0x1", "http://a\n"])
def test_what_is_no_collector(address: str) -> None:
    with pytest.raises(ParamInvalid, match="no address of a collector"):
        Traces(address)


@pytest.fixture
def silent() -> Any:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_collector_that_never_answers_holds_up_nobody(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests beside an export that hangs take as long as requests without traces; the end is bounded."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
    with running(ServerSettings(models=(MODEL,), traces=silent)) as traced:
        with running(ServerSettings(models=(MODEL,))) as plain:
            spent = {traced.url: 0.0, plain.url: 0.0}
            for _ in range(100):
                for served in (traced, plain):
                    start = time.perf_counter()
                    assert served.http.get("/v1/models").status_code == 200
                    spent[served.url] += time.perf_counter() - start
        begun = time.perf_counter()
    ended = time.perf_counter() - begun
    assert spent[traced.url] < 5 * spent[plain.url] + 1
    assert ended < 30, "the export alone would wait longer"


def test_rknnlite_sends_the_trace_of_its_program() -> None:
    pytest.importorskip("grpc")
    from .networks.conftest import RESNET, path_of

    with collecting() as collector:
        settings = ServerSettings(allow_upload=True, grpc_port=0, backend="cpu", traces=collector.url)
        with running(settings) as board:
            ours = Traces(collector.url)
            device = f"127.0.0.1:{board.state.rpc.port}"
            remote = rknnlite.open(str(path_of(RESNET)), backend="remote", device_id=device)
            with remote as context, ours.span("mine"):
                context.infer(np.zeros((1, 224, 224, 3), np.uint8))
            ours.close()
    (mine,) = collector.named("mine")
    assert [one.parent for one in collector.named("inference.GRPCInferenceService/ModelInfer")] == [mine.id]
