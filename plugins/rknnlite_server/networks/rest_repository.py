"""Triton's extensions over HTTP: the model repository, and a sentence for each that is not offered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..app_state import state_of
from ..errors import ApiError
from ..request_body import Body, read_json
from .repository import Repository, described

__all__ = ["repository_of", "repository_routes"]

_MOST = 1 << 16  # bytes of a body that asks to load or unload
_MEMORY = "shared memory is not offered: tensors travel in the request"
_TRACE = "traces are not offered: /metrics has figures, and `rknnlite perf` the time of each layer"
_NOT_HERE = (
    ("/v2/systemsharedmemory/{rest:path}", _MEMORY),
    ("/v2/cudasharedmemory/{rest:path}", _MEMORY),
    ("/v2/trace/setting", _TRACE),
    ("/v2/models/{name}/trace/setting", _TRACE),
    ("/v2/logging", "what is logged is chosen when the server starts (--log-level)"),
)
"""Paths of Triton that answer 501, each with a sentence."""


def repository_routes() -> list[BaseRoute]:
    """The index, loading and unloading; and what answers 501."""
    routes: list[BaseRoute] = [
        Route("/v2/repository/index", index, methods=["POST"]),
        Route("/v2/repository/models/{name}/load", load, methods=["POST"]),
        Route("/v2/repository/models/{name}/unload", unload, methods=["POST"]),
    ]
    for path, text in _NOT_HERE:
        routes.append(Route(path, _refusing(text), methods=["GET", "POST"]))
    return routes


async def index(request: Request) -> Response:
    """``POST /v2/repository/index``: all networks; with ``{"ready": true}`` those that answer."""
    repository = repository_of(request)
    only_ready = (await _body(request)).flag("ready")
    lines = [described(entry) for entry in repository.index()]
    return JSONResponse([line for line in lines if line["state"] == "READY" or not only_ready])


async def load(request: Request) -> Response:
    """``POST /v2/repository/models/NAME/load``: once it answers, the network does."""
    repository = repository_of(request)
    asked = (await _body(request)).object("parameters").fields
    if asked:
        raise ApiError(
            501,
            "not_supported_error",
            f"a network is loaded as its file is, without {', '.join(asked)[:80]}; the server's options say the rest",
        )
    await repository.load(request.path_params["name"])
    return JSONResponse({})


async def unload(request: Request) -> Response:
    """``POST /v2/repository/models/NAME/unload``: requests that wait are answered first."""
    repository = repository_of(request)
    await _body(request)
    await repository.unload(request.path_params["name"])
    return JSONResponse({})


def _refusing(text: str) -> Callable[[Request], Awaitable[Response]]:
    async def not_here(request: Request) -> Response:
        raise ApiError(501, "not_supported_error", text)

    return not_here


def repository_of(request: Request) -> Repository:
    """The networks of the application, once they are loaded; raises ApiError."""
    state = state_of(request)
    state.check_ready()
    return state.repository


async def _body(request: Request) -> Body:
    """A small object; clients send none at all, too."""
    return await read_json(request, _MOST, empty=True)
