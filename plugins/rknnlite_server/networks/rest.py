"""The Open Inference Protocol over HTTP: health, metadata, inference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rknnlite_protocol.metadata import EXTENSIONS
from rknnlite_protocol.requests import InferRequest, InferResponse
from rknnlite_protocol.rest_codec import HEADER_LENGTH, json_elements, parse_request, response_body
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite._version import __version__

from ..app_state import state_of
from ..compression import chosen, encoded
from ..request_body import read_body
from .network import ServedNetwork
from .rest_repository import repository_of, repository_routes

__all__ = ["network_routes"]

_LARGE_TEXT = 1 << 16  # bytes of JSON that are parsed beside the event loop: a millisecond
_LARGE_LIST = 1 << 12  # elements that are written as JSON beside it

_ASIDE = ThreadPoolExecutor(1, "rknnlite-json")
"""Large JSON one after the other: it needs the interpreter alone, and memory of several times its size."""


def network_routes() -> list[BaseRoute]:
    """All routes under ``/v2``."""
    prefixes = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
    routes: list[BaseRoute] = [
        *(Route(f"{prefix}/infer", infer, methods=["POST"]) for prefix in prefixes),
        Route("/v2", server_metadata),
        Route("/v2/", server_metadata),
        Route("/v2/health/live", live),
        Route("/v2/health/ready", ready),
        Route("/v2/models/stats", statistics),
    ]
    for prefix in prefixes:
        routes += [
            Route(prefix, metadata),
            Route(f"{prefix}/ready", model_ready),
            Route(f"{prefix}/config", config),
            Route(f"{prefix}/stats", statistics),
        ]
    return [*routes, *repository_routes()]


async def live(request: Request) -> Response:
    """``GET /v2/health/live``: the process answers."""
    return JSONResponse({"live": True})


async def ready(request: Request) -> Response:
    """``GET /v2/health/ready``: 503 until the models are loaded, and while the server ends."""
    state_of(request).check_ready()
    return JSONResponse({"ready": True})


async def server_metadata(request: Request) -> Response:
    """``GET /v2``."""
    return JSONResponse({"name": "rknnlite", "version": __version__, "extensions": list(EXTENSIONS)})


async def metadata(request: Request) -> Response:
    """``GET /v2/models/NAME``."""
    return JSONResponse({**(await _network(request)).metadata, "name": request.path_params["name"]})


async def model_ready(request: Request) -> Response:
    """``GET /v2/models/NAME/ready``."""
    await _network(request)
    return JSONResponse({"name": request.path_params["name"], "ready": True})


async def config(request: Request) -> Response:
    """``GET /v2/models/NAME/config``: Triton's extension."""
    return JSONResponse((await _network(request)).config)


async def statistics(request: Request) -> Response:
    """``GET /v2/models/NAME/stats`` of one network, ``GET /v2/models/stats`` of all that are loaded."""
    found = [await _network(request)] if "name" in request.path_params else repository_of(request).loaded
    return JSONResponse({"model_stats": [network.statistics.fields(network.name) for network in found]})


async def infer(request: Request) -> Response:
    """``POST /v2/models/NAME/infer``."""
    network = await _network(request)
    with network.kept():
        asked = await _asked(request.path_params["name"], request)
        parts, length = await _written(asked, await network.infer(asked))
    headers = {} if length is None else {HEADER_LENGTH: str(length)}
    encoding = chosen(request.headers.get("accept-encoding", ""))
    if encoding:
        headers["Content-Encoding"] = encoding
    kind = "application/json" if length is None else "application/octet-stream"
    return Response(await encoded(parts, encoding), headers=headers, media_type=kind)


async def _asked(name: str, request: Request) -> InferRequest:
    """The request in a body. JSON of any size is parsed beside the event loop, which goes on meanwhile."""
    limit = state_of(request).settings.max_body
    length = request.headers.get(HEADER_LENGTH)
    with repository_of(request).room.hold() as held:  # then the network holds the tensors
        body = await read_body(request, limit, held.take)
        if len(body) <= _LARGE_TEXT or (length is not None and len(length) <= len(str(_LARGE_TEXT))):
            return parse_request(name, body, length)
        return await _aside(parse_request, name, body, length)


async def _written(
    asked: InferRequest, response: InferResponse
) -> tuple[list[bytes | memoryview], int | None]:
    if json_elements(asked, response) <= _LARGE_LIST:
        return response_body(asked, response)
    return await _aside(response_body, asked, response)


async def _aside(function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_ASIDE, function, *arguments)


async def _network(request: Request) -> ServedNetwork:
    params = request.path_params
    return await repository_of(request).opened(params["name"], params.get("version", ""))
