"""Programs of other people, unchanged: openai, anthropic, LangChain, llm and more. What is not installed is skipped.

The npm packages ``ai`` and ``@ai-sdk/anthropic`` are looked for in the folder that RKNNLITE_NODE_MODULES names.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import QUESTION, Served

ANSWER = "2 + 3 = 5"
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def openai(server: Served) -> Any:
    return pytest.importorskip("openai").OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_openai_asks(openai: Any) -> None:
    found = openai.chat.completions.create(model="tiny", messages=QUESTION)
    assert found.choices[0].message.content == ANSWER and found.choices[0].finish_reason == "stop"
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert [model.id for model in openai.models.list()] == ["tiny"]
    plain = openai.completions.create(model="tiny", prompt="What", max_tokens=3)
    assert plain.usage.completion_tokens <= 3 and plain.object == "text_completion"


def test_openai_streams(openai: Any) -> None:
    stream = openai.chat.completions.create(
        model="tiny", messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == ANSWER
    assert chunks[-1].usage.completion_tokens > 5
    with openai.chat.completions.stream(model="tiny", messages=QUESTION) as events:
        assert events.get_final_completion().choices[0].message.content == ANSWER


def test_openai_asks_asynchronously(server: Served) -> None:
    package = pytest.importorskip("openai")

    async def ask() -> list[str]:
        async with package.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            several = [client.chat.completions.create(model="tiny", messages=QUESTION) for _ in range(3)]
            stream = await client.chat.completions.create(model="tiny", messages=QUESTION, stream=True)
            pieces = [c.choices[0].delta.content or "" async for c in stream]
            answers = await asyncio.gather(*several)
            return ["".join(pieces), *(found.choices[0].message.content for found in answers)]

    assert asyncio.run(ask()) == [ANSWER] * 4


def test_openai_reports_errors_by_their_kind(openai: Any) -> None:
    package = pytest.importorskip("openai")
    with pytest.raises(package.NotFoundError) as missing:
        openai.chat.completions.create(model="gpt-5", messages=QUESTION)
    assert missing.value.code == "model_not_found" and missing.value.type == "invalid_request_error"
    with pytest.raises(package.BadRequestError, match="a number in"):
        openai.chat.completions.create(model="tiny", messages=QUESTION, temperature=1000)


def test_openai_parses_answers_into_pydantic_models(openai: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    sum_of = pydantic.create_model("Sum", a=(int, ...), b=(int, ...))
    found = openai.chat.completions.parse(
        model="tiny", messages=QUESTION, response_format=sum_of, max_tokens=200
    )
    assert isinstance(found.choices[0].message.parsed, sum_of)


def test_openai_gets_the_call_that_it_requires(openai: Any) -> None:
    found = openai.chat.completions.create(
        model="tiny", messages=QUESTION, tools=[TOOL], tool_choice="required", max_tokens=200
    )
    (call,) = found.choices[0].message.tool_calls
    assert call.function.name == "add" and set(json.loads(call.function.arguments)) == {"a", "b"}
    assert found.choices[0].finish_reason == "tool_calls"
    answered = [
        *QUESTION, found.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "5"},
    ]  # fmt: skip
    assert openai.chat.completions.create(model="tiny", messages=answered, tools=[TOOL]).choices


WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
RAINY = "It is rainy in Lisbon at 14 degrees."


def test_openai_asks_for_responses(openai: Any) -> None:
    package = pytest.importorskip("openai")
    if not hasattr(openai, "responses"):
        pytest.skip("this openai is older than its responses")
    question = QUESTION[0]["content"]
    first = openai.responses.create(model="tiny", input=question)
    assert first.output_text == ANSWER and first.status == "completed" and first.usage.output_tokens > 5
    events = list(openai.responses.create(model="tiny", input=question, stream=True))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == ANSWER
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed" and events[-1].response.output_text == ANSWER
    more = openai.responses.create(model="tiny", input="What is 1 + 1?", previous_response_id=first.id)
    assert more.output_text == "1 + 1 = 2"
    assert openai.responses.retrieve(first.id) == first
    assert [item.type for item in openai.responses.input_items.list(more.id)] == ["message"] * 3
    openai.responses.delete(first.id)
    with pytest.raises(package.NotFoundError):
        openai.responses.retrieve(first.id)
    with pytest.raises(package.BadRequestError) as refused:
        openai.responses.create(model="tiny", input=question, previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"


def test_openai_gathers_the_events_of_responses(openai: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    if not hasattr(getattr(openai, "responses", None), "stream"):
        pytest.skip("this openai is older than its streams of responses")
    with openai.responses.stream(model="tiny", input="What is 2 + 3?") as stream:
        assert stream.get_final_response().output_text == ANSWER
    with openai.responses.stream(
        model="tiny", input="What is the weather in Lisbon?", tools=[WEATHER]
    ) as stream:
        (call,) = stream.get_final_response().output
    assert json.loads(call.arguments) == {"city": "Lisbon"}
    result = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": '{"sky": "rainy", "degrees": 14}',
    }
    question = {"role": "user", "content": "What is the weather in Lisbon?"}
    talk = [question, call.model_dump(exclude={"parsed_arguments"}), result]
    assert openai.responses.create(model="tiny", input=talk, tools=[WEATHER]).output_text == RAINY
    paint = pydantic.create_model("Paint", wet=(bool, ...), dry=(bool, ...))
    found = openai.responses.parse(model="tiny", input="What is 2 + 3?", text_format=paint)
    assert isinstance(found.output_parsed, paint)


def test_pydantic_ai_asks_for_responses(server: Served) -> None:
    models = pytest.importorskip("pydantic_ai.models.openai")
    import pydantic_ai
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    model = models.OpenAIResponsesModel("tiny", provider=provider)
    agent = pydantic_ai.Agent(model)
    first = agent.run_sync("What is 2 + 3?")
    assert first.output == ANSWER and first.usage.output_tokens > 5

    async def streamed() -> str:
        async with agent.run_stream("What is 2 + 3?") as stream:
            return "".join([piece async for piece in stream.stream_text(delta=True)])

    assert asyncio.run(streamed()) == ANSWER
    assert agent.run_sync("What is 1 + 1?", message_history=first.all_messages()).output == "1 + 1 = 2"
    asked = []

    def get_weather(city: str) -> str:
        """Tells the weather."""
        asked.append(city)
        return '{"sky": "rainy", "degrees": 14}'

    forecaster = pydantic_ai.Agent(model, tools=[get_weather])
    assert forecaster.run_sync("What is the weather in Lisbon?").output == RAINY and asked == ["Lisbon"]
    paint = pytest.importorskip("pydantic").create_model("Paint", wet=(bool, ...), dry=(bool, ...))
    for output in (paint, pydantic_ai.NativeOutput(paint)):
        found = pydantic_ai.Agent(model, output_type=output).run_sync("What is 2 + 3?")
        assert isinstance(found.output, paint)


@pytest.fixture(scope="module")
def langchain(server: Served) -> Any:
    chat = pytest.importorskip("langchain_openai").ChatOpenAI
    return chat(model="tiny", base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_langchain_asks_and_streams(langchain: Any) -> None:
    said = langchain.invoke(QUESTION[0]["content"])
    assert said.content == ANSWER and said.usage_metadata["output_tokens"] > 5
    assert "".join(piece.content for piece in langchain.stream(QUESTION[0]["content"])) == ANSWER
    assert asyncio.run(langchain.ainvoke(QUESTION[0]["content"])).content == ANSWER
    assert [found.content for found in langchain.batch([QUESTION[0]["content"]] * 3)] == [ANSWER] * 3


def test_langchain_binds_tools_and_structures(langchain: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    called = (
        langchain.bind_tools([TOOL], tool_choice="required").bind(max_tokens=200).invoke("What is 2 + 3?")
    )
    (call,) = called.tool_calls
    assert call["name"] == "add" and set(call["args"]) == {"a", "b"}
    sum_of = pydantic.create_model("Sum", a=(int, ...), b=(int, ...))
    assert isinstance(langchain.with_structured_output(sum_of).invoke("What is 2 + 3?"), sum_of)


def test_langchain_asks_for_responses(server: Served) -> None:
    chat = pytest.importorskip("langchain_openai").ChatOpenAI
    asks = {"model": "tiny", "base_url": f"{server.url}/v1", "api_key": "none", "max_retries": 0}
    model = chat(**asks, use_responses_api=True, output_version="responses/v1")
    question = QUESTION[0]["content"]
    first = model.invoke(question)
    assert first.text == ANSWER and first.usage_metadata["output_tokens"] > 5
    assert "".join(piece.text for piece in model.stream(question)) == ANSWER
    assert model.invoke([("human", question), first, ("human", "What is 1 + 1?")]).text == "1 + 1 = 2"
    (call,) = model.bind_tools([WEATHER]).invoke("What is the weather in Lisbon?").tool_calls
    assert call["name"] == "get_weather" and call["args"] == {"city": "Lisbon"}


def test_llm_finds_the_model_in_its_list(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is in ``extra-openai-models.yaml``, as llm's documentation says."""
    llm = pytest.importorskip("llm")
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    model = f"- model_id: ours\n  model_name: tiny\n  api_base: {server.url}/v1\n"
    (tmp_path / "extra-openai-models.yaml").write_text(model, "utf-8")
    ours = llm.get_model("ours")
    question = QUESTION[0]["content"]
    assert ours.prompt(question, stream=False, key="none").text() == ANSWER
    assert "".join(ours.prompt(question, key="none")) == ANSWER


