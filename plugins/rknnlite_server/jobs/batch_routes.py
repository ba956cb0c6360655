"""``/v1/batches``: OpenAI's batches."""

from __future__ import annotations

import asyncio
import time
from typing import Optional

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..app_state import state_of
from ..errors import ApiError, bad_request
from ..rate_limits import owner_of_task
from ..request_body import Body
from .batch import ENDED, ENDPOINTS, Batch
from .file_routes import page_of, store_of
from .kept_files import new_id

__all__ = ["batch_routes"]

_MOST_OPEN = 100  # batches of a key that have not ended
_MOST_LISTED = 100
_MOST_NOTES, _LONGEST_NAME, _LONGEST_NOTE = 16, 64, 512


def batch_routes() -> list[BaseRoute]:
    """Making, listing, reading and cancelling."""
    return [
        Route("/v1/batches", create, methods=["POST"]),
        Route("/v1/batches", index),
        Route("/v1/batches/{batch_id}", one),
        Route("/v1/batches/{batch_id}/cancel", cancel, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    """``POST /v1/batches``."""
    store = store_of(request)
    body = await state_of(request).json(request)
    endpoint = body.text("endpoint", "", ENDPOINTS)
    if not endpoint:
        raise bad_request("endpoint is missing", "endpoint")
    body.text("completion_window", "24h", ("24h",))
    name = body.text("input_file_id")
    if store.files.get(owner_of_task(), name) is None:
        raise bad_request(f"No such file: {name[:80]}", "input_file_id")
    running = sum(batch.status not in ENDED for batch in store.of(owner_of_task()))
    if running >= _MOST_OPEN:
        raise ApiError(
            429,
            "rate_limit_error",
            f"{running} batches have not ended",
            code="rate_limit_exceeded",
            retry_after=60,
        )
    batch = Batch(new_id("batch_"), owner_of_task(), endpoint, name, int(time.time()), _metadata(body))
    await asyncio.to_thread(store.save, batch)
    return JSONResponse(batch.object)


async def index(request: Request) -> Response:
    """``GET /v1/batches``."""
    return JSONResponse(page_of(request, store_of(request).of(owner_of_task()), _MOST_LISTED))


async def one(request: Request) -> Response:
    """``GET /v1/batches/ID``."""
    return JSONResponse(_batch(request).object)


async def cancel(request: Request) -> Response:
    """``POST /v1/batches/ID/cancel``: lines under way are finished."""
    batch = _batch(request)
    if batch.status in ENDED:
        raise ApiError(
            409,
            "invalid_request_error",
            f"the batch is {batch.status} and cannot be cancelled",
            code="conflict",
        )
    if batch.status != "cancelling":
        batch.enter("cancelling")
        await asyncio.to_thread(store_of(request).save, batch)
    return JSONResponse(batch.object)


def _batch(request: Request) -> Batch:
    name = request.path_params["batch_id"]
    batch = store_of(request).get(owner_of_task(), name)
    if batch is None:
        raise ApiError(
            404, "invalid_request_error", f"No batch found with id {name[:80]!r}", "batch_id", "not_found"
        )
    return batch


def _metadata(body: Body) -> Optional[dict[str, str]]:
    given = dict(body.object("metadata").fields)
    if len(given) > _MOST_NOTES or not all(
        len(k) <= _LONGEST_NAME and isinstance(v, str) and len(v) <= _LONGEST_NOTE for k, v in given.items()
    ):
        raise bad_request(
            f"metadata must be at most {_MOST_NOTES} texts of at most {_LONGEST_NOTE} characters", "metadata"
        )
    return given or None
