"""OpenAI's responses: items, named events in order, what is kept, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rknnlite_llm.answers import AnswerPart, PartKind
from rknnlite_server.responses.input_items import as_messages
from rknnlite_server.responses.stored_responses import StoredResponse, StoredResponses

from .conftest import MODEL, Served, ServerSettings, running, until

ASKED = "What is 2 + 3?"
ANSWER = "2 + 3 = 5"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def ask(server: Served, **body: Any) -> Any:
    return server.post("/v1/responses", **{"input": ASKED, **body})


def answered(server: Served, **body: Any) -> Any:
    response = ask(server, **body)
    assert response.status_code == 200, response.text
    return response.json()


def events(response: Any) -> list[Any]:
    """The events of a stream, whose names and numbers are checked."""
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
    *found, rest = response.text.split("\n\n")
    assert rest == ""  # OpenAI ends this stream without a mark
    made = []
    for number, text in enumerate(found):
        name, data = text.split("\n")
        made.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {made[-1]['type']}" and made[-1]["sequence_number"] == number
    return made


def names(found: list[Any]) -> list[str]:
    """What happens, repetitions left out."""
    kinds = [event["type"].removeprefix("response.") for event in found]
    return [kind for before, kind in zip(["", *kinds], kinds) if kind != before]


def test_an_answer(server: Served) -> None:
    found = answered(server, model="tiny", metadata={"for": "a test"})
    (item,) = found["output"]
    part = {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"] == [part] and item["id"].startswith("msg_")
    assert (found["object"], found["status"], found["model"]) == ("response", "completed", "tiny")
    assert found["id"].startswith("resp_") and found["error"] is found["incomplete_details"] is None
    assert found["metadata"] == {"for": "a test"} and found["text"] == {"format": {"type": "text"}}
    usage = found["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens"] == server.chat().json()["usage"]["prompt_tokens"]


def test_tokens_are_counted_beforehand(server: Served) -> None:
    asked = {"input": ASKED, "instructions": "Be brief.", "tools": [WEATHER]}
    counted = server.post("/v1/responses/input_tokens", **asked).json()
    assert counted == {
        "object": "response.input_tokens",
        "input_tokens": answered(server, **asked)["usage"]["input_tokens"],
    }


def test_a_stream_tells_it_in_order(server: Served) -> None:
    found = events(ask(server, stream=True))
    assert names(found) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert found[0]["response"]["status"] == "in_progress" and found[0]["response"]["output"] == []
    assert found[2]["item"]["content"] == [] and found[3]["part"]["text"] == ""
    assert "".join(event.get("delta", "") for event in found) == ANSWER
    last = found[-1]["response"]
    assert last["status"] == "completed" and last["output"] == [found[-2]["item"]]
    assert {event["item_id"] for event in found if "item_id" in event} == {last["output"][0]["id"]}
    assert server.http.get(f"/v1/responses/{last['id']}").json() == last


def test_a_conversation_goes_on_from_a_response(server: Served) -> None:
    first = answered(server, input="What is 40 + 2?", instructions="Be brief.")
    second = answered(server, previous_response_id=first["id"], stream=False)
    assert second["previous_response_id"] == first["id"] and second["instructions"] is None
    whole = [
        {"role": "user", "content": "What is 40 + 2?"}, *first["output"], {"role": "user", "content": ASKED},
    ]  # fmt: skip
    again = answered(server, input=whole, store=False)
    assert again["usage"]["input_tokens"] == second["usage"]["input_tokens"]  # instructions do not go on
    assert again["usage"]["input_tokens_details"]["cached_tokens"] >= second["usage"]["input_tokens"] - 1
    told = server.http.get(f"/v1/responses/{second['id']}/input_items").json()
    said = [item["content"][0]["text"] for item in told["data"]]
    assert said == [ASKED, first["output"][0]["content"][0]["text"], "What is 40 + 2?"]
    page = server.http.get(f"/v1/responses/{second['id']}/input_items?limit=2&order=asc").json()
    assert (
        page["has_more"] and page["data"] == told["data"][:0:-1] and page["last_id"] == told["data"][1]["id"]
    )
    rest = server.http.get(f"/v1/responses/{second['id']}/input_items?order=asc&after={page['last_id']}")
    assert rest.json()["data"] == told["data"][:1] and not rest.json()["has_more"]
    named = [whole[0], {"type": "item_reference", "id": first["output"][0]["id"]}, whole[-1]]
    assert answered(server, input=named)["usage"]["input_tokens"] == second["usage"]["input_tokens"]


def test_calls_and_their_results(server: Served) -> None:
    asked = {"input": "What is the weather in Lisbon?", "tools": [WEATHER]}
    first = answered(server, **asked)
    (call,) = first["output"]
    assert (call["type"], call["name"], call["arguments"]) == (
        "function_call",
        "get_weather",
        '{"city": "Lisbon"}',
    )
    assert call["id"].startswith("fc_") and call["call_id"].startswith("call_")
    result = {
        "type": "function_call_output",
        "call_id": call["call_id"],
        "output": '{"sky": "rainy", "degrees": 14}',
    }
    said = "It is rainy in Lisbon at 14 degrees."
    for body in (
        {"input": [result], "previous_response_id": first["id"]},
        {"input": [{"role": "user", "content": asked["input"]}, call, result]},
    ):
        (item,) = answered(server, tools=[WEATHER], **body)["output"]
        assert item["content"][0]["text"] == said
    found = events(ask(server, stream=True, **asked))
    assert names(found)[2:-1] == [
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
    ]  # fmt: skip
    assert found[2]["item"]["name"] == "get_weather" and found[2]["item"]["arguments"] == ""
    assert "".join(event.get("delta", "") for event in found) == found[-3]["arguments"] == call["arguments"]


def test_which_tools_may_be_called(server: Served) -> None:
    other = {**WEATHER, "name": "set_light"}
    called = {"tools": [WEATHER, other], "max_output_tokens": 60, "parallel_tool_calls": False}
    for choice, name in (
        ({"type": "function", "name": "set_light"}, "set_light"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "set_light"}]}, "set_light"),
    ):  # fmt: skip
        found = answered(server, tool_choice=choice, **called)
        assert found["output"][0]["name"] == name and found["tool_choice"] == choice
    (item,) = answered(server, tool_choice="none", **called)["output"]
    assert item["type"] == "message"


def test_an_answer_of_a_form(server: Served) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "paint", "schema": schema, "strict": True}
    found = answered(server, text={"format": form})
    assert json.loads(found["output"][0]["content"][0]["text"])["colour"] in ("red", "blue")
    assert found["text"]["format"] == form


def test_a_limit_leaves_it_incomplete(server: Served) -> None:
    found = answered(server, max_output_tokens=2)
    assert (found["status"], found["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert found["output"][0]["status"] == "incomplete"
    assert events(ask(server, max_output_tokens=2, stream=True))[-1]["type"] == "response.incomplete"


def test_probabilities(server: Served) -> None:
    found = answered(server, include=["message.output_text.logprobs"], top_logprobs=2)
    (part,) = found["output"][0]["content"]
    assert "".join(token["token"] for token in part["logprobs"]) == ANSWER
    assert all(len(token["top_logprobs"]) == 2 for token in part["logprobs"])
    streamed = events(ask(server, top_logprobs=2, stream=True))
    deltas = [token for event in streamed if "delta" in event for token in event["logprobs"]]
    assert deltas == part["logprobs"]


class Thinking:
    """Reads a thought, text and two calls out of any answer."""

    def __init__(self, *args: Any) -> None:
        call, arguments = PartKind.CALL, PartKind.ARGUMENTS
        self.parts = [
            AnswerPart(PartKind.REASONING, "H"), AnswerPart(PartKind.REASONING, "m."), AnswerPart(PartKind.CONTENT, "I ask."),
            AnswerPart(call, "add", 0), AnswerPart(arguments, '{"a": 2}', 0), AnswerPart(call, "now", 1),
        ]  # fmt: skip

    def push(self, text: str) -> list[AnswerPart]:
        return [self.parts.pop(0)] if self.parts else []

    def finish(self) -> list[AnswerPart]:
        return self.parts


@pytest.mark.parametrize("summary", [None, "auto"])
def test_thoughts_are_items(server: Served, monkeypatch: pytest.MonkeyPatch, summary: Any) -> None:
    monkeypatch.setattr("rknnlite_server.chat.AnswerParser", Thinking)
    wanted = {"reasoning": {"summary": summary}}
    found = events(ask(server, stream=True, **wanted))
    items = found[-1]["response"]["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call"]
    assert [item["status"] for item in items] == ["completed"] * 4
    thought = {"summary": items[0]["summary"], "content": items[0]["content"]}
    word = "reasoning_summary" if summary else "reasoning"
    part = {"type": "summary_text" if summary else "reasoning_text", "text": "Hm."}
    assert thought == ({"summary": [part], "content": []} if summary else {"summary": [], "content": [part]})
    around = "reasoning_summary_part" if summary else "content_part"
    assert names(found)[2:8] == [
        "output_item.added", f"{around}.added", f"{word}_text.delta", f"{word}_text.done", f"{around}.done",
        "output_item.done",
    ]  # fmt: skip
    assert [event["output_index"] for event in found if event["type"].endswith("item.done")] == [0, 1, 2, 3]
    assert found[-1]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    whole = answered(server, **wanted)["output"]
    strange = ("id", "call_id")
    assert [{k: v for k, v in item.items() if k not in strange} for item in whole] == [
        {k: v for k, v in item.items() if k not in strange} for item in items
    ]


TOLD = {"store", "name", "bytes"}
"""What OpenAI tells and its package has no place for: whether a response is kept, the name of a function, bytes of tokens."""
STREAMS: dict[str, dict[str, Any]] = {
    "text": {},
    "cut": {"max_output_tokens": 2},
    "calls": {"input": "What is the weather in Lisbon?", "tools": [WEATHER]},
    "form": {
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {}}}
        }
    },
    "probabilities": {"top_logprobs": 2},
    "thoughts": {"reasoning": {"summary": None}},
    "summaries": {"reasoning": {"summary": "auto"}},
}


@pytest.mark.parametrize("kind", STREAMS)
def test_every_event_is_one_of_openais(server: Served, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """By the types of the package: nothing that is demanded is missing, and nothing is there that has no place."""
    events_of = pytest.importorskip("openai.types.responses").ResponseStreamEvent
    adapter = pytest.importorskip("pydantic").TypeAdapter(events_of)
    if kind in ("thoughts", "summaries"):
        monkeypatch.setattr("rknnlite_server.chat.AnswerParser", Thinking)
    found = events(ask(server, stream=True, **STREAMS[kind]))
    seen: dict[str, int] = {}
    for event in found:
        foreign = _foreign(adapter.validate_python(event))
        assert {name.rpartition(".")[2] for name in foreign} <= TOLD
        if "item_id" in event:  # one item, one place
            assert seen.setdefault(event["item_id"], event["output_index"]) == event["output_index"]
    last = found[-1]["response"]
    assert [item["id"] for item in last["output"]] == [
        event["item"]["id"] for event in found if event["type"] == "response.output_item.added"
    ]
    assert [event["item"] for event in found if event["type"] == "response.output_item.done"] == last[
        "output"
    ]


def _foreign(value: Any, place: str = "") -> list[str]:
    """Fields that the types do not have."""
    if isinstance(value, (list, tuple)):
        return [name for number, item in enumerate(value) for name in _foreign(item, f"{place}[{number}]")]
    if not hasattr(value, "model_fields_set"):
        return []
    extra = [f"{place}.{name}" for name in (value.model_extra or {})]
    return extra + [
        name for key in type(value).model_fields for name in _foreign(getattr(value, key), f"{place}.{key}")
    ]


@pytest.mark.parametrize("limit", [0, 100])
def test_what_is_not_kept_is_not_said_to_be(limit: int) -> None:
    with running(ServerSettings(models=(MODEL,), response_bytes=limit)) as served:
        found = answered(served)
        assert found["store"] is False
        response = ask(served, previous_response_id=found["id"])
        assert response.status_code == 400 and "--response-bytes" in response.json()["error"]["message"]
        assert events(ask(served, stream=True))[-1]["response"]["store"] is False


def test_items_become_messages() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    made = as_messages(
        [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
            {"type": "message", "role": "user", "content": []},
            thought,
            {"type": "message", "role": "assistant", "content": []},
            call,
            {**call, "call_id": "c2"},
            {"type": "function_call_output", "call_id": "c2", "output": "5"},
            {**thought, "content": [], "summary": [{"text": "Short."}]},
            call,
        ],
        "Be brief.",
    )
    assert [message["role"] for message in made] == ["system", "user", "assistant", "tool", "assistant"]
    assert [part["text"] for part in made[0]["content"]] == ["Be brief.\n\n", "Be kind."]
    assert made[2]["reasoning_content"] == "Hm." and [c["id"] for c in made[2]["tool_calls"]] == ["c1", "c2"]
    assert made[3] == {"role": "tool", "tool_call_id": "c2", "content": "5"}
    assert made[4]["reasoning_content"] == "Short." and made[4]["content"] is None


def test_an_answer_without_a_word_is_a_message(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thinking, "__init__", lambda self, *args: setattr(self, "parts", []))
    monkeypatch.setattr("rknnlite_server.chat.AnswerParser", Thinking)
    (item,) = answered(server)["output"]
    assert item["content"][0]["text"] == ""


def test_a_failure_behind_the_beginning_is_told(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Thinking):
        def push(self, text: str) -> list[AnswerPart]:
            if len(self.parts) < 4:
                raise RuntimeError("x")
            return super().push(text)

    monkeypatch.setattr("rknnlite_server.chat.AnswerParser", Broken)
    last = events(ask(server, stream=True))[-1]
    assert last["type"] == "response.failed" and last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] == "server_error"
    assert server.http.get(f"/v1/responses/{last['response']['id']}").status_code == 404


def test_what_is_kept_can_be_forgotten(server: Served) -> None:
    kept, other = answered(server), answered(server, store=False)
    path = f"/v1/responses/{kept['id']}"
    assert server.http.get(path).json() == kept
    assert server.http.get(f"/v1/responses/{other['id']}").status_code == 404
    assert server.http.get(f"{path}?stream=true").status_code == 400
    assert server.http.get(f"{path}/input_items?limit=0").json()["error"]["param"] == "limit"
    assert server.http.delete(path).json() == {"id": kept["id"], "object": "response", "deleted": True}
    for response in (server.http.delete(path), server.http.get(path), server.http.get(f"{path}/input_items")):
        assert response.status_code == 404 and response.json()["error"]["code"] == "response_not_found"
    error = ask(server, previous_response_id=kept["id"]).json()["error"]
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


def test_who_has_another_key_finds_nothing() -> None:
    with running(ServerSettings(models=(MODEL,), api_keys=("one", "two"))) as server:
        mine, theirs = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
        found = server.http.post("/v1/responses", json={"input": ASKED}, headers=mine).json()
        path = f"/v1/responses/{found['id']}"
        assert server.http.get(path, headers=mine).json() == found
        assert server.http.get(path, headers=theirs).status_code == 404
        assert server.http.delete(path, headers=theirs).status_code == 404
        for stolen in (
            {"input": ASKED, "previous_response_id": found["id"]},
            {"input": [{"type": "item_reference", "id": found["output"][0]["id"]}]},
        ):
            answer = server.http.post("/v1/responses", json=stolen, headers=theirs)
            assert answer.status_code == 400 and "not found" in answer.json()["error"]["message"]


def stored(name: str, size: int = 0, *items: str) -> StoredResponse:
    made = tuple({"id": item} for item in items)
    return StoredResponse("", {"id": name, "output": [], "text": "x" * size}, (), made)


def test_the_least_recently_used_leave() -> None:
    kept = StoredResponses(1000)
    for name in "abc":
        kept.put(stored(name, 200, f"item {name}", "shared"))
    assert kept.get("", "a") is not None
    kept.put(stored("d", 300))
    assert [name for name in "abcd" if kept.get("", name)] == ["a", "c", "d"]
    assert kept.item("", "item b") is None and kept.item("", "item a") == {"id": "item a"}
    kept.put(stored("huge", 2000))
    assert kept.get("", "huge") is None and kept.get("", "d") is not None
    assert kept.delete("", "c") and not kept.delete("", "c") and not kept.delete("other", "a")
    assert kept.item("", "shared") is None  # it went with the last that named it
    nothing = StoredResponses(0)
    nothing.put(stored("a"))
    assert nothing.get("", "a") is None


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"input": None}, "input", "must be text or a list"),
        ({"input": []}, "input", "one item or more"),
        ({"input": ["x"]}, "input", "input[0] must be an object"),
        ({"input": [{"type": "computer_call"}]}, "input", "input[0].type"),
        ({"input": [{"role": "king", "content": "x"}]}, "input", "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "input", "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input", "content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]}, "input", "text only"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input", "No tool call found"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input", "not found"),
        ({"input": [{"role": "user", "content": "x"}] * 3000}, "input", "2048 are allowed"),
        ({"background": True}, "background", "not supported"),
        ({"conversation": "conv_1"}, "conversation", "previous_response_id"),
        ({"truncation": "auto"}, "truncation", "no conversation is cut"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]", "no tools of its own"),
        ({"tool_choice": "required"}, "tool_choice", "without tools"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "no"}}, "tool_choice", "get_weather"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "one of"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "missing"),
        ({"max_output_tokens": 0}, "max_output_tokens", "whole number"),
        ({"temperature": 1000}, "temperature", "a number in"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort", "does not think"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort", "must be text"),
    ],
)  # fmt: skip
def test_bad_requests_are_told_what_is_wrong(server: Served, body: Any, param: Any, message: str) -> None:
    response = ask(server, **body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]


def test_what_does_not_exist(server: Served) -> None:
    response = ask(server, model="gpt-5")
    assert response.status_code == 404 and response.json()["error"]["code"] == "model_not_found"


def test_a_conversation_that_is_too_long(server: Served) -> None:
    response = ask(server, input="word " * 3000)
    assert response.status_code == 400 and response.json()["error"]["code"] == "context_length_exceeded"


def test_a_client_that_goes_away_ends_its_run(server: Served) -> None:
    (model,) = server.state.models.values()
    wild = {"input": ASKED, "temperature": 100, "top_k": 0, "top_p": 1, "stream": True}
    with server.http.stream("POST", "/v1/responses", json=wild) as response:
        next(response.iter_lines())
    until(lambda: model.turnstile.running == 0 and model.pool.running == 0)
