"""Which language models are open, who uses them, and which leaves when there is no room."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Optional

from rknnlite_llm.footprint import kv_bytes, package_model
from rknnlite_llm.model_folder import as_package

from rknnlite.errors import RknnError

from ..async_helpers import in_thread, within
from ..errors import ApiError
from ..served_model import ServedModel
from ..settings import ModelSettings, ServerSettings
from .model_entry import ModelEntry, OpenModel, Taken

__all__ = ["OpenModels"]

logger = logging.getLogger("rknnlite.server")
_YIELDS = 2.0  # seconds until one more of the busy models takes no new requests


class OpenModels:
    """For one event loop; models are opened in threads, one at a time, in the order in which they were asked for."""

    def __init__(self, settings: ServerSettings, models: dict[str, ServedModel]) -> None:
        """``models`` are those that are open, kept up here."""
        self._settings, self._models = settings, models
        self._open: set[OpenModel] = set()  # without those of the command line
        self._room: Optional[asyncio.Event] = None  # made in the event loop, to which it belongs
        self._turn: Optional[asyncio.Lock] = None
        self._waiting = 0
        self._closed = False
        self.opened: Callable[[ServedModel], None] = lambda model: None

    @property
    def leaving(self) -> list[OpenModel]:
        """Those that end with the requests that they have."""
        return [place for place in self._open if place.gone]

    def add(self, model: ServedModel) -> None:
        """List a model that is open."""
        self._models[model.name] = model
        self.opened(model)

    async def take(self, entry: ModelEntry, patience: Optional[float]) -> Taken:
        """Open a model where it is not open, and hold it until ``give``.

        Raises what opening raises; ApiError 503 behind ``patience`` seconds (None: any), and then the opening goes on.
        """
        place = entry.place
        place.users += 1
        place.keep = self._settings.keep_alive
        try:
            if place.model is None:
                await self._wait(place, entry, patience)
            if self._closed:
                raise ApiError(503, "unavailable_error", "the server is stopping", retry_after=5)
            return Taken(place, place.under(entry))
        except BaseException:
            self._give(place)
            raise

    def give(self, taken: Taken) -> None:
        """A request is over."""
        self._give(taken.place)

    def unload(self, place: OpenModel) -> None:
        """Close a model behind the last of its requests."""
        place.keep = 0
        if place.idle:
            self._leave(place)

    def forget(self, entry: ModelEntry) -> None:
        """A name that leads nowhere, or to other files, from now on; what it led to leaves with the last of its names."""
        place = entry.place
        place.entries.remove(entry)
        place.views.pop(entry.name, None)
        if place.entries and place.model is not None and place.model.name == entry.name:
            self._unlist(place)
            place.model = place.model.under(place.entries[0].settings)
            self._models[place.model.name] = place.model
        elif not place.entries:
            self._unlist(place)
            if not place.users:
                self._leave(place)

    async def expire(self) -> None:
        """Close models whose time is over, until cancelled."""
        while True:
            idle = [place.left for place in self._open if place.idle]
            await asyncio.sleep(min([1.0, *(max(0.02, left) for left in idle)]))
            for place in list(self._open):
                if place.idle and place.left <= 0:
                    self._leave(place)

    def end_runs(self) -> None:
        """Stop all that runs."""
        for model in [*self._models.values(), *(place.model for place in self._open if place.model)]:
            model.pool.close()

    def close(self) -> None:
        """Close all models; may be called again."""
        self._closed = True
        models = [*self._models.values(), *(place.model for place in self._open if place.model)]
        for place in self._open:
            place.model = None
        self._open.clear()
        self._models.clear()
        for model in models:
            model.close()

    def _give(self, place: OpenModel) -> None:
        place.users -= 1
        place.used = time.monotonic()
        if not place.users and place in self._open and (place.gone or place.keep == 0):
            self._leave(place)
        self._tell()

    async def _wait(self, place: OpenModel, entry: ModelEntry, patience: Optional[float]) -> None:
        """Everybody who waits for a model waits for one opening of it."""
        if place.lasting:
            raise ApiError(500, "server_error", place.reason)
        if place.loading is None:
            if self._waiting >= max(1, self._settings.queue):
                raise ApiError(
                    429,
                    "rate_limit_error",
                    f"{self._waiting} models wait to be loaded; try again later",
                    retry_after=5,
                )
            place.loading = asyncio.ensure_future(self._open_one(place, entry))
            place.loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        waited = asyncio.shield(place.loading)
        if patience is None:
            return await waited
        try:
            await within(waited, patience)
        except asyncio.TimeoutError:
            raise self._busy(entry.name, place.stage) from None

    async def _open_one(self, place: OpenModel, entry: ModelEntry) -> None:
        self._turn = self._turn or asyncio.Lock()
        self._waiting += 1
        stored = entry.stored
        assert stored is not None

        def progress(done: int, total: int, text: str) -> None:
            place.done, place.total = done, total

        try:
            place.stage = "waits for others that are being loaded"
            async with self._turn:
                self._check_wanted(place)
                place.stage = "is being loaded"
                path = await in_thread(as_package, stored, progress)
                settings = replace(entry.settings, model=str(path))
                place.size = await in_thread(_footprint, settings, self._settings)
                await self._make_room(place, entry.name)
                model = await in_thread(ServedModel, settings, self._settings)
                if self._closed:
                    model.close()
                    raise ApiError(503, "unavailable_error", "the server is stopping", retry_after=5)
                place.model, place.reason = model, ""
                place.since = place.used = time.monotonic()
                self._open.add(place)
            if not place.gone:
                self.add(model)
            elif not place.users:
                self._leave(place)
        except (RknnError, OSError) as error:
            if not await in_thread(stored.path.exists):
                told = f"The model {entry.name!r} was deleted while it was loaded"
                raise ApiError(404, "invalid_request_error", told, "model", "model_not_found") from None
            place.failed(error)
            raise
        finally:
            self._waiting -= 1
            place.loading = None
            place.done = place.total = 0

    async def _make_room(self, wanted: OpenModel, name: str) -> None:
        """Close who was idle longest until there is room.

        Where all are busy, one of them takes no new requests until it has left and come back: what others keep asking for
        does not keep this one out for ever. Raises ApiError 503.
        """
        most = self._settings.llm_bytes
        if most and wanted.size > most:
            raise ApiError(
                503,
                "unavailable_error",
                f"{name} takes {wanted.size} bytes, and models may have {most} here; --llm-bytes allows more",
            )
        self._room = self._room or asyncio.Event()
        asked = time.monotonic()
        deadline = asked + self._settings.timeout
        while not self._fits(wanted, self._open):
            self._check_wanted(wanted)
            idle = [place for place in self._open if place.idle]
            if idle:
                self._leave(min(idle, key=lambda place: place.used))
                continue
            wanted.stage = "waits for room, as all models that are loaded are busy"
            now = time.monotonic()
            if now >= deadline or self._closed:
                raise self._busy(name, wanted.stage)
            staying = [place for place in self._open if not place.gone]
            if staying and (not self._fits(wanted, staying) or now - asked > _YIELDS):
                self._yield(min(staying, key=lambda place: place.since))
                asked = now
            self._room.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._room.wait(), min(_YIELDS, deadline - now))
        wanted.stage = "is being loaded"

    def _fits(self, wanted: OpenModel, there: set[OpenModel] | list[OpenModel]) -> bool:
        most = self._settings.llm_bytes
        bytes_fit = not most or sum(place.size for place in there) + wanted.size <= most
        return len(there) < self._settings.llm_models and bytes_fit

    def _yield(self, place: OpenModel) -> None:
        """Who asks for this model from now on waits until it is opened anew; who has it ends on it."""
        self._unlist(place)
        fresh = OpenModel(place.identity, list(place.entries))
        for entry in place.entries:
            entry.place = fresh
        place.entries.clear()

    def _check_wanted(self, place: OpenModel) -> None:
        """Nobody's model makes no other one leave."""
        if not place.users:
            raise ApiError(499, "client_closed_request", "all who waited for the model went away")

    def _busy(self, name: str, stage: str) -> ApiError:
        return ApiError(
            503,
            "unavailable_error",
            f"{name} {stage}, for longer than {self._settings.timeout:g} s; try again later. The server may have more at a time "
            "with --llm-models and --llm-bytes, and wait longer with --timeout",
            retry_after=5,
        )

    def _unlist(self, place: OpenModel) -> None:
        for name, model in list(self._models.items()):
            if model is place.model:
                del self._models[name]

    def _leave(self, place: OpenModel) -> None:
        """Close a model that nobody uses."""
        self._unlist(place)
        self._open.discard(place)
        model, place.model = place.model, None
        place.views.clear()
        if model is not None:
            logger.info("%s is unloaded", model.name)
            model.close()
        self._tell()

    def _tell(self) -> None:
        """Wake who waits for room."""
        if self._room is not None:
            self._room.set()


def _footprint(settings: ModelSettings, server: ServerSettings) -> int:
    """Bytes that a model takes when it is open and busy: its files, and a KV cache for each answer at a time."""
    path = Path(settings.model)
    beside = [path.with_suffix(".weight"), path.with_suffix(".embed.bin")]
    size = sum(part.stat().st_size for part in (path, *beside) if part.is_file())
    described = package_model(path)
    if described is not None and described.embedding is None:
        context = min(settings.ctx_size or described.max_context, described.max_context)
        size += server.parallel * kv_bytes(described, context)
    return size