def test_ollama_binds_answers(server: Served) -> None:
    client = pytest.importorskip("ollama").Client(host=server.url)
    pydantic = pytest.importorskip("pydantic")
    sum_of = pydantic.create_model("Sum", a=(int, ...), b=(int, ...))
    schema, short = sum_of.model_json_schema(), {"num_predict": 200}
    found = client.chat("tiny", QUESTION, format=schema, options=short)
    assert sum_of.model_validate_json(found.message.content)
    written = client.generate("tiny", "What is 2 + 3?", format="json", options=short)
    assert written.response.startswith("{")
    if written.done_reason == "stop":  # the model, which knows nothing of JSON, may write on for ever
        assert isinstance(json.loads(written.response), dict)


WEATHER = "What is the weather in Lisbon?"
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
    assert told.content[0].text == "It is rainy in Lisbon at 14 degrees."


def test_anthropic_reports_errors_by_their_kind(anthropic: Any) -> None:
    package = pytest.importorskip("anthropic")
    with pytest.raises(package.NotFoundError, match="does not exist"):
        anthropic.messages.create(model="other", max_tokens=5, messages=QUESTION)
    with pytest.raises(package.BadRequestError, match="max_tokens"):
        anthropic.messages.create(model="tiny", max_tokens=0, messages=QUESTION)


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


