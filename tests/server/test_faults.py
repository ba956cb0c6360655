"""What clients do wrong, on purpose and not: nobody else notices, and nothing of them stays."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from rknnlite_server import generation, http_server, request_body
from rknnlite_server.errors import ApiError
from rknnlite_server.queueing import Turnstile
from rknnlite_server.settings import ServerSettings

from .conftest import MODEL, QUESTION, Served, running, until

LONG = {"messages": QUESTION, "stream": True, "temperature": 100, "top_k": 0, "top_p": 1}


def model_of(served: Served) -> Any:
    (model,) = served.state.models.values()
    return model


# -- what a request may not contain --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '"n": 1e999', '"n": NaN', '"top_k": -Infinity', '"max_tokens": 1e999', '"seed": NaN', '"temperature": NaN',
        '"logit_bias": {"' + "9" * 5000 + '": 1}',
        '"stop": ["\\ud800"]', '"model": "\\udfff"',
    ],
)  # fmt: skip
def test_numbers_and_texts_that_are_none(server: Served, text: str) -> None:
    whole = f'{{"messages": {json.dumps(QUESTION)}, {text}}}'
    response = server.http.post("/v1/chat/completions", content=whole.encode())
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_half_a_character_in_a_message(server: Served) -> None:
    content = b'{"messages": [{"role": "user", "content": "\\ud83d"}]}'
    response = server.http.post("/v1/chat/completions", content=content)
    assert response.status_code == 400 and "surrogate" in response.json()["error"]["message"]
    whole = b'{"messages": [{"role": "user", "content": "\\ud83c\\udf89"}], "max_tokens": 1}'
    assert server.http.post("/v1/chat/completions", content=whole).status_code == 200


def test_a_body_that_is_too_large_or_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.3)
    with running(ServerSettings(models=(MODEL,), max_body=1000)) as served:
        declared = served.http.post("/v1/chat/completions", content=b" " * 1001)
        assert declared.status_code == 413 and declared.json()["error"]["code"] == "body_too_large"
        chunks = (b" " * 100 for _ in range(11))
        assert served.http.post("/v1/chat/completions", content=chunks).status_code == 413
        with dialled(served, b"Content-Length: 100\r\n\r\n{") as slow:
            assert slow.recv(1000).startswith(b"HTTP/1.1 408")
        assert served.chat(max_tokens=1).status_code == 200


def dialled(served: Served, rest: bytes) -> socket.socket:
    """A connection with a request that begins well."""
    host, port = served.url[len("http://") :].split(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    made.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest)
    return made


def test_a_head_that_is_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    with running(ServerSettings(models=(MODEL,))) as served, dialled(served, b"Content-") as slow:
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(10) == b""  # and no timeout
        assert served.chat(max_tokens=1).status_code == 200


# -- clients that go away ------------------------------------------------------------------------------------


def test_a_session_is_free_only_when_its_run_is_over(server: Served) -> None:
    """Whoever gets the place of a client that went away is not stopped in its stead."""
    model = model_of(server)
    work = generation.Work(tuple(model.tokenizer.encode("a")), model.settings.sampling, 200)

    async def leave() -> None:
        stream = generation.generate(model, work, 60)
        await stream.__anext__()
        (session,) = model.pool._taken
        await stream.aclose()
        assert not model.pool._taken
        assert session.cached([1]) >= 0, "its run goes on"

    asyncio.run(leave())


def test_no_session_is_lost_when_a_client_goes_away_before_it_begins(server: Served) -> None:
    model = model_of(server)
    work = generation.Work(tuple(model.tokenizer.encode("a")), model.settings.sampling, 1)
    taken = threading.Event()
    take = model.pool.take

    def slow(tokens: Any) -> Any:
        session = take(tokens)
        taken.set()
        time.sleep(0.2)
        return session

    async def leave() -> None:
        task = asyncio.ensure_future(generation.generate(model, work, 60).__anext__())
        await asyncio.to_thread(taken.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    model.pool.take = slow
    try:
        asyncio.run(leave())
    finally:
        model.pool.take = take
    assert model.pool.running == 0 and model.turnstile.running == 0


@pytest.mark.slow
def test_streams_that_are_left_end_at_once_one_after_the_other() -> None:
    with running(ServerSettings(models=(MODEL,), parallel=1)) as served:
        for _ in range(8):
            with served.http.stream("POST", "/v1/chat/completions", json=LONG) as response:
                next(response.iter_lines())
            answer = served.chat().json()
            assert answer["choices"][0]["message"]["content"] == "2 + 3 = 5", answer
        model = model_of(served)
        until(lambda: model.pool.running == 0 and model.turnstile.running == 0)


# -- the queue -----------------------------------------------------------------------------------------------


def test_leaving_the_queue_in_the_moment_of_ones_turn() -> None:
    async def leave() -> None:
        gate = Turnstile(1, 8)
        inside = gate.turn()
        await inside.__aenter__()
        waiting = asyncio.ensure_future(gate.turn().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await inside.__aexit__(None, None, None)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (gate.running, gate.waiting) == (0, 0)

    asyncio.run(leave())


def test_who_waits_too_long_is_told() -> None:
    async def wait() -> None:
        gate = Turnstile(1, 8)
        async with gate.turn():
            with pytest.raises(ApiError, match=r"0\.05 s") as told:
                async with gate.turn(0.05):
                    raise AssertionError("the place is taken")
            assert told.value.status == 504
        async with gate.turn(0.05):
            assert (gate.running, gate.waiting) == (1, 0)

    asyncio.run(wait())


def test_a_full_queue_sends_away_and_says_for_how_long() -> None:
    with running(ServerSettings(models=(MODEL,), parallel=1, queue=1)) as served, held(served) as go:
        model = model_of(served)
        with ThreadPoolExecutor(2) as clients:
            first = clients.submit(ask, served)
            until(lambda: model.turnstile.running == 1)
            second = clients.submit(ask, served)
            until(lambda: model.turnstile.waiting == 1)
            refused = ask(served)
            assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1
            assert refused.json()["error"]["code"] == "rate_limit_exceeded"
            go.set()
            assert [found.result().status_code for found in (first, second)] == [200, 200]
        assert ask(served).status_code == 200


def ask(served: Served) -> httpx.Response:
    """With a connection of its own."""
    return httpx.post(f"{served.url}/v1/chat/completions", json={"messages": QUESTION}, timeout=60)


@contextlib.contextmanager
def held(served: Served) -> Iterator[threading.Event]:
    """No run begins before the event is set."""
    go, pool = threading.Event(), model_of(served).pool
    take = pool.take

    def later(tokens: Any) -> Any:
        assert go.wait(60)
        return take(tokens)

    pool.take = later
    try:
        yield go
    finally:
        go.set()
        pool.take = take


def test_an_answer_that_takes_too_long() -> None:
    with running(ServerSettings(models=(MODEL,), timeout=0.05)) as served:
        late = served.chat(
            **{**LONG, "stream": False, "logit_bias": {"0": 0}, "stop": ["never said"], "n": 16}
        )
        assert late.status_code == 504 and "0.05 s" in late.json()["error"]["message"]
        until(lambda: model_of(served).pool.running == 0)


# -- keys, origins, models -----------------------------------------------------------------------------------


def test_keys() -> None:
    settings = ServerSettings(models=(MODEL,), api_keys=("first", "schlüssel"))
    assert "first" not in repr(settings)
    with running(settings) as served:
        assert served.http.get("/health").status_code == 200
        for given in ("", "Bearer", "Bearer firs", "Bearer firstt", "Basic first", "first"):
            refused = served.http.get("/v1/models", headers={"Authorization": given})
            assert refused.status_code == 401, given
            assert refused.json()["error"]["type"] == "authentication_error"
        for key in ("first", "schlüssel"):
            header = {b"Authorization": b"Bearer " + key.encode()}
            assert served.http.get("/v1/models", headers=header).status_code == 200


def test_keys_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    with running(ServerSettings(models=(MODEL,), api_keys=("verysecret",))) as served:
        for key in ("verysecret", "verywrong"):
            served.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
            served.http.post("/v1/chat/completions", content=b"{", headers={"Authorization": f"Bearer {key}"})
    said = [
        record.getMessage() for record in caplog.records if record.name.startswith(("rknnlite", "uvicorn"))
    ]
    assert not [line for line in said if "verysecret" in line or "verywrong" in line]


def test_web_pages_from_elsewhere() -> None:
    origin = {"Origin": "https://page.example"}
    with running(ServerSettings(models=(MODEL,), cors=("https://page.example",), api_keys=("k",))) as served:
        asked = {**origin, "Access-Control-Request-Method": "POST"}
        assert served.http.options("/v1/chat/completions", headers=asked).status_code == 200
        refused = served.http.get("/v1/models", headers=origin)
        assert refused.status_code == 401
        assert refused.headers["Access-Control-Allow-Origin"] == "https://page.example"
        other = served.http.get("/health", headers={"Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in other.headers


def test_a_model_that_cannot_be_loaded(tmp_path: Any) -> None:
    from dataclasses import replace

    bad = tmp_path / "bad.rknn"
    bad.write_bytes(b"no model")
    heard: list[tuple[str, str]] = []
    settings = ServerSettings(models=(MODEL, replace(MODEL, model=str(bad), alias="bad")))
    with running(settings, wait=False, told=lambda *said: heard.append(said)) as served:
        until(lambda: served.state.failure)
        health = served.http.get("/health")
        assert health.status_code == 503 and "bad.rknn" in health.json()["error"]["message"]
        assert served.chat().status_code == 503
    assert [status for status, _ in heard] == ["error", "exited"]


def test_nothing_of_a_server_stays() -> None:
    with running(ServerSettings(models=(MODEL,))):
        pass
    gc.collect()
    threads = {thread.name for thread in threading.enumerate()}
    with running(ServerSettings(models=(MODEL,))) as served:
        for _ in range(3):
            served.chat()
    until(lambda: {thread.name for thread in threading.enumerate()} <= threads)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_requests(server: Served, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """What comes out of them is bounded like what comes as it is."""
    plain = server.http.post("/tokenize", json={"content": "What is 2 + 3?"}).json()
    head = {"Content-Encoding": encoding}
    packed = server.http.post("/tokenize", content=pack(b'{"content": "What is 2 + 3?"}'), headers=head)
    assert packed.json() == plain
    bomb = pack(b" " * (server.state.settings.max_body + 1))
    answer = server.http.post("/tokenize", content=bomb, headers=head)
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "body_too_large"
    damaged = server.http.post("/tokenize", content=b"{}", headers=head)
    assert damaged.status_code == 400 and encoding in damaged.json()["error"]["message"]
    other = server.http.post("/tokenize", content=b"{}", headers={"Content-Encoding": "br"})
    assert other.status_code == 415 and other.json()["error"]["type"] == "invalid_request_error"
