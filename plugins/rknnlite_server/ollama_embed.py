"""``POST /api/embed`` and the older ``/api/embeddings``: Ollama's API for embeddings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Optional

from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .app_state import state_of
from .async_helpers import within
from .embeddings import embed_tokens, tokens_of
from .errors import ApiError
from .ollama_requests import model_of
from .request_body import Body
from .served_model import ServedModel
from .streaming import while_connected

__all__ = ["embed", "embed_one"]

_MOST_INPUTS = 2048
Vectors = NDArray[Any]


async def embed(request: Request) -> Response:
    """Texts become vectors; those too long are cut off unless ``truncate`` is false. Durations in nanoseconds."""
    start = time.perf_counter_ns()
    body = await state_of(request).json(request)
    model = await _model(request, body)
    width = model.config.embedding_dim
    dimensions = body.whole("dimensions", 0, 0, width)  # 0: as many as the model has
    texts = [text for text in body.texts("input", _MOST_INPUTS) if text]
    found, count = await _vectors(request, model, texts, body.flag("truncate", True), dimensions or None)
    return JSONResponse(
        {
            "model": model.name,
            "embeddings": found,
            "total_duration": time.perf_counter_ns() - start,
            "load_duration": 0,
            "prompt_eval_count": count,
        }
    )


async def embed_one(request: Request) -> Response:
    """One text."""
    body = await state_of(request).json(request)
    model = await _model(request, body)
    text = body.text("prompt")
    found, _ = await _vectors(request, model, [text] if text else [], True, None)
    return JSONResponse({"embedding": found[0] if found else []})


async def _model(request: Request, body: Body) -> ServedModel:
    model = await model_of(request, body)
    model.must_embed()
    return model


async def _vectors(
    request: Request, model: ServedModel, texts: list[str], truncate: bool, dimensions: Optional[int]
) -> tuple[list[list[float]], int]:
    """The vectors, and of how many tokens they were made; nothing becomes nothing."""
    if not texts:
        return [], 0
    tokens = await asyncio.to_thread(lambda: [tokens_of(model, text, "input", truncate) for text in texts])
    work = embed_tokens(model, tokens, dimensions)
    found = await while_connected(request, _in_time(work, state_of(request).settings.timeout))
    return found.tolist(), sum(map(len, tokens))


async def _in_time(work: Coroutine[Any, Any, Vectors], timeout: float) -> Vectors:
    try:
        return await within(work, timeout)
    except asyncio.TimeoutError:
        raise ApiError(504, "timeout_error", f"the embeddings took longer than {timeout:g} s") from None
