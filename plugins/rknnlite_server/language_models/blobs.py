"""``/api/blobs/sha256:HEX``: files that clients send, which ``/api/create`` makes a model of."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from pathlib import Path

from rknnlite_llm.model_placing import STAGING, sweep
from rknnlite_llm.transfer import check_room
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rknnlite.files.writing import GrowingFile

from ..async_helpers import in_thread, within
from ..errors import ApiError, bad_request
from .access import managed_folder

__all__ = ["FILE_NAME", "blob", "blob_path", "send_blob"]

FILE_NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.+:-]{0,99}/)?[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,199}")
"""A file of a model, beside others or in a folder there (``1_Pooling/config.json``): no path that leads elsewhere."""
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_CHECKED = 32 << 20  # bytes until it is looked again whether the disk has room
_STALLED = 60.0  # seconds without a byte


def blob_path(folder: Path, digest: str) -> Path:
    """Where a blob lies. Raises ApiError for what is no digest."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise bad_request(f"{digest[:80]!r} is no digest; sha256: and 64 hexadecimal digits are", "digest")
    return folder / STAGING / f"{match[1]}.blob"


async def blob(request: Request) -> Response:
    """``HEAD``: whether it is there."""
    path = blob_path(managed_folder(request), request.path_params["digest"])
    if not path.is_file():
        raise ApiError(404, "not_found_error", "the blob is not here")
    return Response(status_code=200)


async def send_blob(request: Request) -> Response:
    """``POST``: the bytes; 201 when they have that digest, 400 otherwise, and then nothing of them is kept."""
    path = blob_path(managed_folder(request), request.path_params["digest"])
    path.parent.mkdir(mode=0o700, exist_ok=True)
    await in_thread(sweep, path.parent)
    if path.is_file():
        return Response(status_code=201)
    try:
        file = GrowingFile(path.with_suffix(".sent"))
    except BlockingIOError:
        raise ApiError(409, "invalid_request_error", "somebody else sends this blob now") from None
    kept = False
    found = hashlib.sha256()
    try:
        if file.size:  # of one who was cut off
            file.discard()
            file.close()
            file = GrowingFile(path.with_suffix(".sent"))
        await _received(request, path.parent, file, found)
        if found.hexdigest() != path.stem:
            raise bad_request(
                f"the bytes have SHA-256 {found.hexdigest()}, not the one that was announced", "digest"
            )
        await in_thread(file.finish, path)
        kept = True
    finally:
        if not kept:
            with contextlib.suppress(OSError):
                file.discard()
        file.close()
    return Response(status_code=201)


async def _received(request: Request, folder: Path, file: GrowingFile, found: hashlib._Hash) -> None:
    chunks = request.stream().__aiter__()
    declared = request.headers.get("content-length", "")
    count, next_look, left = 0, 0, int(declared) if declared.isdigit() else 1
    while True:
        try:
            chunk = await within(chunks.__anext__(), _STALLED)
        except StopAsyncIteration:
            return
        except (ClientDisconnect, asyncio.TimeoutError):
            raise bad_request(
                "the client went away, or was silent for a minute, before the blob was complete"
            ) from None
        if count >= next_look:
            await in_thread(check_room, folder, left - count)
            next_look = count + _CHECKED
        found.update(chunk)
        await in_thread(file.append, chunk)
        count += len(chunk)
