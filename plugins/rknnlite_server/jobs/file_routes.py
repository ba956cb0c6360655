"""``/v1/files``: OpenAI's files, for batches."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..app_state import state_of
from ..errors import ApiError, bad_request
from ..form_body import read_form
from ..rate_limits import owner_of_task
from .job_store import JobStore
from .kept_files import KeptFile

__all__ = ["file_routes", "page_of", "store_of"]

_MOST_LISTED = 10_000
_LONGEST_NAME = 200


def file_routes() -> list[BaseRoute]:
    """Sending, listing, reading and deleting."""
    return [
        Route("/v1/files", send, methods=["POST"]),
        Route("/v1/files", index),
        Route("/v1/files/{file_id}", one),
        Route("/v1/files/{file_id}", delete, methods=["DELETE"]),
        Route("/v1/files/{file_id}/content", content),
    ]


def store_of(request: Request) -> JobStore:
    """The files and batches of the application; raises ApiError where it keeps none."""
    store = state_of(request).jobs
    if store is None:
        raise ApiError(
            501,
            "not_supported_error",
            "this server keeps no files and batches. Start it with `--batch-dir DIR`",
        )
    assert isinstance(store, JobStore)
    return store


async def send(request: Request) -> Response:
    """``POST /v1/files``: a form with ``file`` and ``purpose``."""
    store = store_of(request)
    form = await read_form(request, state_of(request).settings.max_body)
    body = form.body()
    purpose = body.text("purpose", "batch", ("batch",))
    data = form.file("file")
    name = form.names["file"][0][:_LONGEST_NAME] or "file"
    made = await asyncio.to_thread(store.files.add, owner_of_task(), name, purpose, data)
    return JSONResponse(made.object)


async def index(request: Request) -> Response:
    """``GET /v1/files``."""
    purpose = request.query_params.get("purpose")
    found = [file for file in store_of(request).files.of(owner_of_task()) if purpose in (None, file.purpose)]
    return JSONResponse(page_of(request, found, _MOST_LISTED))


async def one(request: Request) -> Response:
    """``GET /v1/files/ID``."""
    return JSONResponse(_file(request).object)


async def content(request: Request) -> Response:
    """``GET /v1/files/ID/content``."""
    return FileResponse(store_of(request).files.path(_file(request)), media_type="application/octet-stream")


async def delete(request: Request) -> Response:
    """``DELETE /v1/files/ID``."""
    file = _file(request)
    await asyncio.to_thread(store_of(request).files.remove, file)
    return JSONResponse({"id": file.id, "object": "file", "deleted": True})


def _file(request: Request) -> KeptFile:
    name = request.path_params["file_id"]
    file = store_of(request).files.get(owner_of_task(), name)
    if file is None:
        raise ApiError(404, "invalid_request_error", f"No such file: {name[:80]}", "file_id", "not_found")
    return file


def page_of(request: Request, found: list[Any], most: int) -> dict[str, Any]:
    """``limit`` of them, in ``order``, those behind ``after`` or before ``before``; raises ApiError."""
    asked = request.query_params
    given, order = asked.get("limit", ""), asked.get("order", "desc")
    if given and not (given.isascii() and given.isdigit() and 0 < int(given[:9]) <= most):
        raise bad_request(f"limit must be a whole number in 1..{most}", "limit")
    if order not in ("asc", "desc"):
        raise bad_request("order must be asc or desc", "order")
    if order == "asc":
        found = found[::-1]
    names, limit = [entry.id for entry in found], int(given or most)
    after, before = asked.get("after"), asked.get("before")
    start, end = names.index(after) + 1 if after in names else 0, len(names)
    if before in names:
        end = names.index(before)
        start = max(start, end - limit)
    shown = [entry.object for entry in found[start : min(end, start + limit)]]
    return {
        "object": "list",
        "data": shown,
        "has_more": start > 0 if before in names else start + limit < end,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }
