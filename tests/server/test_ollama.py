"""Ollama's API: over HTTP as its documentation has it, then by the ``ollama`` package unchanged."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm.answers import AnswerPart, PartKind
from rknnlite_server.ollama import _Calls
from rknnlite_server.settings import ServerSettings

from .conftest import MODEL, QUESTION, Served, running

ANSWER = "2 + 3 = 5"
FIGURES = {
    "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration",
}  # fmt: skip


def ask(server: Served, route: str = "chat", **body: Any) -> Any:
    """One whole answer."""
    said = {"messages": QUESTION} if route == "chat" else {"prompt": QUESTION[0]["content"]}
    return server.post(f"/api/{route}", **{"model": "tiny", "stream": False, **said, **body})


def lines(response: Any) -> list[Any]:
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def test_a_chat_with_its_figures(server: Served) -> None:
    found = ask(server).json()
    assert found["message"] == {"role": "assistant", "content": ANSWER}
    assert (found["model"], found["done"], found["done_reason"]) == ("tiny", True, "stop")
    assert set(found) >= FIGURES and all(type(found[name]) is int for name in FIGURES)
    usage = server.chat().json()["usage"]
    assert (found["prompt_eval_count"], found["eval_count"]) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )
    assert found["total_duration"] >= found["eval_duration"] > 0 and found["prompt_eval_duration"] > 0
    assert found["created_at"].endswith("Z")


@pytest.mark.parametrize("route", ["chat", "generate"])
def test_answers_stream_unless_told_otherwise(server: Served, route: str) -> None:
    found = lines(ask(server, route, stream=None))
    texts = [part["message"]["content"] if route == "chat" else part["response"] for part in found]
    assert "".join(texts) == ANSWER and len(texts) > 3
    assert [part["done"] for part in found] == [False] * (len(found) - 1) + [True]
    assert set(found[-1]) >= FIGURES and not set(found[0]) & FIGURES


def test_generate_applies_the_template_and_raw_does_not(server: Served) -> None:
    assert ask(server, "generate").json()["response"] == ANSWER
    prompt = "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n"
    raw = ask(server, "generate", prompt=prompt, raw=True).json()
    assert (raw["response"], raw["done_reason"]) == (ANSWER, "stop")
    told = ask(server, "generate", system="Be brief.").json()
    assert told["prompt_eval_count"] > ask(server, "generate").json()["prompt_eval_count"]


def test_options(server: Served) -> None:
    short = ask(server, options={"num_predict": 2, "num_ctx": 100_000, "num_thread": 4, "mirostat": 0}).json()
    assert short["done_reason"] == "length" and short["eval_count"] == 2
    assert ask(server, options={"stop": ["= "]}).json()["message"]["content"] == "2 + 3 "
    wild = {"temperature": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "num_predict": 12}
    said = [ask(server, options={**wild, "seed": seed}).json()["message"]["content"] for seed in (7, 7, 8)]
    assert said[0] == said[1] != said[2]


def test_probabilities(server: Served) -> None:
    found = ask(server, logprobs=True, top_logprobs=2).json()["logprobs"]
    assert "".join(token["token"] for token in found) == ANSWER
    assert all(len(token["top_logprobs"]) == 2 and token["logprob"] <= 0 for token in found)
    streamed = lines(ask(server, stream=True, logprobs=True))
    assert "".join(token["token"] for part in streamed for token in part.get("logprobs", [])) == ANSWER


def test_models_are_named_with_and_without_a_tag(server: Served) -> None:
    (card,) = server.http.get("/api/tags").json()["models"]
    assert card["name"] == card["model"] == "tiny:latest" and len(card["digest"]) == 64
    assert card["size"] == server.http.get("/v1/models").json()["data"][0]["meta"]["size"]
    assert ask(server, model="tiny:latest").json()["message"]["content"] == ANSWER
    (running,) = server.http.get("/api/ps").json()["models"]
    assert running["context_length"] == 1024 and running["size_vram"] == 0 and running["expires_at"]
    about = server.post("/api/show", model="tiny").json()
    assert about["capabilities"] == ["completion", "tools"] and "im_start" in about["template"]
    family = about["model_info"]["general.architecture"]
    assert about["model_info"][f"{family}.context_length"] == 1024
    assert server.http.get("/api/version").json()["version"].count(".") == 2


def test_requests_without_text_say_that_the_model_is_loaded(server: Served) -> None:
    for route, body in (("chat", {"messages": []}), ("generate", {"prompt": "", "keep_alive": 0})):
        found = server.post(f"/api/{route}", model="tiny", **body).json()
        assert (found["done"], found["done_reason"]) == (True, "load")
    assert ask(server, keep_alive="5m").status_code == ask(server, keep_alive=-1).status_code == 200
    assert lines(server.post("/api/pull", model="tiny"))[-1] == {"status": "success"}


@pytest.mark.parametrize(
    ("route", "body", "status", "message"),
    [
        ("chat", {"model": None}, 400, "model is required"),
        ("chat", {"model": "llama3"}, 404, "model 'llama3' not found"),
        ("chat", {"messages": [{"role": "robot", "content": "x"}]}, 400, "role is 'robot'"),
        ("chat", {"messages": ["hi"]}, 400, "messages[0]"),
        ("chat", {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, 400, "text only"),
        ("chat", {"messages": [{"role": "user", "content": "x", "images": [1]}]}, 400, "base64"),
        ("chat", {"options": {"temperature": "hot"}}, 400, "temperature"),
        ("chat", {"options": {"mirostat": 2}}, 400, "options.mirostat"),
        ("chat", {"format": 5}, 400, "format"),
        ("chat", {"think": True}, 400, "does not support thinking"),
        ("chat", {"keep_alive": "later"}, 400, "keep_alive"),
        ("chat", {"messages": [{"role": "user", "content": "word " * 3000}]}, 400, "the context of tiny holds"),
        ("generate", {"images": ["aGk="]}, 400, "text only"),
        ("generate", {"suffix": "x"}, 400, "does not support insert"),
        ("generate", {"template": "{{ .Prompt }}"}, 400, "raw: true"),
        ("generate", {"context": [1, 2]}, 400, "/api/chat"),
        ("embed", {"input": "x"}, 501, "--embedding"),
        ("embeddings", {"prompt": "x"}, 501, "--embedding"),
        ("pull", {"model": "llama3"}, 404, "not found"),
        ("create", {}, 501, "not available"),
        ("nothing", {}, 404, "/api/nothing"),
    ],
)  # fmt: skip
def test_errors_are_text_with_a_status(
    server: Served, route: str, body: Any, status: int, message: str
) -> None:
    response = ask(server, route, **body)
    error = response.json()["error"]
    assert response.status_code == status and isinstance(error, str) and message in error


def test_a_stream_that_fails_says_so_in_a_line(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *args: Any) -> None:
            self.pushed = 0

        def push(self, text: str) -> list[AnswerPart]:
            self.pushed += 1
            if self.pushed > 2:
                raise RuntimeError("x")
            return [AnswerPart(PartKind.CONTENT, text)]

    monkeypatch.setattr("rknnlite_server.chat.AnswerParser", Broken)
    assert "unexpectedly (RuntimeError)" in lines(ask(server, stream=True))[-1]["error"]


def test_what_a_template_cannot_say_is_refused(tmp_path: Path) -> None:
    template = tmp_path / "plain.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}<think>", "utf-8")
    model = replace(MODEL, chat_template_file=str(template))
    with running(ServerSettings(models=(model,))) as server:
        assert server.post("/api/show", model="tiny").json()["capabilities"] == ["completion", "thinking"]
        tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
        assert ask(server, tools=[tool]).json() == {"error": '"tiny" does not support tools'}
        assert ask(server, think=True, options={"num_predict": 4}).status_code == 200


class Calling:
    """Reads a thought, text and two calls out of any answer."""

    def __init__(self, *args: Any) -> None:
        call, arguments = PartKind.CALL, PartKind.ARGUMENTS
        self.parts = [
            AnswerPart(PartKind.REASONING, "Hm."), AnswerPart(PartKind.CONTENT, "I ask."), AnswerPart(call, "add", 0),
            AnswerPart(arguments, '{"a": 2, ', 0), AnswerPart(arguments, '"b": 3}', 0), AnswerPart(call, "now", 1),
        ]  # fmt: skip

    def push(self, text: str) -> list[AnswerPart]:
        return [self.parts.pop(0)] if self.parts else []

    def finish(self) -> list[AnswerPart]:
        return self.parts


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_and_calls(server: Served, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    monkeypatch.setattr("rknnlite_server.chat.AnswerParser", Calling)
    response = ask(server, stream=stream)
    found = lines(response) if stream else [response.json()]
    messages = [part["message"] for part in found]
    calls = [call["function"] for message in messages for call in message.get("tool_calls", [])]
    assert calls == [
        {"index": 0, "name": "add", "arguments": {"a": 2, "b": 3}},
        {"index": 1, "name": "now", "arguments": {}},
    ]
    assert "".join(message.get("thinking", "") for message in messages) == "Hm."
    assert "".join(message["content"] for message in messages) == "I ask."
    assert found[-1]["done"] and found[-1]["done_reason"] == "stop"
    talk = [*QUESTION, *messages, {"role": "tool", "tool_name": "add", "content": "5"}]
    assert ask(server, messages=talk).status_code == 200  # what was said can be said again


def test_calls_become_whole_objects() -> None:
    calls = _Calls()
    call, arguments = PartKind.CALL, PartKind.ARGUMENTS
    assert calls.push(AnswerPart(call, "add", 0)) == calls.push(AnswerPart(arguments, '{"a": ', 0)) == ()
    calls.push(AnswerPart(arguments, "1}", 0))
    (first,) = calls.push(AnswerPart(call, "now", 1))
    (second,) = calls.finish()
    assert first["function"] == {"index": 0, "name": "add", "arguments": {"a": 1}}
    assert second["function"] == {"index": 1, "name": "now", "arguments": {}} and first["id"] != second["id"]
    calls.push(AnswerPart(call, "cut", 2))
    calls.push(AnswerPart(arguments, '{"a', 2))
    assert calls.finish() == () and calls.spoilt == 'cut {"a'


# -- the package ------------------------------------------------------------------------------------------


@pytest.fixture
def client(server: Served) -> Any:
    return pytest.importorskip("ollama").Client(host=server.url)


def test_the_package_asks_and_streams(client: Any) -> None:
    found = client.chat("tiny", QUESTION)
    assert found.message.content == ANSWER and found.done_reason == "stop" and found.eval_count > 5
    parts = list(client.chat("tiny", QUESTION, stream=True))
    assert "".join(part.message.content for part in parts) == ANSWER and parts[-1].done
    assert client.generate("tiny", QUESTION[0]["content"]).response == ANSWER
    streamed = client.generate("tiny", QUESTION[0]["content"], stream=True, options={"temperature": 0})
    assert "".join(part.response for part in streamed) == ANSWER


def test_the_package_lists_and_shows(client: Any) -> None:
    (model,) = client.list().models
    assert model.model == "tiny:latest" and model.modified_at.tzinfo is not None
    assert client.show("tiny").capabilities == ["completion", "tools"]
    (running,) = client.ps().models
    assert running.context_length == 1024
    assert client.pull("tiny").status == "success"


def test_the_package_reports_errors(client: Any) -> None:
    ollama = pytest.importorskip("ollama")
    with pytest.raises(ollama.ResponseError, match=r"model 'other' not found \(status code: 404\)"):
        client.chat("other", QUESTION)
    with pytest.raises(ollama.ResponseError, match="not found"):
        list(client.chat("other", QUESTION, stream=True))
    picture = base64.b64encode(b"\x89PNG").decode()
    with pytest.raises(ollama.ResponseError, match="text only"):
        client.chat("tiny", [{"role": "user", "content": "What is it?", "images": [picture]}])


def test_the_package_works_asynchronously(server: Served) -> None:
    ollama = pytest.importorskip("ollama")

    async def both() -> tuple[str, str]:
        client = ollama.AsyncClient(host=server.url)
        whole = await client.chat("tiny", QUESTION)
        streamed = [part.message.content async for part in await client.chat("tiny", QUESTION, stream=True)]
        return whole.message.content, "".join(streamed)

    assert asyncio.run(both()) == (ANSWER, ANSWER)
