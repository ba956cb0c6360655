"""``POST /v1/chat/completions``: OpenAI's chat API."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union

from rknnlite_llm.answers import AnswerParser, AnswerPart, PartKind, answer_decoder
from rknnlite_llm.messages import checked_messages
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite.spi.llm import MessagesInput

from .app_state import served, state_of
from .async_helpers import closing
from .errors import bad_request
from .generation import Ended, Piece, Work, generate
from .generation_request import Common, common, response_rule, room, top_logprobs
from .logprobs import chat_logprobs
from .request_body import Body
from .served_model import ServedModel
from .streaming import event_stream, while_connected
from .tool_choice import Tools, call_id, tools_of

__all__ = [
    "ChatAnswer",
    "ChatRequest",
    "chat_completions",
    "chat_request",
    "check_count",
    "conversation_of",
    "parts",
    "whole_answer",
]

_MOST_PARTS = 8192
"""Parts of all messages together, each of which takes a while to be looked at."""


@dataclass(frozen=True)
class Conversation:
    """What was said, the tools, and the beginning of the answer, which the model goes on with."""

    said: MessagesInput
    tools: Tools
    begun: str = ""


@dataclass(frozen=True)
class ChatRequest:
    """A conversation to be answered: ``work`` for the model, ``tools`` and ``thinking`` to read its answer."""

    model: ServedModel
    work: Work
    common: Common
    tools: Tools
    thinking: bool

    def parser(self) -> AnswerParser:
        """Takes an answer apart."""
        return AnswerParser(self.model.form, self.tools.offered, self.thinking)


@dataclass
class ChatAnswer:
    """An answer as it grows."""

    reasoning: str = ""
    content: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    ended: Optional[Ended] = None

    def add(self, part: AnswerPart) -> dict[str, Any]:
        """Take a part in; what a stream says of it (OpenAI's ``delta``)."""
        if part.kind is PartKind.REASONING:
            self.reasoning += part.text
            return {"reasoning_content": part.text}
        if part.kind is PartKind.CONTENT:
            self.content += part.text
            return {"content": part.text}
        if part.kind is PartKind.CALL:
            call = {"id": call_id(), "type": "function", "function": {"name": part.text, "arguments": ""}}
            self.calls.append(call)
            return {"tool_calls": [{"index": part.call, **call, "function": dict(call["function"])}]}  # type: ignore[call-overload]
        self.calls[part.call]["function"]["arguments"] += part.text
        return {"tool_calls": [{"index": part.call, "function": {"arguments": part.text}}]}

    @property
    def reason(self) -> str:
        """Why it ended, in OpenAI's words."""
        reason = self.ended.reason if self.ended is not None else "stop"
        return "tool_calls" if self.calls and reason == "stop" else reason

    @property
    def message(self) -> dict[str, Any]:
        """The message of a complete answer."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.content or (None if self.calls else ""),
        }
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        return message


async def conversation_of(body: Body, model: ServedModel, limit: int) -> Conversation:
    """The conversation of a request with its pictures, and the tools; ``limit`` is the number of messages.

    Raises ApiError, ParamInvalid.
    """
    messages = body.items("messages")
    if not messages:
        raise bad_request("messages must be a list with one message or more", "messages")
    check_count(messages, limit)
    messages = model.settings.made.conversation(messages)
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if body.has(old):
            raise bad_request(f"{old} is not supported, give {new} instead", old)
    tools = tools_of(body)
    arguments = dict(body.object("chat_template_kwargs").fields)
    thinking = arguments.pop("enable_thinking", False)  # no model thinks unasked
    if not isinstance(thinking, bool):
        raise bad_request(
            "chat_template_kwargs.enable_thinking must be true or false", "chat_template_kwargs"
        )
    begun = ""
    if body.flag("continue_final_message"):
        messages, begun = _begun(messages, model)
    said = MessagesInput(
        messages,
        tools.offered,
        thinking,
        arguments,
        not body.has("add_generation_prompt") or body.flag("add_generation_prompt"),
    )
    said = await model.media.attached(said, messages)
    if not body.flag("parse_special"):  # what looks like a control token in a message is text
        said = await asyncio.to_thread(model.plain_text.conversation, said)
        begun = model.plain_text.marked(begun)
    return Conversation(said, tools, begun)


def _begun(messages: list[Any], model: ServedModel) -> tuple[list[Any], str]:
    """The messages before the last one, and its text, with which the answer has begun; raises ApiError."""
    (last,) = checked_messages(messages[-1:])
    if last["role"] != "assistant" or last.get("tool_calls") or len(messages) == 1:
        raise bad_request(
            "the last message is the assistant's: its answer goes on only behind another message, with text and without calls",
            "messages",
        )
    if model.form.name == "harmony":
        raise bad_request(f"{model.name} answers in channels: its answer cannot be begun", "messages")
    return messages[:-1], str(last["content"])


async def chat_request(body: Body, model: ServedModel, limit: int) -> ChatRequest:
    """Read a request; ``limit`` is the number of messages. Raises ApiError, ParamInvalid."""
    talk = await conversation_of(body, model, limit)
    said, tools = talk.said, talk.tools
    rule = response_rule(body)
    if talk.begun and (rule is not None or said.enable_thinking):
        raise bad_request("an answer that is begun can neither be bound nor follow a thought", "messages")
    tokens = await asyncio.to_thread(model.prompt, said, talk.begun)
    shared = common(body, model, top_logprobs(body))
    bound = await asyncio.to_thread(
        model.constraint, rule, tools, model.thinks_first(tokens, said.enable_thinking)
    )
    budget = body.whole("thinking_budget_tokens", 0, 1, 1 << 30)
    if budget and (said.enable_thinking or model.opens_thought(tokens)):
        bound = model.thinking_within(budget, model.opens_thought(tokens), bound)
    work = Work(
        tuple(tokens),
        shared.sampling,
        room(body, model, len(tokens)),
        shared.stop,
        bound,
        shared.top,
        model.media.input_of(said, tokens, model.prompt_text(said, talk.begun)),
        answer_decoder(model.tokenizer, model.form, bool(tools.offered)),
    )
    return ChatRequest(model, work, shared, tools, model.opens_thought(tokens))


def check_count(messages: Sequence[Any], limit: int) -> None:
    """Before any message is looked at: raises ApiError for more than ``limit``, or too many parts and pictures in them."""
    if len(messages) > limit:
        raise bad_request(f"{len(messages)} messages, {limit} are allowed", "messages")
    lists = [m.get(name) for m in messages if isinstance(m, dict) for name in ("content", "images")]
    count = sum(len(content) for content in lists if isinstance(content, list))
    if count > _MOST_PARTS:
        raise bad_request(f"{count} parts of messages, {_MOST_PARTS} are allowed", "messages")


async def parts(
    request: ChatRequest, work: Work, timeout: float
) -> AsyncGenerator[tuple[list[AnswerPart], Union[Piece, Ended]], None]:
    """The answer taken apart, each time with what it came from."""
    parser = request.parser()
    async with closing(generate(request.model, work, timeout)) as items:
        async for item in items:
            found = parser.finish() if isinstance(item, Ended) else parser.push(item.text)
            if not request.tools.parallel:  # where no grammar binds the model, it may have called more
                found = [part for part in found if part.call < 1]
            yield found, item


async def whole_answer(request: ChatRequest, work: Work, timeout: float) -> ChatAnswer:
    """Wait for the complete answer."""
    answer = ChatAnswer()
    async with closing(parts(request, work, timeout)) as items:
        async for found, item in items:
            for part in found:
                answer.add(part)
            if isinstance(item, Ended):
                answer.ended = item
            else:
                answer.pieces.append(item)
    return answer


def works(request: ChatRequest) -> list[Work]:
    """The work for each of ``n`` answers: with a seed each has one of its own."""
    seed = request.work.sampling.seed
    if seed is None:
        return [request.work] * request.common.count
    samplings = [replace(request.work.sampling, seed=seed + number) for number in range(request.common.count)]
    return [replace(request.work, sampling=sampling) for sampling in samplings]


async def chat_completions(request: Request) -> Response:
    """The route."""
    state = state_of(request)
    body = await state.json(request)
    model = await served(request, body.text("model"))
    model.must_generate()
    chat = await chat_request(body, model, state.settings.max_messages)
    timeout = state.settings.timeout
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.name}
    if chat.common.stream:
        return await event_stream(request, _chunks(chat, head, timeout))
    answers = [await while_connected(request, whole_answer(chat, work, timeout)) for work in works(chat)]
    choices = [
        {
            "index": number,
            "message": answer.message,
            "finish_reason": answer.reason,
            "logprobs": chat_logprobs(answer.pieces, model, chat.common.top),
        }
        for number, answer in enumerate(answers)
    ]
    usage = usage_of([answer.ended for answer in answers])
    return JSONResponse({**head, "object": "chat.completion", "choices": choices, "usage": usage})


async def _chunks(chat: ChatRequest, head: dict[str, Any], timeout: float) -> AsyncGenerator[str, None]:
    """What a stream carries, as JSON text."""
    head = {**head, "object": "chat.completion.chunk"}
    ends: list[Optional[Ended]] = []
    for index, work in enumerate(works(chat)):
        answer, begun = ChatAnswer(), False
        async with closing(parts(chat, work, timeout)) as items:
            async for found, item in items:
                if not begun:  # only now is it certain that there will be an answer
                    begun = True
                    yield _chunk(head, index, {"role": "assistant", "content": ""})
                told = chat_logprobs([item], chat.model, chat.common.top) if isinstance(item, Piece) else None
                if told is not None and not found:
                    yield _chunk(head, index, {}, logprobs=told)
                for part in found:
                    yield _chunk(head, index, answer.add(part), logprobs=told)
                    told = None
                if isinstance(item, Ended):
                    answer.ended = item
        ends.append(answer.ended)
        yield _chunk(head, index, {}, answer.reason)
    if chat.common.usage_in_stream:
        yield json.dumps({**head, "choices": [], "usage": usage_of(ends)})


def _chunk(
    head: dict[str, Any],
    index: int,
    delta: dict[str, Any],
    reason: Optional[str] = None,
    logprobs: Any = None,
) -> str:
    choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
    return json.dumps({**head, "choices": [choice]}, ensure_ascii=False)


def usage_of(ends: list[Optional[Ended]]) -> dict[str, Any]:
    """Tokens of a request; those of the prompt count once."""
    known = [end for end in ends if end is not None]
    prompt = known[0].prompt_tokens if known else 0
    said = sum(end.completion_tokens for end in known)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": said,
        "total_tokens": prompt + said,
        "prompt_tokens_details": {"cached_tokens": known[0].cached_tokens if known else 0},
    }
