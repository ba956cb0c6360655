"""Anthropic's Messages API: answers, events in their order, tools, thoughts, errors."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm.answers import answer_format
from rknnlite_server.settings import ModelSettings, ServerSettings

from .conftest import MODEL, QUESTION, Served, running

ANSWER = "2 + 3 = 5"
WEATHER = [{"role": "user", "content": "What is the weather in Lisbon?"}]
TOOL = {
    "name": "get_weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}

BEGUN = {"role": "assistant", "content": "It"}
CALL = {"type": "tool_use", "id": "a", "name": "b"}
RULE = {"type": "json_schema", "schema": True}
PICTURE = {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}}


def ask(server: Served, **body: Any) -> Any:
    return server.post("/v1/messages", **{"model": "tiny", "max_tokens": 50, "messages": QUESTION, **body})


def events(response: Any) -> list[Any]:
    """The objects of a stream, each of which is named by its type."""
    found = []
    for lines in response.text.strip().split("\n\n"):
        name, data = lines.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_an_answer(server: Served) -> None:
    found = ask(server).json()
    assert found["content"] == [{"type": "text", "text": ANSWER}] and found["id"].startswith("msg_")
    assert (found["type"], found["role"], found["model"]) == ("message", "assistant", "tiny")
    assert (found["stop_reason"], found["stop_sequence"]) == ("end_turn", None)
    usage = found["usage"]
    counted = server.post("/v1/messages/count_tokens", model="tiny", messages=QUESTION).json()
    prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert counted == {"input_tokens": prompt} and usage["output_tokens"] > 5
    assert usage["cache_creation_input_tokens"] == 0


def test_events_come_in_their_order(server: Served) -> None:
    found = events(ask(server, stream=True))
    kinds = [event["type"] for event in found]
    deltas = kinds.count("content_block_delta")
    assert kinds == [
        "message_start",
        "ping",
        "content_block_start",
        *["content_block_delta"] * deltas,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert found[0]["message"]["content"] == [] and found[0]["message"]["stop_reason"] is None
    assert "".join(e["delta"]["text"] for e in found if e["type"] == "content_block_delta") == ANSWER
    assert found[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert found[-2]["usage"]["output_tokens"] > 5


@pytest.mark.parametrize("stream", [False, True])
def test_why_an_answer_ended(server: Served, stream: bool) -> None:
    def ending(**body: Any) -> Any:
        response = ask(server, stream=stream, **body)
        return events(response)[-2]["delta"] if stream else response.json()

    short = ending(max_tokens=2)
    assert (short["stop_reason"], short["stop_sequence"]) == ("max_tokens", None)
    stopped = ending(stop_sequences=["never", "= "])
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", "= ")


def test_an_answer_that_fills_the_context_says_so(server: Served) -> None:
    limit = server.state.models["tiny"].limit
    rule = {"type": "json_schema", "schema": {"type": "array", "minItems": limit, "items": {"const": 1}}}
    found = ask(server, max_tokens=limit, output_config={"format": rule}).json()
    assert found["stop_reason"] == "model_context_window_exceeded"


def test_a_call_and_its_result(server: Served) -> None:
    found = ask(server, messages=WEATHER, tools=[TOOL]).json()
    (call,) = found["content"]
    assert found["stop_reason"] == "tool_use" and call["id"].startswith("toolu_")
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "get_weather", {"city": "Lisbon"})
    result = {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": [{"type": "text", "text": '{"sky": "rainy", "degrees": 14}'}],
    }
    talk = [*WEATHER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    done = ask(server, messages=talk, tools=[TOOL]).json()
    assert done["content"] == [{"type": "text", "text": "It is rainy in Lisbon at 14 degrees."}]
    assert done["usage"]["cache_read_input_tokens"] > 40
    same = server.chat(
        messages=[
            *WEATHER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'}}],
            },
            {"role": "tool", "content": '{"sky": "rainy", "degrees": 14}'},
        ],
        tools=[{"function": {"name": TOOL["name"], "parameters": TOOL["input_schema"]}}],
        max_tokens=1,
    ).json()
    usage = done["usage"]
    assert same["usage"]["prompt_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]


def test_a_call_in_events(server: Served) -> None:
    found = events(ask(server, messages=WEATHER, tools=[TOOL], stream=True))
    (start,) = [event for event in found if event["type"] == "content_block_start"]
    assert start["content_block"]["name"] == "get_weather" and start["content_block"]["input"] == {}
    deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"input_json_delta"} and len(deltas) > 2
    assert json.loads("".join(delta["partial_json"] for delta in deltas)) == {"city": "Lisbon"}
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_tool_may_be_demanded_or_forbidden(server: Served) -> None:
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
        found = ask(server, tools=[TOOL], tool_choice=choice, messages=WEATHER).json()
        assert found["content"][0]["name"] == "get_weather"
    found = ask(server, tools=[TOOL], tool_choice={"type": "none"}, messages=WEATHER).json()
    assert {block["type"] for block in found["content"]} == {"text"}


def test_a_call_that_was_cut_off_is_text(server: Served) -> None:
    found = ask(server, messages=WEATHER, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=14).json()
    assert found["stop_reason"] == "max_tokens"
    assert all(block["type"] == "text" for block in found["content"])


def test_thoughts_are_blocks_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told to have opened a thought, and what it says is its thought, up to a mark that it says."""
    with running(ServerSettings(models=(MODEL,))) as served:
        model = served.state.models["tiny"]
        form = answer_format("<think>")
        marked = type(form)(**{**vars(form), "thoughts": (("<think>", " = "),)})
        monkeypatch.setattr(model, "form", marked)
        monkeypatch.setattr(model, "opens_thought", lambda tokens: True)
        found = ask(served).json()
        thought, text = found["content"]
        assert thought == {"type": "thinking", "thinking": thought["thinking"], "signature": "unsigned"}
        assert (thought["thinking"].strip(), text) == ("2 + 3", {"type": "text", "text": "5"})
        told = events(ask(served, stream=True))
        kinds = [event["delta"]["type"] for event in told if event["type"] == "content_block_delta"]
        assert list(dict.fromkeys(kinds)) == ["thinking_delta", "signature_delta", "text_delta"]
        starts = [event for event in told if event["type"] == "content_block_start"]
        assert [(e["index"], e["content_block"]["type"]) for e in starts] == [(0, "thinking"), (1, "text")]
        talk = [*QUESTION, {"role": "assistant", "content": found["content"]}, *QUESTION]
        assert ask(served, messages=talk).status_code == 200


