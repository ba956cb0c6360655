"""Anthropic's Messages API: ``/v1/messages``, whole and in events, and ``/v1/messages/count_tokens``."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite_llm.answers import AnswerPart, PartKind
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite.files.json_text import parse_json

from .anthropic_requests import as_chat, check_version
from .app_state import served, state_of
from .async_helpers import closing
from .chat import ChatRequest, chat_request, check_count, conversation_of, parts
from .errors import ApiError
from .generation import Ended
from .request_body import Body
from .served_model import ServedModel
from .streaming import named_event_stream, while_connected

__all__ = ["anthropic_routes"]

_UNSIGNED = "unsigned"
"""The signature of a thought: clients send thoughts back only with one. Nobody checks it here."""

Event = dict[str, Any]


def anthropic_routes() -> list[BaseRoute]:
    """The routes of messages."""
    return [
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
        Route("/v1/messages/batches", no_batches, methods=["GET", "POST"]),
        Route("/v1/messages/batches/{rest:path}", no_batches, methods=["GET", "POST", "DELETE"]),
    ]


async def messages(request: Request) -> Response:
    """``POST /v1/messages``."""
    body, model = await _body(request)
    state = state_of(request)
    asked = await chat_request(as_chat(body, model), model, state.settings.max_messages)
    timeout = state.settings.timeout
    if asked.common.stream:
        return await named_event_stream(request, _lines(asked, timeout))
    return JSONResponse(await while_connected(request, _whole(asked, timeout)))


async def count_tokens(request: Request) -> Response:
    """``POST /v1/messages/count_tokens``."""
    body, model = await _body(request)
    limit = state_of(request).settings.max_messages
    talk = await conversation_of(as_chat(body, model, counting=True), model, limit)
    tokens = await asyncio.to_thread(model.prompt, talk.said, talk.begun)
    return JSONResponse({"input_tokens": len(tokens)})


async def no_batches(request: Request) -> Response:
    """``/v1/messages/batches``: 501; OpenAI's route does the same work."""
    error = ApiError(
        501,
        "not_supported_error",
        "batches of messages are not served; /v1/batches takes requests that may wait, in OpenAI's form",
    )
    error.headers["x-should-retry"] = "false"  # Anthropic's clients try again at 500 and above
    raise error


async def _body(request: Request) -> tuple[Body, ServedModel]:
    """The body of a request and its model, which generates text; messages are counted before any is looked at."""
    state = state_of(request)
    check_version(request)
    body = await state.json(request)
    model = await served(request, body.text("model"))
    model.must_generate()
    check_count(body.items("messages") or [], state.settings.max_messages)
    return body, model


@dataclass
class _Message:
    """An answer as it grows: blocks one after the other, and the events that tell of them."""

    asked: ChatRequest
    blocks: list[Event] = field(default_factory=list)
    text: str = ""
    """What the last block has so far: text, a thought, or arguments as JSON."""
    open: bool = False

    def head(self) -> Event:
        """The message before anything of it is there."""
        usage = {"input_tokens": len(self.asked.work.tokens), "output_tokens": 0, **_uncached()}
        return {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self.asked.model.name,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def push(self, part: AnswerPart) -> list[Event]:
        """The events of a part."""
        if part.kind is PartKind.CALL:
            name = f"toolu_{secrets.token_hex(12)}"
            return self._begin({"type": "tool_use", "id": name, "name": part.text, "input": {}})
        events = []
        if part.kind is PartKind.ARGUMENTS:
            delta = {"type": "input_json_delta", "partial_json": part.text}
        elif part.kind is PartKind.REASONING:
            events = self._within({"type": "thinking", "thinking": "", "signature": ""})
            delta = {"type": "thinking_delta", "thinking": part.text}
        else:
            events = self._within({"type": "text", "text": ""})
            delta = {"type": "text_delta", "text": part.text}
        self.text += part.text
        return [*events, self._delta(delta)]

    def end(self) -> list[Event]:
        """The events of the end of the last block."""
        if not self.open:
            return []
        self.open = False
        block, events = self.blocks[-1], []
        if block["type"] == "text":
            block["text"] = self.text
        elif block["type"] == "thinking":
            block.update(thinking=self.text, signature=_UNSIGNED)
            events.append(self._delta({"type": "signature_delta", "signature": _UNSIGNED}))
        else:
            self.blocks[-1] = _called(block, self.text)
        return [*events, {"type": "content_block_stop", "index": len(self.blocks) - 1}]

    def _begin(self, block: Event) -> list[Event]:
        events = self.end()
        self.blocks.append(block)
        self.text, self.open = "", True
        start = {"type": "content_block_start", "index": len(self.blocks) - 1, "content_block": dict(block)}
        return [*events, start]

    def _within(self, block: Event) -> list[Event]:
        """A block of that type goes on, or begins."""
        same = self.open and self.blocks[-1]["type"] == block["type"]
        return [] if same else self._begin(block)

    def _delta(self, delta: Event) -> Event:
        return {"type": "content_block_delta", "index": len(self.blocks) - 1, "delta": delta}

    def reason(self, ended: Ended) -> str:
        """Why it ended, in Anthropic's words."""
        if ended.reason == "length":
            full = ended.prompt_tokens + ended.completion_tokens >= self.asked.model.limit
            return "model_context_window_exceeded" if full else "max_tokens"
        if ended.stop is not None:
            return "stop_sequence"
        return "tool_use" if any(block["type"] == "tool_use" for block in self.blocks) else "end_turn"


def _called(block: Event, arguments: str) -> Event:
    """A call with its input; text where that is no object, because the answer was cut off within it."""
    try:
        given = parse_json(arguments or "{}")
    except ValueError:
        given = None
    if isinstance(given, dict):
        return {**block, "input": given}
    return {"type": "text", "text": f"{block['name']} {arguments}"}


def _uncached() -> Event:
    return {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def _usage(ended: Ended) -> Event:
    """Tokens; those that were found in the cache are not among the input's, as Anthropic counts."""
    return {
        "input_tokens": ended.prompt_tokens - ended.cached_tokens,
        "output_tokens": ended.completion_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": ended.cached_tokens,
    }


async def _whole(asked: ChatRequest, timeout: float) -> Event:
    message, last = _Message(asked), None
    async with closing(parts(asked, asked.work, timeout)) as items:
        async for found, item in items:
            for part in found:
                message.push(part)
            if isinstance(item, Ended):
                last = item
    message.end()
    assert last is not None  # the end of every answer
    return {
        **message.head(),
        "content": message.blocks,
        "stop_reason": message.reason(last),
        "stop_sequence": last.stop,
        "usage": _usage(last),
    }


async def _lines(asked: ChatRequest, timeout: float) -> AsyncGenerator[str, None]:
    async with closing(_events(asked, timeout)) as events:
        async for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}"


async def _events(asked: ChatRequest, timeout: float) -> AsyncGenerator[Event, None]:
    """What a stream carries, in Anthropic's order."""
    message: Optional[_Message] = None
    async with closing(parts(asked, asked.work, timeout)) as items:
        async for found, item in items:
            if message is None:  # only now is it certain that there will be an answer
                message = _Message(asked)
                yield {"type": "message_start", "message": message.head()}
                yield {"type": "ping"}
            for part in found:
                for event in message.push(part):
                    yield event
            if isinstance(item, Ended):
                for event in message.end():
                    yield event
                ending = {"stop_reason": message.reason(item), "stop_sequence": item.stop}
                yield {"type": "message_delta", "delta": ending, "usage": _usage(item)}
                yield {"type": "message_stop"}
