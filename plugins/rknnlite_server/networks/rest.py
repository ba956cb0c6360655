"""The Open Inference Protocol over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite._version import __version__
from rknnlite.protocol.metadata import EXTENSIONS
from rknnlite.protocol.rest import HEADER_LENGTH, parse_request, response_body

from ..body import read_body
from ..state import state_of
from .network import ServedNetwork
from .repository import Repository

__all__ = ["network_routes"]


def network_routes() -> list[BaseRoute]:
    """All routes under ``/v2``."""
    routes: list[BaseRoute] = [
        Route("/v2", server_metadata),
        Route("/v2/", server_metadata),
        Route("/v2/health/live", live),
        Route("/v2/health/ready", ready),
        Route("/v2/models/stats", statistics),
    ]
    for prefix in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(prefix, metadata),
            Route(f"{prefix}/ready", model_ready),
            Route(f"{prefix}/stats", statistics),
            Route(f"{prefix}/infer", infer, methods=["POST"]),
        ]
    return routes


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
    return JSONResponse(_network(request).metadata)


async def model_ready(request: Request) -> Response:
    """``GET /v2/models/NAME/ready``."""
    network = _network(request)
    return JSONResponse({"name": network.name, "ready": True})


async def statistics(request: Request) -> Response:
    """``GET /v2/models/NAME/stats`` of one network, ``GET /v2/models/stats`` of all that are loaded."""
    found = [_network(request)] if "name" in request.path_params else _repository(request).loaded
    return JSONResponse({"model_stats": [network.statistics.fields(network.name) for network in found]})


async def infer(request: Request) -> Response:
    """``POST /v2/models/NAME/infer``."""
    network = _network(request)
    limit = state_of(request).settings.max_body
    with _repository(request).room.hold() as held:  # then the network holds the tensors
        body = await read_body(request, limit, held.take)
    asked = parse_request(network.name, body, request.headers.get(HEADER_LENGTH))
    parts, length = response_body(asked, await network.infer(asked))
    if length is None:
        return Response(parts[0], media_type="application/json")
    headers = {HEADER_LENGTH: str(length)}
    return Response(b"".join(parts), headers=headers, media_type="application/octet-stream")


def _network(request: Request) -> ServedNetwork:
    return _repository(request).network(request.path_params["name"], request.path_params.get("version", ""))


def _repository(request: Request) -> Repository:
    state: Any = state_of(request)
    state.check_ready()
    repository: Repository = state.repository
    return repository