def test_an_answer_is_bound_to_a_schema(server: Served) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [5, 6]}}, "required": ["a"]}
    rule = {"type": "json_schema", "schema": schema}
    for body in ({"output_config": {"format": rule}}, {"output_format": rule}):
        (block,) = ask(server, **body).json()["content"]
        assert set(json.loads(block["text"])) == {"a"}


def test_what_a_conversation_may_be_made_of(server: Served) -> None:
    def counted(**body: Any) -> int:
        return int(server.post("/v1/messages/count_tokens", **body).json()["input_tokens"])

    plain = counted(messages=QUESTION, system="Be kind.")
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": " 3?"}}
    blocks = [{"type": "text", "text": "What is 2 +", "cache_control": {"type": "ephemeral"}}, document]
    assert counted(messages=[{"role": "user", "content": blocks}], system="Be kind.") == plain
    system = [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]
    assert counted(messages=QUESTION, system=system) == plain
    assert counted(messages=[{"role": "system", "content": "Be kind."}, *QUESTION]) == plain
    joined = [{"role": "user", "content": "What is 2 +\n\n3?"}]
    split = [{"role": "user", "content": "What is 2 +"}, {"role": "user", "content": "3?"}]
    assert counted(messages=split) == counted(messages=joined)


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        ({"model": "other"}, 404, "not_found_error", "does not exist"),
        ({"messages": []}, 400, "invalid_request_error", "one message or more"),
        ({"messages": [BEGUN]}, 400, "invalid_request_error", "behind another message"),
        ({"messages": [*QUESTION, {**BEGUN, "content": [CALL]}]}, 400, "invalid_request_error", "without calls"),
        ({"messages": [*QUESTION, BEGUN], "output_format": RULE}, 400, "invalid_request_error", "begun"),
        ({"messages": [{"role": "tool", "content": "a"}]}, 400, "invalid_request_error", "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, 400, "invalid_request_error", "audio"),
        ({"messages": [{"role": "user", "content": [7]}]}, 400, "invalid_request_error", "messages.0.content.0"),
        ({"messages": ["a"]}, 400, "invalid_request_error", "messages.0"),
        ({"max_tokens": None}, 400, "invalid_request_error", "max_tokens: Field required"),
        ({"max_tokens": 0}, 400, "invalid_request_error", "max_tokens"),
        ({"temperature": 1000}, 400, "invalid_request_error", "temperature"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 400, "invalid_request_error", "thinking"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, 400, "invalid_request_error", "bash"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, 400, "invalid_request_error", "Anthropic's own"),
        ({"tools": [{**TOOL, "name": "a" * 129}]}, 400, "invalid_request_error", "128"),
        ({"container": "abc"}, 400, "invalid_request_error", "container"),
        ({"messages": [{"role": "user", "content": [PICTURE]}]}, 400, "invalid_request_error", "nothing is fetched"),
        ({"tools": [{"name": "a"}]}, 400, "invalid_request_error", "input_schema"),
        ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "tool_choice"),
        ({"mcp_servers": [{"name": "a"}]}, 400, "invalid_request_error", "mcp_servers"),
        ({"stop_sequences": [""]}, 400, "invalid_request_error", "stop_sequences"),
    ],
)  # fmt: skip
def test_errors_in_their_form(server: Served, body: Any, status: int, kind: str, said: str) -> None:
    response = ask(server, **body)
    found = response.json()
    assert (response.status_code, found["type"], found["error"]["type"]) == (status, "error", kind)
    assert said in found["error"]["message"]


