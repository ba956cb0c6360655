"""``/models/load`` and ``/models/unload``, as llama.cpp's server has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..app_state import hold, state_of
from ..errors import bad_request
from ..streaming import line_stream, while_connected
from .model_entry import ModelEntry

__all__ = ["load_routes"]

_EVERY = 0.2  # seconds between two lines


def load_routes() -> list[BaseRoute]:
    """The routes."""
    return [
        Route("/models/load", load, methods=["POST"]),
        Route("/models/unload", unload, methods=["POST"]),
    ]


async def load(request: Request) -> Response:
    """Load ``model``; with ``stream`` a line tells how far it is."""
    state = state_of(request)
    body = await state.json(request)
    entry = await _entry(request, body.text("model"))
    if body.flag("stream"):
        return await line_stream(request, _lines(request, entry))
    hold(request, await while_connected(request, state.library.load(entry)))
    return JSONResponse({"success": True})


async def unload(request: Request) -> Response:
    """Unload ``model`` once its requests are answered."""
    state = state_of(request)
    body = await state.json(request)
    entry = await _entry(request, body.text("model"))
    if entry.pinned:
        raise bad_request(f"{entry.name} is a model of the server's command line, and stays loaded", "model")
    state.library.unload(entry)
    return JSONResponse({"success": True})


async def _entry(request: Request, name: str) -> ModelEntry:
    state = state_of(request)
    state.check_ready()
    if not name:
        raise bad_request("model is required", "model")
    return await state.library.find(name)


async def _lines(request: Request, entry: ModelEntry) -> AsyncGenerator[str, None]:
    library = state_of(request).library
    loading = asyncio.ensure_future(library.load(entry))
    try:
        while not loading.done():
            yield json.dumps({"status": "loading", "completed": entry.place.done, "total": entry.place.total})
            await asyncio.wait([loading], timeout=_EVERY)
        loading.result()
        yield json.dumps({"status": "success"})
    finally:
        loading.cancel()
        await asyncio.wait([loading])
        if not loading.cancelled() and loading.exception() is None:
            library.open.give(loading.result())
