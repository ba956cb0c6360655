"""The language models of a server by name: those of the command line, and those of a folder, a few of which are open at a time."""

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
from rknnlite_llm.model_folder import StoredModel, as_package, model_name, models_in

from rknnlite.errors import ParamInvalid, RknnError

from ..async_helpers import in_thread, within
from ..errors import ApiError, unknown_model
from ..served_model import ServedModel
from ..settings import ModelSettings, ServerSettings
from .model_entry import ModelEntry
from .parameters import read_parameters

__all__ = ["Library"]

logger = logging.getLogger("rknnlite.server")


class Library:
    """For one event loop; models are opened in threads, one at a time."""

    def __init__(self, settings: ServerSettings, models: dict[str, ServedModel]) -> None:
        """``models`` are those that are open, kept up by the library."""
        self._settings, self._models = settings, models
        self._entries: dict[str, ModelEntry] = {}
        self._leaving: set[ModelEntry] = set()
        self._room: Optional[asyncio.Event] = None  # made in the event loop, to which it belongs
        self._turn: Optional[asyncio.Lock] = None
        self._waiting = 0
        self._closed = False
        self.opened: Callable[[ServedModel], None] = lambda model: None

    @property
    def folder(self) -> Optional[Path]:
        """Where models come from; None where the server has none but those of its command line."""
        return Path(self._settings.llm_repository) if self._settings.llm_repository else None

    def add(self, model: ServedModel) -> None:
        """A model of the command line, which is open and stays."""
        self._entries[model.name] = ModelEntry(model.name, model.settings, model=model)
        self._open(model)

    async def index(self) -> list[ModelEntry]:
        """All models that there are: those of the command line in its order, then those of the folder by name."""
        await self._look()
        return sorted(
            self._entries.values(), key=lambda entry: (not entry.pinned, "" if entry.pinned else entry.name)
        )

    async def find(self, given: str) -> ModelEntry:
        """The entry of that name, of the only one where none is given. Raises ApiError."""
        entry = self._entries.get(given)
        if entry is not None and entry.pinned:
            return entry
        await self._look()
        if not given and len(self._entries) == 1:
            return next(iter(self._entries.values()))
        name = given
        if given not in self._entries:
            try:
                name = model_name(given) if given else given
            except ParamInvalid:
                name = ""
        entry = self._entries.get(name)
        if entry is None:
            raise unknown_model(given, self._entries)
        return entry

    async def take(self, name: str) -> ModelEntry:
        """Hold a model, which is open then, until ``give``. Raises ApiError, and what opening raises.

        Of a folder that is left to clients (``explicit``) it must be open already.
        """
        return await self.enter(await self.find(name))

    async def enter(self, entry: ModelEntry) -> ModelEntry:
        """``take`` of a model that was found."""
        if entry.model is None and self._settings.explicit:
            raise ApiError(
                404,
                "not_found_error",
                f"model {entry.name!r} is not loaded{': ' + entry.reason if entry.reason else ''}",
                "model",
                "model_not_loaded",
            )
        return await self.load(entry)

    async def load(self, entry: ModelEntry) -> ModelEntry:
        """Open a model where it is not open, and hold it."""
        entry.users += 1
        entry.keep = self._settings.keep_alive
        try:
            if entry.model is None:
                await self._opened(entry)
        except BaseException:
            self.give(entry)
            raise
        return entry

    def give(self, entry: ModelEntry) -> None:
        """A request is over."""
        entry.users -= 1
        entry.used = time.monotonic()
        if not entry.users:
            if entry.gone or (entry.keep == 0 and not entry.pinned):
                self._leave(entry)
            self._tell()

    def is_pinned(self, name: str) -> bool:
        """Whether the command line named a model so."""
        entry = self._entries.get(name)
        return entry is not None and entry.pinned

    def unload(self, entry: ModelEntry) -> None:
        """Close a model behind the last of its requests; one of the command line stays."""
        entry.keep = 0
        if entry.idle:
            self._leave(entry)
            self._tell()

    def forget(self, name: str) -> None:
        """A model whose files are gone or are others now: who asks for it from now on does not find this one."""
        entry = self._entries.get(name)
        if entry is None or entry.pinned:
            return
        del self._entries[name]
        entry.gone = True
        self._unlist(entry)
        self._leaving.add(entry)
        if not entry.users:
            self._leave(entry)
            self._tell()

    async def expire(self) -> None:
        """Close models whose time is over, until cancelled."""
        while True:
            await asyncio.sleep(self._pause())
            for entry in list(self._entries.values()):
                if entry.idle and entry.left <= 0:
                    self._leave(entry)
                    self._tell()

    def close(self) -> None:
        """Close all models; may be called again."""
        self._closed = True
        entries = [*self._entries.values(), *self._leaving]
        self._entries.clear()
        self._leaving.clear()
        for entry in entries:
            model, entry.model = entry.model, None
            self._models.pop(entry.name, None)
            if model is not None:
                model.close()

    # -- opening -------------------------------------------------------------------------------------------

    async def _opened(self, entry: ModelEntry) -> None:
        """Everybody who waits for a model waits for one opening of it, which goes on when they go away."""
        if entry.loading is None:
            if self._waiting >= max(1, self._settings.queue):
                raise ApiError(
                    429,
                    "rate_limit_error",
                    f"{self._waiting} models wait to be loaded; try again later",
                    retry_after=5,
                )
            entry.loading = asyncio.ensure_future(self._open_one(entry))
            entry.loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(entry.loading)

    async def _open_one(self, entry: ModelEntry) -> ServedModel:
        self._turn = self._turn or asyncio.Lock()
        self._waiting += 1
        try:
            async with self._turn:
                stored = entry.stored
                assert stored is not None

                def progress(done: int, total: int, text: str) -> None:
                    entry.done, entry.total = done, total

                path = await in_thread(as_package, stored, progress)
                settings = replace(entry.settings, model=str(path))
                entry.size = await in_thread(_footprint, settings, self._settings)
                await self._make_room(entry)
                model = await in_thread(ServedModel, settings, self._settings)
            if self._closed:
                model.close()
                raise ApiError(503, "unavailable_error", "the server is stopping", retry_after=5)
            entry.model, entry.reason, entry.used = model, "", time.monotonic()
            if not entry.gone:
                self._open(model)
            elif not entry.users:
                self._leave(entry)
            return model
        except (RknnError, OSError) as error:
            entry.reason = str(error)
            raise
        finally:
            self._waiting -= 1
            entry.loading = None
            entry.done = entry.total = 0

    async def _make_room(self, wanted: ModelEntry) -> None:
        """Close who was idle longest until there is room; wait where all are busy. Raises ApiError 503 or 504."""
        most = self._settings.llm_bytes
        if most and wanted.size > most:
            raise ApiError(
                503,
                "unavailable_error",
                f"{wanted.name} takes {wanted.size} bytes, and models may have {most} here; --llm-bytes allows more",
            )
        self._room = self._room or asyncio.Event()
        deadline = time.monotonic() + self._settings.timeout
        while not self._fits(wanted):
            idle = [entry for entry in self._entries.values() if entry.idle]
            if idle:
                self._leave(min(idle, key=lambda entry: entry.used))
                continue
            left = deadline - time.monotonic()
            if left <= 0 or self._closed:
                raise ApiError(503, "unavailable_error", "all models that are loaded are busy", retry_after=5)
            self._room.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._room.wait(), left)

    def _fits(self, wanted: ModelEntry) -> bool:
        there = [entry for entry in (*self._entries.values(), *self._leaving) if entry.model is not None]
        ours = [entry for entry in there if not entry.pinned]
        bytes_fit = not self._settings.llm_bytes or (
            sum(entry.size for entry in ours) + wanted.size <= self._settings.llm_bytes
        )
        return len(ours) < self._settings.llm_models and bytes_fit

    def _open(self, model: ServedModel) -> None:
        self._models[model.name] = model
        self.opened(model)

    def _unlist(self, entry: ModelEntry) -> None:
        if self._models.get(entry.name) is entry.model:
            self._models.pop(entry.name, None)

    def _leave(self, entry: ModelEntry) -> None:
        """Close a model that nobody uses."""
        self._unlist(entry)
        self._leaving.discard(entry)
        model, entry.model = entry.model, None
        if model is not None:
            logger.info("%s is unloaded", entry.name)
            model.close()

    def _tell(self) -> None:
        """Wake who waits for room."""
        if self._room is not None:
            self._room.set()

    # -- the folder ----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Take up what has come into the folder, and let go of what has left it or is another file now."""
        folder = self.folder
        if folder is None:
            return
        found = await asyncio.to_thread(_states, folder)
        for name, entry in list(self._entries.items()):
            if not entry.pinned and (name not in found or found[name][1] != entry.state):
                self.forget(name)
        for name, (stored, state) in found.items():
            if name not in self._entries:
                with contextlib.suppress(OSError):  # gone meanwhile
                    self._entries[name] = self._entry(stored, state)

    def _entry(self, stored: StoredModel, state: str) -> ModelEntry:
        base = self._settings.llm_defaults
        given = read_parameters(stored.parameters) if stored.parameters.is_file() else {}
        settings = replace(base, model=str(stored.path), alias=stored.name, **given)
        size, modified = stored.size, stored.path.stat().st_mtime
        return ModelEntry(stored.name, settings, stored, state, file_size=size, modified=modified)

    def _pause(self) -> float:
        """Seconds until the next model's time may be over."""
        return min([1.0, *(max(0.02, entry.left) for entry in self._entries.values() if entry.idle)])


def _states(folder: Path) -> dict[str, tuple[StoredModel, str]]:
    try:
        return {name: (stored, stored.state) for name, stored in models_in(folder).items()}
    except OSError as error:
        raise ApiError(503, "unavailable_error", f"the folder of models cannot be read: {error}") from None


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
