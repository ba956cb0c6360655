"""Routes about the server and its models: health, models, tokens."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .anthropic_models import model_info, model_page
from .anthropic_requests import check_version
from .app_state import served, state_of
from .errors import bad_request, is_anthropic
from .language_models.model_entry import ModelEntry
from .served_model import ServedModel

__all__ = ["detokenize", "entry_card", "health", "models", "one_model", "tokenize"]


async def health(request: Request) -> Response:
    """``GET /health``: 503 until the models are loaded."""
    state_of(request).check_ready()
    return JSONResponse({"status": "ok"})


async def models(request: Request) -> Response:
    """``GET /v1/models``, in OpenAI's words or Anthropic's."""
    state = state_of(request)
    state.check_ready()
    entries = await state.library.index()
    if is_anthropic(request.url.path, request.headers):
        check_version(request)
        return JSONResponse(model_page(entries, request.query_params))
    spoken = [model.card for model in state.speech.values()]
    return JSONResponse({"object": "list", "data": [*map(entry_card, entries), *spoken]})


async def one_model(request: Request) -> Response:
    """``GET /v1/models/NAME``."""
    state = state_of(request)
    state.check_ready()
    name = request.path_params["name"]
    if is_anthropic(request.url.path, request.headers):
        check_version(request)
        return JSONResponse(model_info(await state.library.find(name)))
    spoken = state.speech.get(name)
    card = spoken.card if spoken is not None else entry_card(await state.library.find(name))
    return JSONResponse(card)


def entry_card(entry: ModelEntry) -> dict[str, Any]:
    """What the list of models says about one; ``status`` is as llama.cpp's server has it, with how far loading is."""
    created = int(entry.modified) if entry.model is None else entry.model.created
    card = {"id": entry.name, "object": "model", "created": created, "owned_by": "rknn"}
    if entry.model is not None:
        card["meta"] = entry.model.meta
        card["capabilities"] = list(entry.model.abilities)
    if entry.pinned:
        return card
    status: dict[str, Any] = {"value": entry.status}
    if entry.place.total:
        status.update(done=entry.place.done, total=entry.place.total)
    if entry.reason and entry.model is None:
        status["error"] = entry.reason
    return {**card, "status": status}


async def tokenize(request: Request) -> Response:
    """``POST /tokenize``: ``content`` to ``tokens``."""
    body = await state_of(request).json(request)
    model = await served(request, body.text("model"))
    name = "content" if body.has("content") else "prompt"
    if not body.has(name):
        raise bad_request("content is missing", "content")
    special = body.flag("parse_special", True)
    return await asyncio.to_thread(_tokenized, model, body.text(name), special, body.flag("with_pieces"))


def _tokenized(model: ServedModel, text: str, special: bool, with_pieces: bool) -> Response:
    """In a thread of its own: megabytes of text take a while to be cut, and to be written as JSON."""
    tokens = model.tokenizer.encode(text if special else model.plain_text.within(text))
    if with_pieces:
        return JSONResponse({"tokens": [{"id": token, "piece": model.token_text(token)} for token in tokens]})
    return JSONResponse({"tokens": tokens})


async def detokenize(request: Request) -> Response:
    """``POST /detokenize``: ``tokens`` to ``content``."""
    body = await state_of(request).json(request)
    model = await served(request, body.text("model"))
    tokens = body.items("tokens")
    size = model.config.vocab_size
    if tokens is not None and len(tokens) > model.limit:
        raise body.wrong("tokens", f"a list of at most {model.limit} token ids, as many as the context holds")
    if tokens is None or not all(type(token) is int and 0 <= token < size for token in tokens):
        raise body.wrong("tokens", f"a list of token ids in 0..{size - 1}")
    text = await asyncio.to_thread(model.tokenizer.decode, tokens, False)
    return JSONResponse({"content": text})
