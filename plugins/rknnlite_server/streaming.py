"""Answers to clients that may go away at any time: whole ones, and those that come in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, Optional, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .async_helpers import within
from .errors import ApiError, as_api_error

__all__ = ["FAILED", "PieceStream", "event_stream", "line_stream", "named_event_stream", "while_connected"]

logger = logging.getLogger("rknnlite.server")
T = TypeVar("T")
FAILED = "rknnlite.failed"
"""Of a request's scope: the status that an error in the middle of a stream would have had."""
_STALLED = 60.0  # seconds that a client may take to read a piece


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled when the client goes away; the whole body must have been read."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(499, "client_closed_request", "the client went away")
        return task.result()
    finally:
        for other in (task, gone):
            other.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def event_stream(request: Request, chunks: AsyncGenerator[str, None]) -> Response:
    """Server-sent events; what fails before the first piece is an ordinary error, later ones are told in the stream."""
    first = await _first(request, chunks)
    return PieceStream(first, chunks, "text/event-stream", "data: ", "\n\n", "data: [DONE]\n\n")


async def named_event_stream(request: Request, chunks: AsyncGenerator[str, None]) -> Response:
    """Server-sent events that have names: each chunk is the lines of one; a failure is an ``error`` event."""
    first = await _first(request, chunks)
    path = request.url.path
    return PieceStream(first, chunks, "text/event-stream", "", "\n\n", "", path, "event: error\ndata: ")


async def line_stream(request: Request, chunks: AsyncGenerator[str, None]) -> Response:
    """A line of JSON for each piece."""
    return PieceStream(
        await _first(request, chunks), chunks, "application/x-ndjson", "", "\n", "", request.url.path
    )


async def _first(request: Request, chunks: AsyncGenerator[str, None]) -> Optional[str]:
    try:
        return await while_connected(request, chunks.__anext__())
    except StopAsyncIteration:
        return None
    except BaseException:
        await chunks.aclose()
        raise


class PieceStream(Response):
    """Sends pieces as they come; ends their generator when the client goes away or stops reading."""

    def __init__(
        self,
        first: Optional[str],
        chunks: AsyncGenerator[str, None],
        media: str,
        before: str,
        behind: str,
        last: str,
        path: str = "",
        failed: str = "",
    ) -> None:
        """``before`` and ``behind`` each piece; ``failed`` before an error where that is something else."""
        self.status_code, self.media_type, self.background = 200, media, None
        self._first, self._chunks = first, chunks
        self._before, self._behind, self._last = before, behind, last
        self._path, self._failed = path, failed or before
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(scope, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            await self._chunks.aclose()

    async def _send(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            if self._first is not None:
                await self._piece(send, self._before + self._first + self._behind)
                async for chunk in self._chunks:
                    await self._piece(send, self._before + chunk + self._behind)
            await self._piece(send, self._last)
        except (OSError, asyncio.TimeoutError):
            return  # nobody reads
        except Exception as error:  # the head of the answer is sent, so it is told here
            problem = as_api_error(error)
            scope[FAILED] = problem.status
            if not isinstance(error, ApiError):
                logger.error("a stream failed: %s", error, exc_info=problem.status == 500)
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await self._piece(
                    send, self._failed + json.dumps(problem.body_for(self._path)) + self._behind
                )
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await within(send(_body(b"", more=False)), _STALLED)

    async def _piece(self, send: Send, text: str) -> None:
        await within(send(_body(text.encode(), more=True)), _STALLED)


def _body(data: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}
