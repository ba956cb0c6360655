"""Ollama's API, for the programs that speak only that: ``/api/chat`` and ``/api/generate``, and all routes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite_llm.answers import AnswerPart, PartKind
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite.files.json_text import parse_json

from .app_state import hold, state_of
from .async_helpers import closing
from .audit import ADMINISTRATIVE
from .chat import ChatRequest, chat_request, check_count, parts
from .completions import completion_work
from .generation import Ended, Piece
from .language_models.administration import copy, create, delete, pull
from .language_models.blobs import blob, send_blob
from .logprobs import chat_logprobs
from .ollama_embed import embed, embed_one
from .ollama_models import ps, show, tags, timestamp, unsupported, version
from .ollama_requests import (
    as_chat,
    as_completion,
    chat_messages,
    entry_of,
    generate_messages,
    keep_alive,
    model_of,
)
from .request_body import Body
from .streaming import line_stream, while_connected
from .tool_choice import Tools, call_id

__all__ = ["ollama_routes"]


def ollama_routes() -> list[BaseRoute]:
    """All routes below ``/api``."""
    return [
        Route("/api/chat", chat, methods=["POST"]),
        Route("/api/generate", generate, methods=["POST"]),
        Route("/api/embed", embed, methods=["POST"]),
        Route("/api/embeddings", embed_one, methods=["POST"]),
        Route("/api/tags", tags),
        Route("/api/ps", ps),
        Route("/api/show", show, methods=["POST"]),
        Route("/api/version", version),
        Route("/api/pull", pull, methods=["POST"]),
        Route("/api/create", create, methods=["POST"]),
        Route("/api/copy", copy, methods=["POST"]),
        Route("/api/delete", delete, methods=["DELETE"]),
        Route("/api/push", unsupported, methods=["POST"]),
        Route("/api/blobs/{digest}", blob, methods=["GET"]),
        Route("/api/blobs/{digest}", send_blob, methods=["POST"]),
    ]


@dataclass(frozen=True)
class _Ask:
    """A request under way; ``plain``: an answer of ``/api/generate``, not a message.

    ``start``, and ``loaded``, when its model was there, in perf_counter seconds.
    """

    chat: ChatRequest
    plain: bool
    start: float
    loaded: float
    timeout: float

    def head(self) -> dict[str, Any]:
        """What every object begins with."""
        return {"model": self.chat.model.name, "created_at": timestamp(time.time())}

    def piece(
        self, content: str, thinking: str = "", calls: tuple[dict[str, Any], ...] = ()
    ) -> dict[str, Any]:
        """A piece of an answer."""
        if self.plain:
            return {"response": content, **({"thinking": thinking} if thinking else {})}
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = list(calls)
        return {"message": message}


@dataclass
class _Calls:
    """Tool calls as they come: Ollama's clients want each as a whole, its arguments as an object."""

    name: str = ""
    arguments: str = ""
    count: int = 0
    spoilt: str = field(default="")

    def push(self, part: AnswerPart) -> tuple[dict[str, Any], ...]:
        """A part of a call; the call before it when a new one begins."""
        if part.kind is PartKind.ARGUMENTS:
            self.arguments += part.text
            return ()
        done = self.finish()
        self.name = part.text
        return done

    def finish(self) -> tuple[dict[str, Any], ...]:
        """The call that is complete; one whose arguments are no object (cut off) becomes text, ``spoilt``."""
        if not self.name:
            return ()
        name, text, self.name, self.arguments = self.name, self.arguments, "", ""
        try:
            arguments = parse_json(text or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            self.spoilt += f"{name} {text}"
            return ()
        function = {"index": self.count, "name": name, "arguments": arguments}
        self.count += 1
        return ({"id": call_id(), "function": function},)


async def chat(request: Request) -> Response:
    """``POST /api/chat``."""
    start = time.perf_counter()
    body = await state_of(request).json(request)
    limit = state_of(request).settings.max_messages
    check_count(body.items("messages") or [], limit)
    messages = chat_messages(body)
    if not messages:
        return await _rested(request, body, {"message": {"role": "assistant", "content": ""}})
    model = await model_of(request, body)
    loaded = time.perf_counter()
    model.must_generate()
    asked = await chat_request(as_chat(body, model, messages), model, limit)
    return await _answer(request, asked, False, start, loaded)


async def generate(request: Request) -> Response:
    """``POST /api/generate``."""
    start = time.perf_counter()
    body = await state_of(request).json(request)
    if not body.text("prompt") and not body.has("images"):
        return await _rested(request, body, {"response": ""})
    model = await model_of(request, body)
    loaded = time.perf_counter()
    model.must_generate()
    limit = state_of(request).settings.max_messages
    check_count([body.fields], limit)
    messages = generate_messages(body, model)
    if body.flag("raw"):
        shared, work = await completion_work(as_completion(body), model)
        asked = ChatRequest(model, work, shared, Tools(), False)
    else:
        asked = await chat_request(as_chat(body, model, messages), model, limit)
    return await _answer(request, asked, True, start, loaded)


async def _rested(request: Request, body: Body, empty: dict[str, Any]) -> Response:
    """The answer to a request without any text: the model is loaded, or leaves where ``keep_alive`` is 0.

    Models are loaded so also where that is left to clients. Those of the command line stay.
    """
    request.scope[ADMINISTRATIVE] = True
    library, seconds = state_of(request).library, keep_alive(body)
    entry = await entry_of(request, body)
    leaves = seconds == 0 and not entry.pinned
    if leaves:
        library.unload(entry)
    else:
        loading = library.load(entry, state_of(request).settings.timeout)
        found = hold(request, await while_connected(request, loading))
        found.model.must_generate()
        if seconds is not None:
            found.place.keep = seconds
    head = {"model": entry.name, "created_at": timestamp(time.time())}
    return JSONResponse({**head, **empty, "done": True, "done_reason": "unload" if leaves else "load"})


async def _answer(request: Request, asked: ChatRequest, plain: bool, start: float, loaded: float) -> Response:
    ask = _Ask(asked, plain, start, loaded, state_of(request).settings.timeout)
    if asked.common.stream:
        return await line_stream(request, _lines(ask))
    return JSONResponse(await while_connected(request, _whole(ask)))


async def _lines(ask: _Ask) -> AsyncGenerator[str, None]:
    async with closing(_pieces(ask)) as pieces:
        async for piece in pieces:
            yield json.dumps({**ask.head(), **piece}, ensure_ascii=False)


async def _whole(ask: _Ask) -> dict[str, Any]:
    """All pieces of an answer as one."""
    content, thinking, calls, chances, last = "", "", [], [], {}
    async with closing(_pieces(ask)) as pieces:
        async for piece in pieces:
            said = piece.get("message", piece)
            content += said.get("content", said.get("response", ""))
            thinking += said.get("thinking", "")
            calls += said.get("tool_calls", [])
            chances += piece.get("logprobs", [])
            last = piece
    told = {"logprobs": chances} if chances else {}
    return {**ask.head(), **last, **ask.piece(content, thinking, tuple(calls)), **told}


async def _pieces(ask: _Ask) -> AsyncGenerator[dict[str, Any], None]:
    """Objects without their heads; the last one is done and has the figures."""
    calls = _Calls()
    async with closing(parts(ask.chat, ask.chat.work, ask.timeout)) as items:
        async for found, item in items:
            chances = _chances(ask.chat, item)
            for part in found:
                piece = _piece(ask, calls, part)
                if piece is not None:
                    yield {**piece, "done": False, **chances}
                    chances = {}
            if chances:
                yield {**ask.piece(""), "done": False, **chances}
            if isinstance(item, Ended):
                last = calls.finish()
                if last:
                    yield {**ask.piece("", "", last), "done": False}
                yield {**ask.piece(calls.spoilt), "done": True, **_figures(item, ask)}


def _piece(ask: _Ask, calls: _Calls, part: AnswerPart) -> Optional[dict[str, Any]]:
    if part.kind is PartKind.CONTENT:
        return ask.piece(part.text)
    if part.kind is PartKind.REASONING:
        return ask.piece("", part.text)
    complete = calls.push(part)
    return ask.piece("", "", complete) if complete else None


def _chances(chat: ChatRequest, item: object) -> dict[str, Any]:
    told = chat_logprobs([item], chat.model, chat.common.top) if isinstance(item, Piece) else None
    return {"logprobs": told["content"]} if told is not None else {}


def _figures(ended: Ended, ask: _Ask) -> dict[str, Any]:
    """Durations in nanoseconds; waiting for other requests is in the total only."""
    summary = ended.summary
    return {
        "done_reason": ended.reason,
        "total_duration": _ns(time.perf_counter() - ask.start),
        "load_duration": _ns(ask.loaded - ask.start),
        "prompt_eval_count": ended.prompt_tokens,
        "prompt_eval_duration": _ns(summary.first_token - summary.start),
        "eval_count": ended.completion_tokens,
        "eval_duration": _ns(summary.end - summary.first_token),
    }


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))
