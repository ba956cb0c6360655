"""Programs of other people that speak Anthropic's API, unchanged. What is not installed is skipped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.npm import run_node

from .conftest import QUESTION, Served

ANSWER = "2 + 3 = 5"
WEATHER = "What is the weather in Lisbon?"
RAINY = "It is rainy in Lisbon at 14 degrees."
WEATHER_TOOL = {
    "name": "get_weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


@pytest.fixture(scope="module")
def anthropic(server: Served) -> Any:
    return pytest.importorskip("anthropic").Anthropic(base_url=server.url, api_key="none", max_retries=0)


@pytest.mark.slow
def test_anthropic_asks_streams_and_counts(anthropic: Any) -> None:
    ask = {"model": "tiny", "max_tokens": 50, "messages": QUESTION}
    found = anthropic.messages.create(**ask)
    assert found.content[0].text == ANSWER and found.stop_reason == "end_turn"
    with anthropic.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == ANSWER
        last = stream.get_final_message()
    assert last.stop_reason == "end_turn" and last.usage.output_tokens == found.usage.output_tokens
    counted = anthropic.messages.count_tokens(model="tiny", messages=QUESTION)
    for usage in (found.usage, last.usage):
        assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens


def test_anthropic_calls_tools_and_brings_their_results(anthropic: Any) -> None:
    asked = [{"role": "user", "content": WEATHER}]
    ask = {"model": "tiny", "max_tokens": 50, "tools": [WEATHER_TOOL]}
    with anthropic.messages.stream(messages=asked, **ask) as stream:
        called = stream.get_final_message()
    (call,) = called.content
    assert (called.stop_reason, call.name, call.input) == ("tool_use", "get_weather", {"city": "Lisbon"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": '{"sky": "rainy", "degrees": 14}'}
    talk = [
        *asked, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}
    ]  # fmt: skip
    told = anthropic.messages.create(messages=talk, **ask)
    assert told.content[0].text == RAINY


def test_anthropic_lists_models_and_tells_ids_of_requests(anthropic: Any) -> None:
    package = pytest.importorskip("anthropic")
    page = anthropic.models.list()
    (model,) = [*page]
    assert (model.id, model.type, page.has_more) == ("tiny", "model", False) and model.created_at.year > 2020
    assert anthropic.models.retrieve("tiny").display_name == "tiny"
    with pytest.raises(package.NotFoundError):
        anthropic.models.retrieve("other")
    with pytest.raises(package.BadRequestError) as refused:
        anthropic.messages.create(model="tiny", max_tokens=0, messages=QUESTION)
    assert refused.value.request_id.startswith("req_")
    assert anthropic.messages.create(model="tiny", max_tokens=1, messages=QUESTION)._request_id


def test_anthropic_begins_an_answer(anthropic: Any) -> None:
    begun = [*QUESTION, {"role": "assistant", "content": "2 + 3 ="}]
    found = anthropic.messages.create(model="tiny", max_tokens=50, messages=begun)
    assert found.content[0].text == " 5"


def test_anthropic_parses_answers(anthropic: Any) -> None:
    if not hasattr(anthropic.messages, "parse"):
        pytest.skip("this anthropic is older than its parse")
    pydantic = pytest.importorskip("pydantic")
    paint = pydantic.create_model("Paint", wet=(bool, ...), dry=(bool, ...))
    ask = {"model": "tiny", "max_tokens": 60, "messages": QUESTION, "output_format": paint}
    assert isinstance(anthropic.messages.parse(**ask).parsed_output, paint)
    with anthropic.messages.stream(**ask) as stream:
        assert isinstance(stream.get_final_message().parsed_output, paint)


def test_anthropic_runs_tools_by_itself(anthropic: Any) -> None:
    tool = getattr(pytest.importorskip("anthropic"), "beta_tool", None)
    if tool is None:
        pytest.skip("this anthropic is older than its tool runner")
    asked = []

    @tool  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> str:
        """The weather."""
        asked.append(city)
        return '{"sky": "rainy", "degrees": 14}'

    for stream in (False, True):
        runner = anthropic.beta.messages.tool_runner(
            model="tiny",
            max_tokens=60,
            tools=[get_weather],
            stream=stream,
            messages=[{"role": "user", "content": WEATHER}],
        )
        if stream:
            last = [turn.get_final_message() for turn in runner][-1]
        else:
            last = runner.until_done()
        assert last.content[0].text.startswith("It is rainy")  # the model knows one wording of a tool
    assert asked == ["Lisbon", "Lisbon"]


def test_anthropic_asks_asynchronously(server: Served) -> None:
    package = pytest.importorskip("anthropic")

    async def ask() -> list[str]:
        async with package.AsyncAnthropic(base_url=server.url, api_key="none") as client:
            asks = {"model": "tiny", "max_tokens": 50, "messages": QUESTION}
            several = [client.messages.create(**asks) for _ in range(3)]
            async with client.messages.stream(**asks) as stream:
                said = await stream.get_final_text()
            return [said, *(found.content[0].text for found in await asyncio.gather(*several))]

    assert asyncio.run(ask()) == [ANSWER] * 4


def test_anthropic_reports_errors_by_their_kind(anthropic: Any) -> None:
    package = pytest.importorskip("anthropic")
    with pytest.raises(package.NotFoundError, match="does not exist"):
        anthropic.messages.create(model="other", max_tokens=5, messages=QUESTION)
    with pytest.raises(package.BadRequestError, match="max_tokens"):
        anthropic.messages.create(model="tiny", max_tokens=0, messages=QUESTION)


@pytest.mark.slow
def test_pydantic_ai_runs_agents(server: Served) -> None:
    agents = pytest.importorskip("pydantic_ai")
    pytest.importorskip("anthropic")
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    model = AnthropicModel("tiny", provider=AnthropicProvider(base_url=server.url, api_key="none"))
    agent = agents.Agent(model, model_settings={"max_tokens": 60})
    assert agent.run_sync(QUESTION[0]["content"]).output == ANSWER
    asked = []

    @agent.tool_plain  # type: ignore[untyped-decorator]
    def get_weather(city: str) -> dict[str, Any]:
        """The weather."""
        asked.append(city)
        return {"sky": "rainy", "degrees": 14}

    assert agent.run_sync(WEATHER).output.startswith("It is rainy in Lisbon") and asked == ["Lisbon"]

    async def streamed() -> str:
        async with agents.Agent(model).run_stream(QUESTION[0]["content"]) as stream:
            return "".join([piece async for piece in stream.stream_text(delta=True)])

    assert asyncio.run(streamed()) == ANSWER
    paint = pytest.importorskip("pydantic").create_model("Paint", wet=(bool, ...), dry=(bool, ...))
    provider = AnthropicProvider(base_url=server.url, api_key="none")
    able = AnthropicModel("tiny", provider=provider, profile={"supports_json_schema_output": True})
    for using, output in ((model, paint), (able, agents.NativeOutput(paint))):
        bound = agents.Agent(using, output_type=output, model_settings={"max_tokens": 60})
        assert isinstance(bound.run_sync(QUESTION[0]["content"]).output, paint)


def test_langchain_asks_streams_and_binds(server: Served) -> None:
    chat = pytest.importorskip("langchain_anthropic").ChatAnthropic
    pydantic = pytest.importorskip("pydantic")
    model = chat(model="tiny", base_url=server.url, api_key="none", max_retries=0, max_tokens=60)
    question = QUESTION[0]["content"]
    said = model.invoke(question)
    assert said.content == ANSWER and said.usage_metadata["output_tokens"] > 5
    assert "".join(piece.text for piece in model.stream(question)) == ANSWER
    bound = model.bind_tools([WEATHER_TOOL])
    called = bound.invoke(WEATHER)
    (call,) = called.tool_calls
    assert call["name"] == "get_weather" and call["args"] == {"city": "Lisbon"}
    result = {"role": "tool", "tool_call_id": call["id"], "content": '{"sky": "rainy", "degrees": 14}'}
    assert bound.invoke([("human", WEATHER), called, result]).content == RAINY
    paint = pydantic.create_model("Paint", wet=(bool, ...), dry=(bool, ...))
    for method in ("function_calling", "json_schema"):
        assert isinstance(model.with_structured_output(paint, method=method).invoke(question), paint)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:pydantic")
def test_litellm_asks_streams_and_calls(server: Served) -> None:
    litellm = pytest.importorskip("litellm")
    ask = {"model": "anthropic/tiny", "api_base": server.url, "api_key": "none", "max_tokens": 60}
    said = litellm.completion(messages=QUESTION, **ask)
    assert said.choices[0].message.content == ANSWER and said.usage.completion_tokens > 5
    pieces = litellm.completion(messages=QUESTION, stream=True, **ask)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == ANSWER
    function = {"name": "get_weather", "parameters": WEATHER_TOOL["input_schema"]}
    tools = [{"type": "function", "function": function}]
    asked = [{"role": "user", "content": WEATHER}]
    called = litellm.completion(messages=asked, tools=tools, **ask).choices[0].message
    (call,) = called.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Lisbon"}
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"sky": "rainy", "degrees": 14}'}
    told = litellm.completion(messages=[*asked, called, result], tools=tools, **ask)
    assert told.choices[0].message.content == RAINY


PROGRAM = Path(__file__).with_name("anthropic_clients.mjs")
PACKAGES = ("@anthropic-ai/sdk", "ai", "@ai-sdk/anthropic", "zod")


@pytest.fixture(scope="module")
def npm(server: Served) -> Any:
    return run_node(PROGRAM, server.url, QUESTION[0]["content"], WEATHER, packages=PACKAGES)


@pytest.mark.slow
def test_the_ai_package_of_npm_asks_streams_and_calls(npm: Any) -> None:
    found = npm["ai"]
    assert (found["whole"], found["streamed"], found["reason"]) == (ANSWER, ANSWER, "stop")
    assert found["pieces"] > 2 and found["usage"]["outputTokens"] > 5
    assert found["inputs"] == [{"city": "Lisbon"}] * 2 and found["told"].startswith("It is rainy in Lisbon")
    assert set(found["object"]) == {"wet", "dry"}


def test_anthropic_s_package_of_npm(npm: Any) -> None:
    found = npm["sdk"]
    assert (found["whole"], found["streamed"], found["told"]) == (ANSWER, ANSWER, RAINY)
    assert found["input"] == {"city": "Lisbon"} and found["models"] == ["tiny"]
    assert found["counted"] > 5 and found["failed"] == [404, "not_found_error", True]
    assert found["asks"] == ["Lisbon"] and set(found["parsed"]) == {"wet", "dry"}
