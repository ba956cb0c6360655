"""Programs of other people that speak Anthropic's API, unchanged. What is not installed is skipped.

The npm packages ``@anthropic-ai/sdk``, ``ai``, ``@ai-sdk/anthropic`` and ``zod`` are looked for in the folder that
RKNNLITE_NODE_MODULES names.
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