def test_instructor_gets_pydantic_models(server: Served) -> None:
    instructor, package = pytest.importorskip("instructor"), pytest.importorskip("anthropic")
    pydantic = pytest.importorskip("pydantic")
    colour = pydantic.create_model("Colour", name=(str, pydantic.Field(pattern="^(red|blue)$")))
    client = package.Anthropic(base_url=server.url, api_key="none", max_retries=0)
    made = instructor.from_anthropic(client).messages.create(
        model="tiny", max_tokens=200, messages=QUESTION, response_model=colour, max_retries=0
    )
    assert made.name in ("red", "blue")


AI_SDK = """
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
const [url, question, weather] = process.argv.slice(2);
const model = createAnthropic({ baseURL: url + "/v1", apiKey: "none" })("tiny");
const whole = await generateText({ model, prompt: question, maxOutputTokens: 50 });
const stream = streamText({ model, prompt: question, maxOutputTokens: 50 });
let pieces = 0, streamed = "";
for await (const piece of stream.textStream) { pieces++; streamed += piece; }
const inputSchema = jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"] });
const get_weather = tool({ inputSchema, execute: async () => ({ sky: "rainy", degrees: 14 }) });
const options = { model, prompt: weather, maxOutputTokens: 60, tools: { get_weather }, stopWhen: stepCountIs(2) };
const called = await generateText(options);
const calledInPieces = streamText(options);
for await (const piece of calledInPieces.textStream) {}
const input = (steps) => steps[0].toolCalls[0].input;
console.log(JSON.stringify({
  whole: whole.text, streamed, pieces, reason: await stream.finishReason, usage: await stream.usage,
  inputs: [input(called.steps), input(await calledInPieces.steps)], told: called.text,
}));
"""


def test_the_ai_package_of_npm_asks_streams_and_calls(server: Served, tmp_path: Path) -> None:
    modules, node = os.environ.get("RKNNLITE_NODE_MODULES", ""), shutil.which("node")
    if not node or not (Path(modules) / "@ai-sdk" / "anthropic").is_dir():
        pytest.skip(
            "RKNNLITE_NODE_MODULES names no folder with ai and @ai-sdk/anthropic, or there is no node"
        )
    (tmp_path / "node_modules").symlink_to(Path(modules).resolve())
    script = tmp_path / "ask.mjs"
    script.write_text(AI_SDK, "utf-8")
    command = [node, str(script), server.url, QUESTION[0]["content"], WEATHER]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["whole"], found["streamed"], found["reason"]) == (ANSWER, ANSWER, "stop")
    assert found["pieces"] > 2 and found["usage"]["outputTokens"] > 5
    assert found["inputs"] == [{"city": "Lisbon"}] * 2 and found["told"].startswith("It is rainy in Lisbon")
