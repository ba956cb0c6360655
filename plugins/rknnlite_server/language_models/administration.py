"""Ollama's routes that change which models there are: ``/api/pull``, ``create``, ``copy``, ``delete``."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Optional

from rknnlite_llm.fetching import Fetch, fetch_model
from rknnlite_llm.model_folder import StoredModel, model_name
from rknnlite_llm.model_placing import copy_model, place, shared, staging
from rknnlite_llm.transfer import is_url
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite.errors import ModelInvalid
from rknnlite.files.writing import write_file

from ..app_state import State, state_of
from ..async_helpers import closing, in_thread
from ..errors import ApiError, bad_request
from ..ollama_requests import entry_of, name_in
from ..request_body import Body
from ..streaming import line_stream, while_connected
from .access import managed_folder
from .blobs import FILE_NAME, blob_path
from .model_entry import ModelEntry
from .parameters import parameters_text

__all__ = ["copy", "create", "delete", "pull"]

_EVERY = 0.1  # seconds between two lines about one file
_NOT_CREATED = {
    "adapters": "start the server with --lora",
    "messages": "send them with each request",
    "quantize": "rknnlite export-llm --weights packs a model",
    "system": "send it with each request",
    "template": "the model's own is used; --chat-template-file gives another",
}
"""Fields of ``/api/create`` that are refused, each with what to do instead."""
_MAIN = (".rknn", ".rkllm", ".gguf")
Told = dict[str, Any]
Tell = Callable[[Told], None]


class _Stopped(Exception):
    """Nobody wants the rest."""


async def pull(request: Request) -> Response:
    """``POST /api/pull``: fetch a model from a URL; one that is here is there already.

    Beside Ollama's fields, ``as`` is the name that it gets here, ``sha256`` an object with checksums by file name.
    """
    state = state_of(request)
    body = await state.json(request)
    source = name_in(body)
    try:
        await entry_of(request, body)
    except ApiError as error:
        if error.status != 404:
            raise
        folder = _folder_for_pull(request, error, is_url(source))
    else:
        return await _told(request, body, lambda tell: None)
    sums = tuple(
        (name, value)
        for name, value in body.object("sha256").fields.items()
        if isinstance(value, str) and len(value) == 64
    )
    if len(sums) != len(body.object("sha256").fields):
        raise bad_request("sha256 must be an object with 64 hexadecimal digits by file name", "sha256")
    fetch = Fetch(source, body.text("as"), sums)
    _check_free(state, fetch.called)

    def work(tell: Tell) -> None:
        tell({"status": "pulling manifest"})

        def progress(name: str, done: int, total: int) -> None:
            tell({"status": f"pulling {name}", "digest": name, "total": total, "completed": done})

        fetch_model(fetch, folder, progress)
        tell({"status": "verifying sha256 digest"})

    return await _told(request, body, work)


async def create(request: Request) -> Response:
    """``POST /api/create``: a model out of another one (``from``) or of files that were sent (``files``), with ``parameters``."""
    folder = managed_folder(request)
    state = state_of(request)
    body = await state.json(request)
    name = model_name(name_in(body))
    for field, instead in _NOT_CREATED.items():
        if body.fields.get(field):
            raise bad_request(f"{field} is not available here: {instead}", field)
    _check_free(state, name)
    parameters = parameters_text(body.object("parameters").fields)
    files = body.object("files").fields
    if files:
        return await _told(request, body, lambda tell: _create_of_files(folder, name, files, parameters))
    if not body.text("from"):
        raise bad_request("neither from nor files is given", "from")
    stored = await _stored(request, Body({"model": body.text("from")}))
    return await _told(request, body, lambda tell: _copied(stored, folder, name, parameters or None))


async def copy(request: Request) -> Response:
    """``POST /api/copy``: a second name for a model."""
    folder = managed_folder(request)
    state = state_of(request)
    body = await state.json(request)
    if not body.text("source") or not body.text("destination"):
        raise bad_request("source and destination are required")
    name = model_name(body.text("destination"))
    _check_free(state, name)
    stored = await _stored(request, Body({"model": body.text("source")}))
    await in_thread(_copied, stored, folder, name, None)
    return JSONResponse({})


async def delete(request: Request) -> Response:
    """``DELETE /api/delete``: who asks it now is answered to the end."""
    managed_folder(request)
    body = await state_of(request).json(request)
    stored = await _stored(request, body)
    state_of(request).library.forget(stored.name)
    await in_thread(stored.remove)
    return JSONResponse({})


async def _stored(request: Request, body: Body) -> StoredModel:
    """The files of a model that a request names; raises ApiError for those of the command line."""
    entry: ModelEntry = await entry_of(request, body)
    if entry.stored is None:
        raise bad_request(
            f"{entry.name} is a model of the server's command line, and stays as it is", "model"
        )
    return entry.stored


def _folder_for_pull(request: Request, unknown: ApiError, url: bool) -> Path:
    """Raises ApiError: 404 for what is no URL, as nothing is known that could be fetched, and what ``managed_folder`` raises."""
    if url:
        return managed_folder(request)
    raise ApiError(
        404,
        unknown.kind,
        f"{unknown.message}: models are fetched by their URL (http://...), or put into the folder with rknnlite pull",
        "model",
        "model_not_found",
    )


def _check_free(state: State, name: str) -> None:
    """Raise ApiError where the command line has a model of the name."""
    if state.library.is_pinned(name):
        raise bad_request(f"{name} is a model of the server's command line, and stays as it is", "model")


def _copied(stored: StoredModel, folder: Path, name: str, parameters: Optional[bytes]) -> None:
    if stored.name != name or parameters is not None:
        copy_model(stored, folder, name, parameters)


def _create_of_files(folder: Path, name: str, files: dict[str, Any], parameters: bytes) -> None:
    with staging(folder) as room:
        made = room / "made"
        made.mkdir()
        for file, digest in files.items():
            if not FILE_NAME.fullmatch(file) or not isinstance(digest, str):
                raise bad_request(f"files: {file[:100]!r} is no name of a file, or has no digest", "files")
            path = blob_path(folder, digest)
            if not path.is_file():
                raise bad_request(f"files: the blob {digest[:80]} of {file} was not sent", "files")
            shared(path, made / file)
        mains = [
            made / file for file in files if file.endswith(_MAIN) and not file.endswith(".tokenizer.gguf")
        ]
        if not mains and "config.json" not in files:
            raise ModelInvalid(
                f"no language model: none of {', '.join(files)[:200]} is NAME.rknn, .rkllm, .gguf or config.json"
            )
        placed = place(mains[0] if mains else made, folder, name)
        if parameters:
            write_file(placed.parameters, parameters)
    for digest in set(files.values()):
        blob_path(folder, digest).unlink(missing_ok=True)


async def _told(request: Request, body: Body, work: Callable[[Tell], None]) -> Response:
    """The answer to a request whose work takes a while: a line for each step, or the last one alone."""
    if body.flag("stream", True):
        return await line_stream(request, _lines(work))
    last = {}

    async def all_of_them() -> None:
        async with closing(_lines(work)) as lines:
            async for line in lines:
                last["line"] = line

    await while_connected(request, all_of_them())
    return Response(last["line"], media_type="application/json")


async def _lines(work: Callable[[Tell], None]) -> AsyncGenerator[str, None]:
    """What ``work`` tells from its thread, then ``success``; left in the middle, the work ends with what it tells next."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[Optional[Told]] = asyncio.Queue()
    stop = threading.Event()
    last: tuple[str, float] = ("", 0.0)

    def tell(told: Told) -> None:
        nonlocal last
        if stop.is_set():
            raise _Stopped
        now, whole = time.monotonic(), told.get("total") == told.get("completed")
        if told["status"] != last[0] or now - last[1] > _EVERY or whole:
            last = (told["status"], now)
            loop.call_soon_threadsafe(lines.put_nowait, told)

    task = asyncio.ensure_future(asyncio.to_thread(work, tell))
    task.add_done_callback(lambda done: lines.put_nowait(None))
    try:
        while (told := await lines.get()) is not None:
            yield json.dumps(told)
        task.result()
        yield json.dumps({"status": "success"})
    finally:
        stop.set()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
