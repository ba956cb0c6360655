"""``POST /v1/vision/detect`` and the others: what a network finds in a picture; ``GET /v1/vision/models``: which there are."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rknnlite_vision.heads.head import ASKED
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rknnlite.errors import RknnError
from rknnlite.native.processors import processors

from ..app_state import state_of
from ..async_helpers import in_thread_of, within
from ..errors import ApiError, bad_request
from ..networks.network import ServedNetwork
from ..networks.repository import Repository
from ..networks.rest_repository import repository_of
from ..streaming import while_connected
from .answers import Seen, answered
from .asked import Asked, read_asked
from .sights import Sight, sight_of

__all__ = ["vision_routes"]

_ASIDE = ThreadPoolExecutor(max(2, min(4, processors())), "rknnlite-vision")
"""Few pictures are in memory with all their pixels at a time; the others are files yet, or rows for a network."""


def vision_routes() -> list[BaseRoute]:
    """All routes under ``/v1/vision``."""
    routes: list[BaseRoute] = [
        Route(f"/v1/vision/{name}", functools.partial(_look, name), methods=["POST"]) for name in ASKED
    ]
    return [*routes, Route("/v1/vision/models", models)]


async def models(request: Request) -> Response:
    """``GET /v1/vision/models``: the networks that are loaded, what they are for, or why they are not for pictures."""
    told = [await _told(network) for network in repository_of(request).loaded]
    return JSONResponse({"object": "list", "data": told})


async def _told(network: ServedNetwork) -> dict[str, Any]:
    try:
        sight = await sight_of(network)
    except (ApiError, RknnError) as error:
        return {"model": network.name, "routes": [], "reason": str(error)}
    head = sight.model.head
    size = dict(zip(("width", "height"), sight.model.preparation.size))
    told = {"task": head.task.value, "head": head.family, **size, "labels": sight.model.labels}
    return {"model": network.name, "routes": sight.routes, **told}


async def _look(route: str, request: Request) -> Response:
    state, repository = state_of(request), repository_of(request)
    with repository.room.hold() as held:
        asked = await read_asked(request, state.settings.max_body, held.take)
        network = await _network(repository, asked.model)
        with network.kept():
            sight = await sight_of(network, asked.view)
            sight.check(route)
            if asked.other and route != "embed":
                raise bad_request(f"{route} takes one picture; POST /v1/vision/embed compares two", "other")
            work = within(_answer(network, sight, asked), state.settings.timeout)
            try:
                body = await while_connected(request, work)
            except asyncio.TimeoutError:
                raise ApiError(
                    504, "timeout_error", f"there was no answer within {state.settings.timeout:g} s"
                ) from None
    return Response(body, media_type=asked.form)


async def _network(repository: Repository, name: str) -> ServedNetwork:
    """The network of that name, the only one where none is named. Raises ApiError."""
    if name:
        return await repository.opened(name)
    loaded = repository.loaded
    if len(loaded) != 1:
        there = ", ".join(sorted(network.name for network in loaded)) or "none"
        raise bad_request(f"model is missing; the networks that are loaded: {there}", "model")
    return loaded[0]


async def _answer(network: ServedNetwork, sight: Sight, asked: Asked) -> bytes:
    seen = await _seen(network, sight, asked, asked.picture)
    other = await _seen(network, sight, asked, asked.other) if asked.other else None
    return await in_thread_of(_ASIDE, answered, seen, asked, other)


async def _seen(network: ServedNetwork, sight: Sight, asked: Asked, picture: bytes) -> Seen:
    """The picture goes to where all requests of the network are, as one row of a batch."""
    run, placement = await in_thread_of(_ASIDE, sight.prepared, picture, asked.view)
    response = await network.infer(run)
    took = response.parameters.get("run_us", 0)
    result = await in_thread_of(_ASIDE, sight.found, response, asked.limits)
    return Seen(sight, result, placement, int(took))