def test_adaptive_thinking_takes_what_there_is(server: Served) -> None:
    assert ask(server, thinking={"type": "adaptive"}).json()["content"][0]["text"] == ANSWER


def test_versions_of_the_api(server: Served) -> None:
    body = {"model": "tiny", "messages": QUESTION}
    for version, status in (("2026-10-21", 200), ("2023-06-01", 200), ("1999-01-01", 400)):
        headers = {"anthropic-version": version}
        found = server.http.post("/v1/messages/count_tokens", json=body, headers=headers)
        assert found.status_code == status


def test_keys(server: Served) -> None:
    with running(ServerSettings(models=(MODEL,), api_keys=("secret",))) as served:
        for headers, status in (
            ({"x-api-key": "secret"}, 200),
            ({"authorization": "Bearer secret"}, 200),
            ({"x-api-key": "other"}, 401),
            ({"x-api-key": ""}, 401),
            ({}, 401),
        ):
            body = {"model": "tiny", "messages": QUESTION}
            found = served.http.post("/v1/messages/count_tokens", json=body, headers=headers)
            assert found.status_code == status
        assert found.json()["error"]["type"] == "authentication_error"


def test_what_fails_in_a_stream_is_told_there(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(ServerSettings(models=(MODEL,), timeout=0.4)) as served:
        rule = {"type": "json_schema", "schema": {"type": "array", "minItems": 5000, "items": {"const": 1}}}
        session = type(served.state.models["tiny"].tokenizer)
        decode = session.decode

        def slowly(*args: Any, **more: Any) -> str:
            import time

            time.sleep(0.05)
            return str(decode(*args, **more))

        monkeypatch.setattr(session, "decode", slowly)
        found = events(ask(served, stream=True, max_tokens=4000, output_config={"format": rule}))
    assert found[-1]["type"] == "error" and found[-1]["error"]["type"] == "timeout_error"


def test_every_answer_has_an_id(server: Served) -> None:
    answers = [
        ask(server, max_tokens=1),
        ask(server, max_tokens=1, stream=True),
        ask(server, max_tokens=0),
        server.http.get("/v1/messages/nothing"),
        server.http.get("/v1/models", headers={"anthropic-version": "2023-06-01"}),
    ]
    ids = [answer.headers["request-id"] for answer in answers]
    assert len({*ids}) == len(ids) and all(one.startswith("req_") for one in ids)
    assert "request-id" not in server.http.get("/v1/models").headers


def test_models_in_their_words() -> None:
    version = {"anthropic-version": "2023-06-01"}
    models = tuple(ModelSettings(model=MODEL.model, alias=name) for name in ("a", "b", "c"))
    with running(ServerSettings(models=models)) as served:

        def page(**query: Any) -> Any:
            return served.http.get("/v1/models", headers=version, params=query).json()

        whole = page()
        assert [model["id"] for model in whole["data"]] == ["a", "b", "c"]
        assert (whole["has_more"], whole["first_id"], whole["last_id"]) == (False, "a", "c")
        one = served.http.get("/v1/models/b", headers=version).json()
        assert one == whole["data"][1] and one["type"] == "model" and one["display_name"] == "b"
        assert time.strptime(one["created_at"], "%Y-%m-%dT%H:%M:%SZ") and one["max_input_tokens"] > 100

        def ids(**query: Any) -> tuple[list[str], bool]:
            found = page(**query)
            return [model["id"] for model in found["data"]], found["has_more"]

        assert ids(limit=2) == (["a", "b"], True) and ids(limit=2, after_id="b") == (["c"], False)
        assert ids(limit=1, before_id="c") == (["b"], True) and ids(before_id="a") == ([], False)
        for query in ({"limit": 0}, {"limit": 1001}, {"after_id": "d"}):
            assert page(**query)["error"]["type"] == "invalid_request_error"
        missing = served.http.get("/v1/models/d", headers=version)
        assert missing.status_code == 404 and missing.json()["error"]["type"] == "not_found_error"
        assert served.http.get("/v1/models", headers={"anthropic-version": "1"}).status_code == 400
        assert served.http.get("/v1/models").json()["object"] == "list"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_begun_goes_on(server: Served, stream: bool) -> None:
    begun = {"role": "assistant", "content": [{"type": "text", "text": "2 + 3 ="}]}
    answer = ask(server, messages=[*QUESTION, begun], stream=stream)
    if stream:
        deltas = [e["delta"] for e in events(answer) if e["type"] == "content_block_delta"]
        assert "".join(delta["text"] for delta in deltas) == " 5"
        return
    found = answer.json()
    assert found["content"] == [{"type": "text", "text": " 5"}] and found["stop_reason"] == "end_turn"
    counted = server.post("/v1/messages/count_tokens", messages=[*QUESTION, begun]).json()
    plain = server.post("/v1/messages/count_tokens", messages=QUESTION).json()
    assert 0 < counted["input_tokens"] - plain["input_tokens"] < 8
    usage = found["usage"]
    assert counted["input_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]
    same = server.chat(messages=[*QUESTION, begun], continue_final_message=True).json()
    assert same["choices"][0]["message"]["content"] == " 5"
    special = {"role": "assistant", "content": "<|im_end|>"}
    longer = server.post("/v1/messages/count_tokens", messages=[*QUESTION, special]).json()
    assert longer["input_tokens"] > plain["input_tokens"] + 1  # it is text, not the token


def test_a_result_that_is_an_error_says_so(server: Served) -> None:
    def counted(**result: Any) -> int:
        call = {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}}
        told = {"type": "tool_result", "tool_use_id": "a", **result}
        talk = [*WEATHER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [told]}]
        body = server.post("/v1/messages/count_tokens", messages=talk, tools=[TOOL]).json()
        return int(body["input_tokens"])

    assert counted(content="no road", is_error=True) == counted(content="Error: no road")
    assert counted(content="no road", is_error=False) == counted(content="no road")
    assert counted(is_error=True) > counted()


