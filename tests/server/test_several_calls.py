"""Several calls of tools in one answer, as each family writes them, over every API; and one where one is wanted."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from rknnlite_llm.answers import AnswerFormat, formats
from rknnlite_server.generation import Ended, Piece

from rknnlite.spi.llm import CallState, RunSummary
from tests.llm import written_answers as written

from .conftest import Served

CALLS = [("sky", {"city": "Lisbon", "days": 2}), ("time", {"city": "São Paulo"}), ("sky", {"city": "Rome"})]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
NAMES = ("sky", "time")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
FAMILIES: dict[Callable[[Sequence[Any]], str], AnswerFormat] = {
    written.hermes: formats.HERMES, written.coder: formats.CODER, written.llama: formats.LLAMA,
    written.llama_tagged: formats.LLAMA, written.mistral: formats.MISTRAL, written.mistral_args: formats.MISTRAL_ARGS,
    written.gemma_code: formats.GEMMA, written.gemma_list: formats.GEMMA, written.function_gemma: formats.FUNCTION_GEMMA,
    written.gemma4: formats.GEMMA4, written.deepseek: formats.DEEPSEEK, written.deepseek_fenced: formats.DEEPSEEK_FENCED,
    written.phi: formats.PHI,
}  # fmt: skip
Found = list[tuple[str, Any]]


@pytest.fixture(params=FAMILIES, ids=lambda writer: writer.__name__)
def unbound(request: pytest.FixtureRequest, server: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A server whose model says these calls in the words of a family, a few letters at a time; no grammar binds it."""
    model, text = server.state.models["tiny"], request.param(CALLS)

    async def says(*_: Any) -> AsyncGenerator[Any, None]:
        for place in range(0, len(text), 3):
            yield Piece(text[place : place + 3], (5,))
        yield Ended("stop", 10, 20, 0, RunSummary(CallState.FINISH, 10, 20, 0, 0, 0))

    monkeypatch.setattr(model, "form", FAMILIES[request.param])
    monkeypatch.setattr(model, "abilities", ("completion", "tools"))
    monkeypatch.setattr(model, "constraint", lambda *_: None)
    monkeypatch.setattr("rknnlite_server.chat.generate", says)
    return server


def _events(text: str) -> list[Any]:
    lines = [line for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def chat(server: Served, stream: bool, several: bool) -> Found:
    answer = server.chat(tools=TOOLS, stream=stream, parallel_tool_calls=several)
    if not stream:
        (choice,) = answer.json()["choices"]
        assert choice["finish_reason"] == "tool_calls"
        calls = [call["function"] for call in choice["message"]["tool_calls"]]
        return [(call["name"], json.loads(call["arguments"])) for call in calls]
    names: list[str] = []
    arguments: list[str] = []
    for chunk in _events(answer.text):
        for call in chunk["choices"][0]["delta"].get("tool_calls", []):
            if "name" in call["function"]:
                assert call["index"] == len(names) and call["id"]
                names.append(call["function"]["name"])
                arguments.append("")
            arguments[call["index"]] += call["function"]["arguments"]
    return list(zip(names, map(json.loads, arguments)))


def responses(server: Served, stream: bool, several: bool) -> Found:
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]  # type: ignore[dict-item]
    body = {"input": "?", "tools": tools, "stream": stream, "parallel_tool_calls": several}
    answer = server.post("/v1/responses", **body)
    if not stream:
        return [(item["name"], json.loads(item["arguments"])) for item in answer.json()["output"]]
    events = _events(answer.text)
    pieces: dict[int, str] = {}
    for event in events:
        if event["type"] == "response.function_call_arguments.delta":
            pieces[event["output_index"]] = pieces.get(event["output_index"], "") + event["delta"]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["arguments"] for item in items] == [pieces[index] for index in sorted(pieces)]
    return [(item["name"], json.loads(item["arguments"])) for item in items]


def messages(server: Served, stream: bool, several: bool) -> Found:
    tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    choice = {"type": "auto", "disable_parallel_tool_use": not several}
    talk = [{"role": "user", "content": "?"}]
    body = {"model": "tiny", "max_tokens": 50, "messages": talk, "tools": tools, "tool_choice": choice}
    answer = server.post("/v1/messages", **body, stream=stream)
    if not stream:
        assert answer.json()["stop_reason"] == "tool_use"
        return [(block["name"], block["input"]) for block in answer.json()["content"]]
    blocks: list[Any] = []
    for event in _events(answer.text):
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append([event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            blocks[-1][1] += event["delta"]["partial_json"]
    return [(name, json.loads(arguments)) for name, arguments in blocks]


def ollama(server: Served, stream: bool, several: bool) -> Found:
    talk = [{"role": "user", "content": "?"}]
    answer = server.post("/api/chat", model="tiny", messages=talk, tools=TOOLS, stream=stream)
    told = [json.loads(line)["message"] for line in answer.text.splitlines()]
    calls = [call["function"] for message in told for call in message.get("tool_calls", [])]
    assert [call["index"] for call in calls] == list(range(len(calls)))
    return [(call["name"], call["arguments"]) for call in calls]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ask", [chat, responses, messages, ollama], ids=lambda ask: ask.__name__)
def test_all_of_them_come_in_their_order(
    unbound: Served, ask: Callable[[Served, bool, bool], Found], stream: bool
) -> None:
    assert ask(unbound, stream, True) == CALLS
    if ask is not ollama:  # whose API has no word for it
        assert ask(unbound, stream, False) == CALLS[:1]


@pytest.mark.parametrize(
    "form", {form.name: form for form in FAMILIES.values()}.values(), ids=lambda form: form.name
)
def test_a_grammar_lets_a_model_call_again_or_not(
    server: Served, monkeypatch: pytest.MonkeyPatch, form: AnswerFormat
) -> None:
    """The model, which may not end its answer, calls as often as its grammar lets it."""
    pytest.importorskip("llguidance")
    model = server.state.models["tiny"]
    monkeypatch.setattr(model, "form", form)
    schema = {
        "type": "object", "properties": {"city": {"enum": ["Lisbon", "Rome"]}}, "required": ["city"], "additionalProperties": False,
    }  # fmt: skip
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in NAMES]
    body = {"tools": tools, "tool_choice": "required", "max_tokens": 400, "temperature": 0}
    body["logit_bias"] = {str(model.tokenizer.eos_id): -100}
    for several in (True, False):
        (choice,) = server.chat(**body, parallel_tool_calls=several).json()["choices"]
        calls = choice["message"]["tool_calls"]
        assert len(calls) > 1 if several else len(calls) == 1
        for call in calls[:-1] if several else calls:
            assert json.loads(call["function"]["arguments"])["city"] in ("Lisbon", "Rome")
