"""Over the table of routes and the calls of gRPC: none is without keys, limits and a word on the audit, also not a new one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from rknnlite_server.access import OPEN_PATHS
from rknnlite_server.app import all_routes
from rknnlite_server.audit import is_administrative
from rknnlite_server.page import PAGE_PATHS
from rknnlite_server.settings import ServerSettings

from .conftest import MODEL, Served, running

ROUTES = sorted(
    {
        (method, re.sub(r"\{.*?\}", "x", getattr(route, "path", "")))
        for route in all_routes()
        for method in getattr(route, "methods", None) or ()
        if method != "HEAD"
    }
)
ANSWERS = {
    "POST /v2/models/x/infer",
    "POST /v2/models/x/versions/x/infer",
    "POST /v2/repository/index",
    "POST /v2/systemsharedmemory/x",
    "POST /v2/cudasharedmemory/x",
    "POST /v2/trace/setting",
    "POST /v2/models/x/trace/setting",
    "POST /v2/logging",
    "POST /v1/chat/completions",
    "POST /chat/completions",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "POST /embeddings",
    "POST /v1/audio/transcriptions",
    "POST /v1/audio/translations",
    "POST /v1/audio/speech",
    "POST /v1/vision/detect",
    "POST /v1/vision/classify",
    "POST /v1/vision/segment",
    "POST /v1/vision/pose",
    "POST /v1/vision/embed",
    "POST /v1/vision/read",
    "POST /tokenize",
    "POST /detokenize",
    "POST /v1/responses",
    "POST /v1/responses/input_tokens",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/messages/batches",
    "POST /v1/messages/batches/x",
    "DELETE /v1/messages/batches/x",
    "POST /api/chat",
    "POST /api/generate",
    "POST /api/embed",
    "POST /api/embeddings",
    "POST /api/show",
}
"""Routes that change nothing for others: who adds a route that does so puts it into the audit instead."""
OF_THE_CALLER = {
    "POST /v1/files",
    "DELETE /v1/files/x",
    "POST /v1/batches",
    "POST /v1/batches/x/cancel",
    "DELETE /v1/responses/x",
}
"""What they make and delete belongs to one key, and no other sees it."""


def path_of(call: str) -> str:
    return call.partition(" ")[2]


def test_each_route_that_changes_the_server_is_in_the_audit() -> None:
    calls = [f"{method} {path}" for method, path in ROUTES if method != "GET"]
    told = {call for call in calls if is_administrative(call)}
    assert set(calls) - told == ANSWERS | OF_THE_CALLER
    assert told and not any(is_administrative(f"GET {path}") for _, path in ROUTES)


def test_so_is_each_call_of_grpc() -> None:
    pytest.importorskip("grpc")
    from rknnlite_protocol.grpc_messages import BOARD, HEALTH, INFERENCE, methods

    told = {
        method.path.rpartition("/")[2]
        for service in (BOARD, HEALTH, INFERENCE)
        for method in methods(service).values()
        if is_administrative(method.path)
    }
    words = ("Upload", "Load", "Unload", "Delete", "Register", "Set")
    changing = {
        name
        for service in (BOARD, HEALTH, INFERENCE)
        for name in methods(service)
        if any(word in name for word in words)
    }
    assert told == changing == {"RepositoryModelLoad", "RepositoryModelUnload", "Upload"}


@pytest.fixture(scope="module")
def limited() -> Iterator[Served]:
    keys = ("good", "poor requests=5 tokens=1")
    settings = ServerSettings(models=(MODEL,), allow_upload=True, grpc_port=0, backend="cpu", api_keys=keys)
    with running(settings) as served:
        account = served.state.keyring.account("Bearer poor")
        assert account is not None
        account.spend_tokens(10**9)  # so that none is there for as long as this test takes
        yield served


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_route_wants_a_key_and_obeys_its_limits(limited: Served, method: str, path: str) -> None:
    def ask(**headers: str) -> Any:
        return limited.http.request(method, path, headers={"Content-Type": "application/json", **headers})

    if path in OPEN_PATHS:
        assert ask().status_code == 200
        return
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
        answer = ask(**headers)
        assert answer.status_code == 401 and "good" not in answer.text
    for headers in ({"Authorization": "Bearer poor"}, {"x-api-key": "poor"}):
        answer = ask(**headers)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
        assert answer.headers["x-ratelimit-limit-requests"] == "5"
        assert answer.headers["x-ratelimit-remaining-tokens"] == "0"
        assert "error" in answer.json()
    assert ask(Authorization="Bearer good").status_code not in (401, 429)


def test_what_is_open_is_this() -> None:
    assert set(OPEN_PATHS) == {"/health", "/v1/health", "/v2/health/live", "/v2/health/ready", *PAGE_PATHS}


def test_each_call_of_grpc_wants_a_key_and_obeys_its_limits(limited: Served) -> None:
    grpc = pytest.importorskip("grpc")
    from rknnlite_protocol.grpc_messages import BOARD, INFERENCE, methods

    state: Any = limited.state
    with grpc.insecure_channel(f"127.0.0.1:{state.rpc.port}") as channel:
        for service in (BOARD, INFERENCE):
            for name, method in methods(service).items():
                if name in ("ServerLive", "ServerReady"):
                    continue
                for key, code in (
                    ("", "UNAUTHENTICATED"),
                    ("wrong", "UNAUTHENTICATED"),
                    ("poor", "RESOURCE_EXHAUSTED"),
                ):
                    call = channel.stream_stream(method.path)
                    metadata = (("authorization", f"Bearer {key}"),) if key else ()
                    with pytest.raises(grpc.RpcError) as caught:
                        list(call(iter([b""]), metadata=metadata, timeout=30))
                    error: Any = caught.value
                    assert error.code().name == code, (name, key)
