"""The calls of ``rknnlite.Board``: what a context of a board far away needs beside inference."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Optional

from rknnlite_protocol.board import PIECE, parse_shapes, stored_name
from rknnlite_protocol.dataclass_json import to_text
from rknnlite_protocol.grpc_codec import parse_request
from rknnlite_protocol.grpc_messages import message
from rknnlite_protocol.requests import InferRequest

from rknnlite.errors import DeviceUnavailable, InputInvalid, ParamInvalid, RunTimeout

from ..app_state import State
from ..async_helpers import in_thread, within
from ..errors import ApiError
from ..queueing import Turnstile
from . import inspection
from .board_facts import FactsReader
from .folder_stream import FolderWriter, pieces_of
from .network import ServedNetwork
from .uploads import Receiving, Stored

__all__ = ["board_calls"]

Handler = Callable[[Any, Any], Any]
PIECE_SECONDS = 60.0
"""Time for the next message of a stream to arrive."""
SLOWEST = 16 << 10
"""Bytes of an upload per second, on the average behind its first minute."""
_OTHERS_SECONDS, _LOOK_SECONDS = 30.0, 0.1  # how long somebody else who sends the same file is waited for
_DUMPS = 4  # folders of dumps at a time


def board_calls(state: State) -> dict[str, Handler]:
    """By their names in the service."""
    calls = _Board(state)
    return {
        "Facts": calls.facts,
        "Stored": calls.stored,
        "Upload": calls.upload,
        "Describe": calls.describe,
        "Perf": calls.perf,
        "Dump": calls.dump,
    }


class _Board:
    def __init__(self, state: State) -> None:
        self._state, self._repository = state, state.repository
        self._facts = FactsReader(state)
        waiting = state.settings.queue
        self._bench = Turnstile(1, waiting, full=503)  # figures of two runs at once would belong to neither
        self._dumps = Turnstile(_DUMPS, waiting, full=503)

    async def facts(self, request: Any, context: Any) -> Any:
        return _text(await self._facts.facts())

    # -- files --------------------------------------------------------------------------------------------

    async def stored(self, request: Any, context: Any) -> Any:
        stored_name(request.sha256)
        found = await self._repository.uploaded.stored(request.sha256, request.size)
        if not found.complete:
            self._check_allowed()
        return _stored(found)

    async def upload(self, requests: Any, context: Any) -> Any:
        self._check_allowed()
        pieces = aiter_of(requests)
        first = await _next(pieces)
        if first is None:
            raise ParamInvalid("an upload without a piece: the first one names sha256, total and offset")
        digest, total, offset = first.sha256, first.total, first.offset
        stored_name(digest)
        receiving = await self._receiving(digest, total, offset)
        if isinstance(receiving, Stored):
            return _stored(receiving)
        try:
            until = time.monotonic() + PIECE_SECONDS + (total - offset) / SLOWEST
            piece: Optional[Any] = first
            while piece is not None:
                await in_thread(receiving.append, piece.data)
                if time.monotonic() > until:
                    raise RunTimeout(
                        f"the upload is slower than {SLOWEST} bytes a second; {receiving.size} bytes are kept, go on there"
                    )
                piece = await _next(pieces)
            return _stored(await in_thread(receiving.finish))
        finally:
            receiving.close()

    async def _receiving(self, digest: str, total: int, offset: int) -> Receiving | Stored:
        """The file to write to, once nobody else does; or that it is complete, as others may have made it."""
        files, until = self._repository.uploaded.files, time.monotonic() + _OTHERS_SECONDS
        while True:
            found = await in_thread(files.stored, digest)
            if found.complete:
                return found
            try:
                return await _opened(files.receive, digest, total, offset)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise DeviceUnavailable(
                        f"another client sends {stored_name(digest)} at the moment; try again later"
                    ) from None
            await asyncio.sleep(_LOOK_SECONDS)

    def _check_allowed(self) -> None:
        if not self._state.settings.allow_upload:
            raise ApiError(
                403,
                "permission_error",
                "this server takes no networks from clients: start it with --allow-upload, or "
                "let it serve the very file itself",
            )

    # -- inspection -----------------------------------------------------------------------------------------

    async def describe(self, request: Any, context: Any) -> Any:
        network = await self._network(request.model_name)
        shapes = parse_shapes(request.shapes, "shapes")
        default = [attr.dims for attr in network.pool.inputs]
        with network.kept():
            found = await network.call(inspection.describe, request.model_name, shapes, default)
        return _text(found)

    async def perf(self, request: Any, context: Any) -> Any:
        asked = _request(request.request)
        network = await self._network(asked.model_name, asked.model_version)
        with network.kept():
            async with self._bench.turn():
                return _text(await in_thread(inspection.perf, network, asked))

    async def dump(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        messages = aiter_of(requests)
        first = await _next(messages)
        if first is None:
            raise ParamInvalid("a dump without a message: the first one has the request")
        asked = _request(first.request)
        network = await self._network(asked.model_name, asked.model_version)
        async with self._dumps.turn():
            place = Path(tempfile.mkdtemp(prefix="rknnlite-dump-"))
            try:
                golden = await _received(first, messages, place / "golden")
                folder = place / "dump"
                async with self._bench.turn():
                    await in_thread(inspection.dump, network, asked, folder, golden)
                made = message("rknnlite.FilePiece")
                pieces = pieces_of(folder, PIECE)
                while (piece := await in_thread(next, pieces, None)) is not None:
                    yield made(name=piece[0], data=piece[1])
            finally:
                # not in a thread: whoever is cancelled twice would leave it
                shutil.rmtree(place, ignore_errors=True)

    async def _network(self, name: str, version: str = "") -> ServedNetwork:
        self._state.check_ready()
        return await self._repository.opened(name, version)


async def _received(first: Any, messages: Any, folder: Path) -> Optional[Path]:
    """The folder of a golden dump, None where none comes; raises what ``FolderWriter`` raises."""
    writer = FolderWriter(folder)
    try:
        found = first
        while found is not None:
            if found.HasField("golden"):
                await in_thread(writer.add, found.golden.name, found.golden.data)
            found = await _next(messages)
    finally:
        writer.close()
    return folder if folder.exists() else None


async def _opened(receive: Callable[..., Receiving], *arguments: Any) -> Receiving:
    """What ``receive`` opens in a thread; closed again where the one who asked is gone when it is open."""
    future = asyncio.get_running_loop().run_in_executor(None, receive, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(lambda done: done.exception() or done.result().close())
        raise


def aiter_of(requests: Any) -> Any:
    """The iterator over the messages of a stream."""
    return requests.__aiter__()


async def _next(messages: Any) -> Optional[Any]:
    """The next message of a stream, None at its end; raises RunTimeout where it does not come."""
    try:
        return await within(messages.__anext__(), PIECE_SECONDS)
    except StopAsyncIteration:
        return None
    except asyncio.TimeoutError:
        raise RunTimeout(f"no message of the stream came for {PIECE_SECONDS:g} s") from None


def _request(data: bytes) -> InferRequest:
    try:
        found = message("inference.ModelInferRequest").FromString(data)
    except Exception as error:  # DecodeError: protobuf's versions have it in different places
        raise InputInvalid(f"the request is no ModelInferRequest: {error!s:.100}") from None
    return parse_request(found)


def _text(value: Any) -> Any:
    return message("rknnlite.Text")(json=to_text(value))


def _stored(found: Stored) -> Any:
    return message("rknnlite.StoredResponse")(size=found.size, complete=found.complete)
