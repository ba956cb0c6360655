"""``POST /v1/embeddings``: texts, or tokens, become vectors."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Optional, TypeVar

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.embedding import shortened, text_tokens
from rknnlite_llm.package import no_table
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite.errors import ModelUnsupported

from .app_state import served, state_of
from .async_helpers import within
from .errors import ApiError, bad_request
from .rate_limits import spend_tokens
from .request_body import Body
from .served_model import ServedModel
from .streaming import while_connected

__all__ = ["embed_tokens", "embeddings", "tokens_of"]

Array = NDArray[Any]
T = TypeVar("T")
_TOGETHER = 512
"""Tokens that are computed together; more of them are no faster."""
_MOST_INPUTS = 2048
_MOST_TOKENS = 300_000
"""Of one request, as OpenAI's API has it."""


async def embeddings(request: Request) -> Response:
    """The route."""
    state = state_of(request)
    body = await state.json(request)
    model = await served(request, body.text("model"))
    width = model.config.embedding_dim
    encoded = body.text("encoding_format", "float", ("float", "base64")) == "base64"
    dimensions = body.whole("dimensions", width, 1, width)
    work = _embedded(model, body, None if dimensions == width else dimensions)
    found, count = await while_connected(request, _in_time(work, state.settings.timeout))
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(row) if encoded else row.tolist()}
        for index, row in enumerate(found)
    ]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": model.name, "usage": usage})


async def _embedded(model: ServedModel, body: Body, dimensions: Optional[int]) -> tuple[Array, int]:
    """Embeddings float32 (inputs, dimensions), and how many tokens they were made of."""
    model.must_embed()
    tokens = await asyncio.to_thread(_inputs, body, model)
    return await embed_tokens(model, tokens, dimensions), sum(map(len, tokens))


async def embed_tokens(model: ServedModel, texts: list[list[int]], dimensions: Optional[int] = None) -> Array:
    """Embeddings of texts in tokens, float32 (texts, dimensions), when the model has a turn for them."""
    table = model.callbacks.embed or no_table
    async with model.turnstile.turn():
        spend_tokens(sum(map(len, texts)))
        try:
            made = [await _finished(model.context.embed, batch, table) for batch in _batches(texts)]
        except ModelUnsupported as error:  # a backend without embeddings
            raise ApiError(501, "not_supported_error", str(error)) from None
    found: Array = np.concatenate(made)
    return found if dimensions is None else shortened(found, dimensions)


def _batches(texts: list[list[int]]) -> Iterator[list[list[int]]]:
    """Texts that are computed together; in between a client may go away."""
    batch: list[list[int]] = []
    for text in texts:
        if batch and sum(map(len, batch)) + len(text) > _TOGETHER:
            yield batch
            batch = []
        batch.append(text)
    yield batch


async def _finished(call: Callable[..., Array], *given: Any) -> Array:
    """What a call returns in a thread; also who does not want to wait any more holds the turn until its end."""
    task = asyncio.ensure_future(asyncio.to_thread(call, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _in_time(work: Coroutine[Any, Any, T], timeout: float) -> T:
    try:
        return await within(work, timeout)
    except asyncio.TimeoutError:
        raise ApiError(
            504, "timeout_error", f"the embeddings were not complete within {timeout:g} s"
        ) from None


def tokens_of(model: ServedModel, text: str, name: str, truncate: bool = False) -> list[int]:
    """A text with the special tokens around it; raises ApiError for one that is longer than the model takes."""
    tokens = text_tokens(model.tokenizer, text, model.limit if truncate else None)
    return _fitting(model, tokens, name)


def _inputs(body: Body, model: ServedModel) -> list[list[int]]:
    given = body.fields.get("input")
    single = isinstance(given, str) or (isinstance(given, list) and bool(given) and type(given[0]) is int)
    several = [given] if single else given
    if not isinstance(several, list) or not 0 < len(several) <= _MOST_INPUTS:
        raise body.wrong("input", f"text, tokens, or a list of 1..{_MOST_INPUTS} of them")
    made = [_tokens(model, text, "input" if single else f"input[{i}]") for i, text in enumerate(several)]
    total = sum(map(len, made))
    if total > _MOST_TOKENS:
        raise bad_request(f"input is {total} tokens together, must be at most {_MOST_TOKENS}", "input")
    return made


def _tokens(model: ServedModel, given: Any, name: str) -> list[int]:
    if isinstance(given, str):
        if not given:
            raise bad_request(f"{name} is empty", "input")
        return tokens_of(model, given, name)
    size = model.config.vocab_size
    plain = isinstance(given, list) and all(type(token) is int and 0 <= token < size for token in given)
    if not plain or not given:
        raise bad_request(f"{name} must be text, or token ids in 0..{size - 1}", "input")
    return _fitting(model, given, name)


def _fitting(model: ServedModel, tokens: list[int], name: str) -> list[int]:
    if not 0 < len(tokens) <= model.limit:
        raise ApiError(
            400,
            "invalid_request_error",
            f"{name} is {len(tokens)} tokens long, the model {model.name} takes 1..{model.limit}; shorten it, or split it into "
            "several inputs",
            "input",
            "context_length_exceeded",
        )
    return tokens


def _base64(row: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(row, "<f4").tobytes()).decode()
