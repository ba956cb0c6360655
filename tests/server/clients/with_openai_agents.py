"""OpenAI's agents call tools and give pydantic models, by responses and by chat:   with_openai_agents.py URL"""

import asyncio
import sys

import agents
import openai
import pydantic

ANSWER = "2 + 3 = 5"
RAINY = "It is rainy in Lisbon at 14 degrees."
Paint = pydantic.create_model("Paint", wet=(bool, ...), dry=(bool, ...))
asked = []


@agents.function_tool
def get_weather(city: str) -> str:
    """Tells the weather."""
    asked.append(city)
    return '{"sky": "rainy", "degrees": 14}'


async def ask(model) -> None:
    agent = agents.Agent(name="ours", model=model)
    first = await agents.Runner.run(agent, "What is 2 + 3?")
    assert first.final_output == ANSWER, first.final_output
    talk = [*first.to_input_list(), {"role": "user", "content": "What is 1 + 1?"}]
    assert (await agents.Runner.run(agent, talk)).final_output == "1 + 1 = 2"
    stream = agents.Runner.run_streamed(agent, "What is 2 + 3?")
    deltas = [
        event.data.delta
        async for event in stream.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(deltas) == ANSWER and len(deltas) > 2, deltas
    forecaster = agents.Agent(name="forecaster", model=model, tools=[get_weather])
    told = await agents.Runner.run(forecaster, "What is the weather in Lisbon?")
    assert told.final_output == RAINY and asked.pop() == "Lisbon", told.final_output
    painter = agents.Agent(name="painter", model=model, output_type=Paint)
    assert isinstance((await agents.Runner.run(painter, "What is 2 + 3?")).final_output, Paint)


async def main() -> None:
    client = openai.AsyncOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0)
    for kind in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
        await ask(kind(model="tiny", openai_client=client))


agents.set_tracing_disabled(True)
asyncio.run(main())