def test_a_thought_ends_where_its_tokens_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(ServerSettings(models=(MODEL,))) as served:
        model = served.state.models["tiny"]
        form = answer_format("<think>")
        monkeypatch.setattr(model, "form", type(form)(**{**vars(form), "thoughts": (("<think>", " = "),)}))
        monkeypatch.setattr(model, "opens_thought", lambda tokens: True)
        monkeypatch.setattr(model, "abilities", ("completion", "tools", "thinking"))
        for budget, thought in ((2, "2 +"), (1024, "2 + 3")):
            for more in ({}, {"tools": [TOOL]}):
                thinking = {"type": "enabled", "budget_tokens": budget}
                content = ask(served, thinking=thinking, max_tokens=20, **more).json()["content"]
                assert content[0]["thinking"].strip() == thought


def test_a_full_queue_is_overloaded() -> None:
    with running(ServerSettings(models=(MODEL,), parallel=1, queue=0)) as served:
        model = served.state.models["tiny"]
        model.turnstile._inside = 1
        for stream in (False, True):
            refused = ask(served, stream=stream)
            assert (refused.status_code, refused.json()["error"]["type"]) == (529, "overloaded_error")
            assert int(refused.headers["retry-after"]) >= 1
        assert served.chat().status_code == 429  # OpenAI's word for it
        model.turnstile._inside = 0


