"""A network that the server has opened: its pool of workers, who waits for them, and how requests reach them."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from rknnlite_protocol.execution import answer
from rknnlite_protocol.metadata import model_config, model_metadata
from rknnlite_protocol.requests import InferRequest, InferResponse
from rknnlite_protocol.traces import in_this_trace, traces_of_task

import rknnlite
from rknnlite import Pool
from rknnlite.errors import (
    ContextInvalid,
    InputInvalid,
    ModelInvalid,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.native.processors import processors
from rknnlite.spi import Context

from ..async_helpers import settled
from ..queueing import Room, Turnstile
from ..settings import ServerSettings
from ..traced import trace_infer
from .batches import Batches, Joinable, answer_together
from .batching import Batching
from .bound_memory import BoundContexts, is_bound
from .statistics import Statistics

__all__ = ["Identity", "ServedNetwork", "identity_of"]

_AHEAD = 2  # calls per worker that are let through, so that no worker waits for the event loop
_CALLERS = (InputInvalid, OutputInvalid, ParamInvalid, TargetPlatformUnmatch, ModelInvalid, ContextInvalid)
_LOOK_SECONDS = 0.01
Source = Any
Identity = tuple[int, int, int, int]


class ServedNetwork:
    """Opened in a thread of its own, used from the event loop.

    Raises:
        What ``Pool`` raises.
    """

    def __init__(
        self, name: str, source: Source, settings: ServerSettings, room: Optional[Room] = None
    ) -> None:
        """``room`` is shared with the other networks of the server."""
        self.name, self._source = name, source
        device = {"device_id": settings.device_id} if settings.device_id else {}
        self._options: dict[str, Any] = {"backend": settings.backend or None, **device}
        before = identity_of(source)
        self.pool = Pool(
            source,
            settings.workers or None,
            cores=_cores(settings.core_mask),
            backend=settings.backend or None,
            queue=1 << 16,  # the turnstile is what bounds it
            timeout=settings.timeout,
            **device,
        )
        self.identity = before if before == identity_of(source) else None
        self._kept = 0
        self._bound = BoundContexts(
            functools.partial(self.open_apart, threads=max(1, processors() // self.pool.workers)),
            self.pool.workers,
        )
        batch = 1 if self.pool.shapes else max(1, self.pool.batch)
        self._batches = Batches(self.pool.inputs, self.pool.outputs, batch)
        self._batching = Batching(self._batches.size, settings.window_ms / 1e3, self._together)
        self.turnstile = Turnstile(_AHEAD * self.pool.workers * batch, settings.queue, full=503)
        self._room = room or Room(settings.queue_bytes)
        self.statistics = Statistics()

    @property
    def rows(self) -> int:
        """How many requests of one row each may share a run."""
        return self._batches.size

    @property
    def metadata(self) -> dict[str, Any]:
        """The protocol's metadata object."""
        return model_metadata(self.name, self.pool, self._batches.size, self.pool.shapes)

    @property
    def config(self) -> dict[str, Any]:
        """Triton's ModelConfig."""
        return model_config(self.name, self.pool, self._batches.size, self.pool.shapes)

    def infer(self, request: InferRequest) -> Coroutine[Any, Any, InferResponse]:
        """Answer a request in a worker, once more in another one when the first was lost with its context.

        Raises ApiError when the queue is full, or what ``answer`` raises.
        """
        answering, traces = self._infer(request), traces_of_task.get()
        return answering if traces is None else trace_infer(traces, self.name, answering)

    async def _infer(self, request: InferRequest) -> InferResponse:
        arrived = time.perf_counter_ns()
        try:
            timeout = request.whole("timeout")
            joinable = None if is_bound(request) else self._batches.of(request)
            size = sum(tensor.data.nbytes for tensor in request.inputs)
            with self._room.hold(size):
                async with self.turnstile.turn(timeout / 1e6 if timeout else None):
                    response = await self._inside(request, joinable)
        except BaseException:
            self.statistics.failed(arrived)
            raise
        self.statistics.answered(arrived, response.timing)
        return response

    async def _inside(self, request: InferRequest, joinable: Optional[Joinable]) -> InferResponse:
        if joinable is not None:
            return await self._batching.infer(request, joinable)
        return await self._alone(request)

    async def _alone(self, request: InferRequest) -> InferResponse:
        if is_bound(request):
            found = await self._bound.infer(request)
        else:
            found = await self._attempts(answer, request, mask=_mask(request))
        self.statistics.ran(found.timing, self._batches.size)
        return found

    async def _together(self, requests: Sequence[InferRequest], rows: int) -> list[InferResponse]:
        """One run; all requests have the same parameters."""
        found: list[InferResponse] = await self._attempts(
            answer_together, self._batches, requests, mask=_mask(requests[0])
        )
        self.statistics.ran(found[0].timing, rows)
        return found

    async def _attempts(self, function: Callable[..., Any], *arguments: Any, mask: Optional[int]) -> Any:
        try:
            return await self._run(function, *arguments, mask=mask)
        except _CALLERS:
            raise
        except RknnError:
            return await self._run(function, *arguments, mask=mask)

    @property
    def idle(self) -> bool:
        """Whether nobody uses it, waits for it, or is about to."""
        return not (self._kept or self.turnstile.running or self.turnstile.waiting)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """It is not idle meanwhile: for who has found it and still reads what it is asked."""
        self._kept += 1
        try:
            yield
        finally:
            self._kept -= 1

    def open_apart(self, **options: Any) -> Context:
        """A context beside the pool's, of the same model on the same device; raises what ``rknnlite.open`` raises."""
        return rknnlite.open(self._source, **self._options, **options)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function(context, *arguments)`` in a worker, in its turn."""
        async with self.turnstile.turn():
            return await self._run(function, *arguments)

    async def _run(self, function: Callable[..., Any], *arguments: Any, mask: Optional[int] = None) -> Any:
        future = self.pool.call_on(mask, in_this_trace(function), *arguments)
        waiter = asyncio.wrap_future(future)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not future.cancel():
                await settled(asyncio.wrap_future(future))  # the arrays of the request are in use
            raise

    async def retire(self) -> None:
        """Close it once those who are in it have left; new ones are no longer sent here."""
        while self.turnstile.running or self.turnstile.waiting:
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Answer what is under way and release the model; may be called again."""
        self._bound.close()
        self.pool.close()


def identity_of(source: Source) -> Optional[Identity]:
    """What tells a file from one that replaced it; None where there is none."""
    if not isinstance(source, (str, Path)):
        return None
    try:
        status = Path(source).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _mask(request: InferRequest) -> Optional[int]:
    return request.whole("core_mask", 0xFFFF)


def _cores(given: str) -> Any:
    """``--core-mask``: spread, auto, all, or numbers of masks."""
    if given in ("spread", "auto", "all"):
        return given
    try:
        masks = [int(word, 0) for word in given.split(",")]
    except ValueError:
        raise ParamInvalid(
            f"core-mask is {given!r}, must be spread, auto, all, a number, or one number per worker: 1,2,4"
        ) from None
    return masks[0] if len(masks) == 1 else masks
