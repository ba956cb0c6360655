"""LlamaIndex asks, streams, calls tools, gets pydantic models and embeds:   with_llama_index.py URL"""

import asyncio
import sys

import pydantic
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

ANSWER = "2 + 3 = 5"
RAINY = "It is rainy in Lisbon at 14 degrees."
Paint = pydantic.create_model("Paint", wet=(bool, ...), dry=(bool, ...))
where = {"api_base": f"{sys.argv[1]}/v1", "api_key": "none", "max_retries": 0}
model = OpenAILike(
    model="tiny", is_chat_model=True, is_function_calling_model=True, context_window=1024, **where
)
question = [ChatMessage(role="user", content="What is 2 + 3?")]


def get_weather(city: str) -> str:
    """Tells the weather."""
    return f'{{"sky": "rainy", "degrees": 14, "city": "{city}"}}'


assert model.chat(question).message.content == ANSWER
assert model.complete("What is 2 + 3?").text == ANSWER
pieces = [piece.delta for piece in model.stream_chat(question)]
assert "".join(filter(None, pieces)) == ANSWER and len(pieces) > 2, pieces
assert asyncio.run(model.achat(question)).message.content == ANSWER

weather = "What is the weather in Lisbon?"
found = model.chat_with_tools([FunctionTool.from_defaults(get_weather)], user_msg=weather)
(call,) = model.get_tool_calls_from_response(found)
assert (call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Lisbon"}), call
result = ChatMessage(
    role="tool", content='{"sky": "rainy", "degrees": 14}', additional_kwargs={"tool_call_id": call.tool_id}
)
told = model.chat([ChatMessage(role="user", content=weather), found.message, result])
assert told.message.content == RAINY, told

made = model.as_structured_llm(Paint, tool_required=True).chat(question)
assert isinstance(made.raw, Paint), made

embedding = OpenAILikeEmbedding(model_name="embeds", **where)
one, *several = embedding.get_text_embedding_batch(["chips", "chips", "a cat sat"])


def far(left: list[float], right: list[float]) -> float:
    """The largest difference; rows of a batch are summed in another order than one alone."""
    return max(abs(a - b) for a, b in zip(left, right))


assert far(one, several[0]) < 1e-4 < 1e-2 < far(one, several[1])
assert far(one, embedding.get_query_embedding("chips")) < 1e-4