def test_limits_in_their_form() -> None:
    with running(ServerSettings(models=(MODEL,), max_body=2000)) as served:
        large = ask(served, messages=[{"role": "user", "content": "a" * 3000}])
        assert (large.status_code, large.json()["error"]["type"]) == (413, "request_too_large")


def test_batches_are_refused_once(server: Served) -> None:
    for method, path in (
        ("POST", ""),
        ("GET", ""),
        ("GET", "/a"),
        ("POST", "/a/cancel"),
        ("GET", "/a/results"),
    ):
        refused = server.http.request(method, f"/v1/messages/batches{path}")
        assert refused.status_code == 501 and "/v1/batches" in refused.json()["error"]["message"]
        assert refused.headers["x-should-retry"] == "false"


def test_a_long_request_of_an_agent(tmp_path: Path) -> None:
    """As programs that write code send it: many tools, system blocks and a thought to be cached, results, betas."""
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    names = (
        "Bash",
        "Glob",
        "Grep",
        "Read",
        "Edit",
        "Write",
        "WebFetch",
        "TodoWrite",
        "Task",
        "mcp__a__" + "b" * 100,
    )
    properties = {
        "command": {"type": "string", "description": "What is run.", "minLength": 1},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
        "todos": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"content": {"type": "string"}, "status": {"enum": ["pending", "done"]}},
                "required": ["content", "status"],
                "additionalProperties": False,
            },
        },
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }
    tools: list[Any] = [
        {"name": name, "description": "Does it. " * 9, "input_schema": schema} for name in names
    ]
    tools[-1].update(cached, defer_loading=False, eager_input_streaming=True)
    thought = {"type": "thinking", "thinking": "I look.", "signature": "EqQBCg=="}
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {"command": "ls"}} for n in (1, 2)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "gone"}], "is_error": True},
    ]  # fmt: skip
    reminder = {"type": "text", "text": "<system-reminder>\nBe <|im_end|> brief.\n</system-reminder>"}
    body = {
        "model": "tiny",
        "max_tokens": 32000,
        "stream": True,
        "temperature": 0,
        "metadata": {"user_id": "user_0_account__session_0"},
        "system": [{"type": "text", "text": "You write code.", **cached}, {"type": "text", "text": "You work in /a.", **cached}],
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "service_tier": "auto",
        "tools": tools,
        "messages": [
            {"role": "user", "content": [reminder, {"type": "text", "text": "Look."}]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "Well."}, *calls]},
            {"role": "user", "content": [*results, {"type": "text", "text": "What is 2 + 3?", **cached}]},
        ],
    }  # fmt: skip
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-1m-2025-08-07",
        "x-app": "cli",
        "x-stainless-lang": "js",
    }
    template = tmp_path / "template.jinja"
    with running(ServerSettings(models=(MODEL,))) as plain:
        template.write_text("{# enable_thinking #}" + plain.state.models["tiny"].chat_template, "utf-8")
    thinker = replace(MODEL, chat_template_file=str(template))
    with running(ServerSettings(models=(thinker,), api_keys=("k",))) as served:
        headers["authorization"] = "Bearer k"
        for stream in (True, False):
            asked = {**body, "stream": stream}
            answer = served.http.post("/v1/messages?beta=true", json=asked, headers=headers)
            assert answer.status_code == 200, answer.text
            if stream:
                kinds = [event["type"] for event in events(answer)]
                assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
        counted = {name: body[name] for name in ("model", "system", "tools", "messages", "thinking")}
        found = served.http.post("/v1/messages/count_tokens?beta=true", json=counted, headers=headers)
        usage = answer.json()["usage"]
        assert found.json()["input_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]
        assert usage["cache_read_input_tokens"] > 100  # the same request came before
