"""``.rkllm`` files behind the server: OpenAI's and Ollama's routes, stop strings, tools, two models, clients that go away."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model, tokenizer

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)
for package in ("uvicorn", "starlette", "httpx", "jinja2", "tokenizers"):
    pytest.importorskip(package)

from rknnlite_server.settings import ModelSettings, ServerSettings  # noqa: E402

from tests.server.conftest import Served, running, until  # noqa: E402

pytestmark = pytest.mark.slow

CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content or m.tool_calls | tojson }}{% endfor %}<assistant>"
)
"""One that knows tools."""
Maker = Callable[..., ModelSettings]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """``made("count", "op count")``: a model with its tokenizer, by the library of a version."""

    def make(name: str, *lines: str, version: str = "1.3.0", **settings: Any) -> ModelSettings:
        monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(build(version)))
        path = tmp_path / f"{name}_w8a8_rk3588.rkllm"
        path.write_bytes(model(*lines))
        path.with_suffix(".tokenizer.gguf").write_bytes(tokenizer(TEMPLATE))
        return ModelSettings(model=str(path), alias=name, ctx_size=2048, **settings)

    return make


@pytest.fixture
def served(made: Maker) -> Iterator[Served]:
    models = (
        made("count", "op count", "token_us 4000"),
        made("show", "op show"),
        made("call", "op say", f"say {CALL}"),
        made("embeds", "op echo", embedding=True),
    )
    with running(ServerSettings(models=models)) as server:
        yield server


def said(answer: Any) -> tuple[str, str]:
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def test_several_models_and_stop_strings(served: Served) -> None:
    assert said(served.chat(model="count", max_tokens=5)) == ("1 2 3", "length")
    for _ in range(2):
        assert said(served.chat(model="count", max_tokens=90, stop=["5 6"])) == ("1 2 3 4 ", "stop")
    assert said(served.chat(model="show")) == ("<user>What is 2 + 3?<assistant>", "stop")
    lines = served.chat(model="count", max_tokens=90, stop="4", stream=True).text.splitlines()
    parts = [json.loads(line[6:])["choices"][0] for line in lines if line.startswith("data: {")]
    assert "".join(part["delta"].get("content") or "" for part in parts) == "1 2 3 "
    assert parts[-1]["finish_reason"] == "stop" and "data: [DONE]" in lines
    found = served.post("/v1/completions", model="show", prompt="as it is", max_tokens=20)
    assert found.json()["choices"][0]["text"] == "as it is"


def test_a_call_of_a_tool_and_its_result(served: Served) -> None:
    talk: list[dict[str, Any]] = [{"role": "user", "content": "rain?"}]
    called = served.chat(model="call", messages=talk, tools=TOOLS).json()["choices"][0]
    (call,) = called["message"]["tool_calls"]
    assert (called["finish_reason"], call["function"]["name"]) == ("tool_calls", "weather")
    assert json.loads(call["function"]["arguments"]) == {"city": "Bonn"}
    talk += [called["message"], {"role": "tool", "tool_call_id": call["id"], "content": "dry"}]
    shown, _ = said(served.chat(model="show", messages=talk, max_tokens=900))
    assert shown.startswith("<user>rain?<assistant>[") and shown.endswith("<tool>dry<assistant>")
    refused = served.chat(model="call", messages=talk, tools=TOOLS, tool_choice="required")
    assert refused.status_code == 501 and "cannot be bound" in refused.text


def test_routes_of_ollama(served: Served) -> None:
    question = [{"role": "user", "content": "x"}]
    short = {"num_predict": 4}
    answer = served.post("/api/chat", model="count", messages=question, stream=False, options=short).json()
    assert (answer["message"]["content"], answer["done_reason"], answer["eval_count"]) == (
        "1 2 ",
        "length",
        4,
    )
    answer = served.post("/api/chat", model="call", messages=question, tools=TOOLS, stream=False).json()
    (call,) = answer["message"]["tool_calls"]
    assert (call["function"]["name"], call["function"]["arguments"]) == ("weather", {"city": "Bonn"})
    raw = served.post("/api/generate", model="show", prompt="hey", raw=True, stream=False).json()
    assert raw["response"] == "hey"
    streamed = served.post("/api/generate", model="count", prompt="x", options=short).text.splitlines()
    assert "".join(json.loads(line)["response"] for line in streamed) == "1 2 "
    names = [entry["name"] for entry in served.http.get("/api/tags").json()["models"]]
    assert names == ["count:latest", "show:latest", "call:latest", "embeds:latest"]
    assert "tools" in served.post("/api/show", model="call").json()["capabilities"]


def test_embeddings_are_refused_with_what_can_be_done(served: Served) -> None:
    found = served.post("/v1/embeddings", model="embeds", input=["one", "two"])
    assert found.status_code == 501 and "a session hands them over" in found.text
    found = served.post("/api/embed", model="embeds", input="one")
    assert found.status_code == 501 and "a session hands them over" in found.text


def test_a_client_that_goes_away_ends_its_run(served: Served) -> None:
    body = {
        "model": "count",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 1900,
        "stream": True,
    }
    for _ in range(3):
        with served.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            next(answer.iter_text())
        begun = time.monotonic()
        assert said(served.chat(model="count", max_tokens=3)) == ("1 2", "length")
        assert time.monotonic() - begun < 4  # 1900 tokens would take 7.6 s
    until(lambda: served.state.models["count"].pool.running == 0)


@pytest.mark.parametrize("version", ["1.1.4", "1.2.3"])
def test_versions_that_fix_sampling(made: Maker, version: str) -> None:
    count = made("count", "op count", version=version, temp=0.5)
    with running(ServerSettings(models=(count,))) as served:
        for _ in range(2):
            assert said(served.chat(max_tokens=5)) == ("1 2 3", "length")
        refused = served.chat(max_tokens=5, temperature=0.9)
        assert refused.status_code == 400 and "fixes sampling when the model is loaded" in refused.text


def test_models_that_the_server_cannot_run_say_why(made: Maker) -> None:
    count = made("count", "op count")
    Path(count.model).with_suffix(".tokenizer.gguf").unlink()
    with running(ServerSettings(models=(count,)), wait=False) as served:
        until(lambda: served.state.failure)
        assert "--vocab-only" in served.state.failure
    with running(ServerSettings(models=(made("old", "op count", version="1.0.1"),)), wait=False) as served:
        until(lambda: served.state.failure or served.state.ready)
        assert "takes text alone" in served.state.failure


def test_files_of_a_folder_come_and_go(made: Maker, tmp_path: Path) -> None:
    """Their memory counts as their bytes; a broken one is told and harms nobody."""
    for name, lines in {"count": ("op count",), "show": ("op show",)}.items():
        made(name, *lines)
    (tmp_path / "broken.rkllm").write_bytes(b"GGUF" + bytes(100))
    settings = ServerSettings(
        llm_repository=str(tmp_path), llm_models=1, llm_defaults=ModelSettings("", ctx_size=2048), parallel=1
    )
    first, second = "count_w8a8_rk3588", "show_w8a8_rk3588"
    with running(settings) as server:
        cards = {card["id"]: card["status"] for card in server.http.get("/v1/models").json()["data"]}
        assert cards["broken"]["value"] == "failed" and "GGUF" in cards["broken"]["error"]
        for _ in range(2):
            assert said(server.chat(model=first, max_tokens=5)) == ("1 2 3", "length")
            assert said(server.chat(model=second)) == ("<user>What is 2 + 3?<assistant>", "stop")
            assert server.chat(model="broken").status_code == 500
            (there,) = server.http.get("/api/ps").json()["models"]
            assert (
                there["name"] == f"{second}:latest"
                and there["size"] >= (tmp_path / f"{second}.rkllm").stat().st_size
            )
        assert server.post("/api/show", model=first).json()["template"] == TEMPLATE
        assert server.post("/models/unload", model=second).json() == {"success": True}
        assert server.http.get("/api/ps").json()["models"] == []
    with running(replace(settings, llm_bytes=1)) as server:
        answer = server.chat(model=first)
        assert answer.status_code == 503 and "--llm-bytes" in answer.json()["error"]["message"]
