"""Ollama's routes that change which models there are: ``/api/pull``, ``create``, ``copy``, ``delete``."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

from rknnlite_llm.fetching import Fetch, fetch_model
from rknnlite_llm.model_folder import StoredModel, model_name
from rknnlite_llm.model_placing import add_beside, copy_model, place, shared, staging
from rknnlite_llm.transfer import is_url
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rknnlite.errors import ModelInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text

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
_TEXTS = ("system", "messages", "template", "license")
_ADAPTERS = ("adapter_config.json", "adapter_model.safetensors")
_MOST_PULLS = 4  # at a time; each has a thread, and none of those that requests are answered in
_pulling = ThreadPoolExecutor(_MOST_PULLS, "pull")
_MAIN = (".rknn", ".rkllm", ".gguf")
Told = dict[str, Any]
Tell = Callable[[Told], None]


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
    fetch = Fetch(source, body.text("as"), sums, state.settings.allow_pull)
    _check_free(state, fetch.called)

    def work(tell: Tell) -> None:
        tell({"status": "pulling manifest"})

        def progress(name: str, done: int, total: int) -> None:
            tell({"status": f"pulling {name}", "digest": name, "total": total, "completed": done})

        try:
            fetch_model(fetch, folder, progress)
        except ModelInvalid as error:
            raise _unprocessable(error) from None
        tell({"status": "verifying sha256 digest"})

    return await _told(request, body, work)


async def create(request: Request) -> Response:
    """``POST /api/create``: a model out of another one (``from``) or of files that were sent (``files``), with ``parameters``."""
    folder = managed_folder(request)
    state = state_of(request)
    body = await state.json(request)
    name = model_name(name_in(body))
    if body.fields.get("quantize"):
        raise bad_request(
            "quantize is not available here: rknnlite export-llm --weights packs a model", "quantize"
        )
    _check_free(state, name)
    given = {**body.object("parameters").fields, **{field: body.fields.get(field) for field in _TEXTS}}
    parameters = await in_thread(parameters_text, given)
    files, adapters = body.object("files").fields, body.object("adapters").fields
    if adapters and set(adapters) != set(_ADAPTERS):
        raise bad_request(f"adapters: needed are {' and '.join(_ADAPTERS)}, as PEFT saves them", "adapters")
    if files:
        return await _told(
            request, body, lambda tell: _create_of_files(folder, name, files, adapters, parameters)
        )
    if not body.text("from"):
        raise bad_request("neither from nor files is given", "from")
    stored = await _stored(request, Body({"model": body.text("from")}))
    if stored.broken:
        raise _unprocessable(ModelInvalid(stored.broken))
    if parameters and stored.parameters.is_file():
        former = parse_json(read_text(stored.parameters))
        parameters = await in_thread(parameters_text, given, former)
    return await _told(
        request, body, lambda tell: _create_of_model(folder, name, stored, adapters, parameters)
    )


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
    if stored.name != name:
        await in_thread(copy_model, stored, folder, name)
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


def _unprocessable(error: ModelInvalid) -> ApiError:
    """Not this server is wrong, but what it was to make a model of."""
    return ApiError(422, "invalid_request_error", str(error))


def _create_of_model(
    folder: Path, name: str, stored: StoredModel, adapters: dict[str, Any], parameters: bytes
) -> None:
    if stored.name == name and not parameters and not adapters:
        return
    with staging(folder) as room:
        lora = _gathered(folder, room / "adapters", adapters, "adapters") if adapters else None
        copy_model(stored, folder, name, parameters or None, lora)
    _used(folder, adapters)


def _gathered(folder: Path, made: Path, files: dict[str, Any], field: str) -> Path:
    """A folder of blobs under their names."""
    made.mkdir()
    for file, digest in files.items():
        if not FILE_NAME.fullmatch(file) or not isinstance(digest, str):
            raise bad_request(f"{field}: {file[:100]!r} is no name of a file, or has no digest", field)
        path = blob_path(folder, digest)
        if not path.is_file():
            raise bad_request(f"{field}: the blob {digest[:80]} of {file} was not sent", field)
        (made / file).parent.mkdir(exist_ok=True)
        shared(path, made / file)
    return made


def _used(folder: Path, files: dict[str, Any]) -> None:
    for digest in set(files.values()):
        blob_path(folder, digest).unlink(missing_ok=True)


def _create_of_files(
    folder: Path, name: str, files: dict[str, Any], adapters: dict[str, Any], parameters: bytes
) -> None:
    with staging(folder) as room:
        made = _gathered(folder, room / "made", files, "files")
        lora = _gathered(folder, room / "adapters", adapters, "adapters") if adapters else None
        mains = [
            made / file for file in files if file.endswith(_MAIN) and not file.endswith(".tokenizer.gguf")
        ]
        if not mains and "config.json" not in files:
            raise _unprocessable(
                ModelInvalid(
                    f"no language model: none of {', '.join(files)[:200]} is NAME.rknn, .rkllm, .gguf or config.json"
                )
            )
        try:
            placed = place(mains[0] if mains else made, folder, name)
        except ModelInvalid as error:
            raise _unprocessable(error) from None
        add_beside(placed, parameters, lora)
    _used(folder, {**files, **adapters})


async def _told(request: Request, body: Body, work: Callable[[Tell], None]) -> Response:
    """The answer to a request whose work takes a while: a line for each step, or the last one alone."""
    if body.flag("stream", True):
        return await line_stream(request, _lines(state_of(request), work))
    last = {}

    async def all_of_them() -> None:
        async with closing(_lines(state_of(request), work)) as lines:
            async for line in lines:
                last["line"] = line

    await while_connected(request, all_of_them())
    return Response(last["line"], media_type="application/json")


async def _lines(state: State, work: Callable[[Tell], None]) -> AsyncGenerator[str, None]:
    """What ``work`` tells from its thread, then ``success``; left in the middle, the work ends with what it tells next.

    Raises ApiError 429 where as many others work as there may be.
    """
    if state.library.changing >= _MOST_PULLS:
        raise ApiError(
            429,
            "rate_limit_error",
            f"{_MOST_PULLS} models are fetched or made now; try again later",
            retry_after=30,
        )
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[Optional[Told]] = asyncio.Queue()
    stop = threading.Event()
    last: tuple[str, float] = ("", 0.0)

    def tell(told: Told) -> None:
        nonlocal last
        if stop.is_set() or state.stopping:
            raise ApiError(503, "unavailable_error", "nobody waits for it any more")
        now, whole = time.monotonic(), told.get("total") == told.get("completed")
        if told["status"] != last[0] or now - last[1] > _EVERY or whole:
            last = (told["status"], now)
            loop.call_soon_threadsafe(lines.put_nowait, told)

    state.library.changing += 1
    task = asyncio.ensure_future(loop.run_in_executor(_pulling, work, tell))
    task.add_done_callback(lambda done: lines.put_nowait(None))
    try:
        while (told := await lines.get()) is not None:
            yield json.dumps(told)
        task.result()
        yield json.dumps({"status": "success"})
    finally:
        stop.set()
        await asyncio.wait([task])
        state.library.changing -= 1
        if not task.cancelled():
            task.exception()
