"""Programs of other people, unchanged: openai, LangChain, llm, ollama and more. What is not installed is skipped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import QUESTION, TINY, ModelSettings, Served, ServerSettings, running

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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:pydantic")
def test_litellm_asks_streams_and_calls(server: Served) -> None:
    litellm = pytest.importorskip("litellm")
    ask = {"model": "openai/tiny", "api_base": f"{server.url}/v1", "api_key": "none", "max_retries": 0}
    said = litellm.completion(messages=QUESTION, **ask)
    assert said.choices[0].message.content == ANSWER and said.usage.completion_tokens > 5
    pieces = list(litellm.completion(messages=QUESTION, stream=True, **ask))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == ANSWER and len(pieces) > 2
    assert asyncio.run(litellm.acompletion(messages=QUESTION, **ask)).choices[0].message.content == ANSWER
    asked = [{"role": "user", "content": "What is the weather in Lisbon?"}]
    function = {"name": WEATHER["name"], "parameters": WEATHER["parameters"]}
    tools = [{"type": "function", "function": function}]
    called = litellm.completion(messages=asked, tools=tools, **ask).choices[0].message
    (call,) = called.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Lisbon"}
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"sky": "rainy", "degrees": 14}'}
    told = litellm.completion(messages=[*asked, called, result], tools=tools, **ask)
    assert told.choices[0].message.content == RAINY
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=QUESTION, **{**ask, "model": "openai/other"})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:pydantic")
def test_litellm_asks_for_responses_and_ollama_s_chat(server: Served) -> None:
    litellm = pytest.importorskip("litellm")
    ask = {"model": "openai/tiny", "api_base": f"{server.url}/v1", "api_key": "none"}
    question = QUESTION[0]["content"]
    (message,) = litellm.responses(input=question, **ask).output
    assert message.content[0].text == ANSWER
    events = list(litellm.responses(input=question, stream=True, **ask))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == ANSWER
    for model in ("ollama/tiny", "ollama_chat/tiny"):
        said = litellm.completion(model=model, api_base=server.url, messages=QUESTION)
        assert said.choices[0].message.content == ANSWER, model


@pytest.fixture(scope="module")
def embedder() -> Iterator[Served]:
    model = ModelSettings(model=str(TINY), alias="tiny", embedding=True)
    with running(ServerSettings(models=(model,))) as found:
        yield found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:pydantic")
def test_litellm_embeds(embedder: Served) -> None:
    litellm = pytest.importorskip("litellm")
    ask = {"model": "openai/tiny", "api_base": f"{embedder.url}/v1", "api_key": "none"}
    one, other, same = (
        row["embedding"] for row in litellm.embedding(input=["chips", "a cat", "chips"], **ask).data
    )
    assert np.allclose(one, same, atol=1e-4) and not np.allclose(one, other, atol=1e-2)


def test_langchain_embeds(embedder: Served) -> None:
    embeddings = pytest.importorskip("langchain_openai").OpenAIEmbeddings
    ask = {"model": "tiny", "base_url": f"{embedder.url}/v1", "api_key": "none"}
    model = embeddings(check_embedding_ctx_length=False, **ask)  # else it sends tokens of OpenAI's
    one, other = model.embed_documents(["chips", "a cat"])
    assert np.allclose(one, model.embed_query("chips"), atol=1e-4) and not np.allclose(one, other, atol=1e-2)


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
