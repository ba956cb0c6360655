"""The language models of a server by name: those of the command line, and those of a folder, a few of which are open at a time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from rknnlite_llm.model_folder import ModelFolder, StoredModel, model_name

from rknnlite.errors import ModelInvalid, ParamInvalid

from ..errors import ApiError, unknown_model
from ..served_model import ServedModel
from ..settings import ModelSettings, ServerSettings
from .model_entry import ModelEntry, OpenModel, Taken
from .open_models import OpenModels
from .parameters import read_parameters

__all__ = ["Library"]


class Library:
    """For one event loop."""

    def __init__(self, settings: ServerSettings, models: dict[str, ServedModel]) -> None:
        """``models`` are those that are open, kept up by the library."""
        self._settings = settings
        self.open = OpenModels(settings, models)
        self.changing = 0  # models that are fetched or made at this moment
        self._entries: dict[str, ModelEntry] = {}
        self._looked: Optional[ModelFolder] = ModelFolder(self.folder) if self.folder else None
        self._looking: Optional[asyncio.Lock] = None  # made in the event loop, to which it belongs

    @property
    def folder(self) -> Optional[Path]:
        """Where models come from; None where the server has none but those of its command line."""
        return Path(self._settings.llm_repository) if self._settings.llm_repository else None

    def add(self, model: ServedModel) -> None:
        """A model of the command line, which is open and stays."""
        place = OpenModel("", model=model)
        entry = ModelEntry(model.name, model.settings, place)
        place.entries.append(entry)
        self._entries[model.name] = entry
        self.open.add(model)

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
        name = given
        if entry is None:
            with contextlib.suppress(ParamInvalid):
                name = model_name(given) if given else given
        entry = self._entries.get(name)
        if entry is not None and await self._is_as_it_was(entry):
            return entry
        await self._look()
        if not given and len(self._entries) == 1:
            return next(iter(self._entries.values()))
        entry = self._entries.get(name)
        if entry is None:
            raise unknown_model(given, self._entries)
        return entry

    async def take(self, name: str) -> Taken:
        """Hold a model, which is open then, until it is given back. Raises ApiError, and what opening raises.

        Of a folder that is left to clients (``explicit``) it must be open already.
        """
        return await self.enter(await self.find(name))

    async def enter(self, entry: ModelEntry) -> Taken:
        """``take`` of a model that was found."""
        if entry.place.model is None and self._settings.explicit:
            raise ApiError(
                404,
                "not_found_error",
                f"model {entry.name!r} is not loaded{': ' + entry.reason if entry.reason else ''}",
                "model",
                "model_not_loaded",
            )
        return await self.open.take(entry, self._settings.timeout)

    async def load(self, entry: ModelEntry, patience: Optional[float] = None) -> Taken:
        """Open a model because a client asks for just that, also where it failed before; hold it."""
        if entry.stored is not None and not entry.stored.broken:
            entry.place.lasting = False
        return await self.open.take(entry, patience)

    def is_pinned(self, name: str) -> bool:
        """Whether the command line named a model so."""
        entry = self._entries.get(name)
        return entry is not None and entry.pinned

    def unload(self, entry: ModelEntry) -> None:
        """Close a model behind the last of its requests; one of the command line stays."""
        if not entry.pinned:
            self.open.unload(entry.place)

    def forget(self, name: str) -> None:
        """A model whose files are gone or are others now: who asks for it from now on does not find this one."""
        entry = self._entries.get(name)
        if entry is not None and not entry.pinned:
            del self._entries[name]
            self.open.forget(entry)

    def close(self) -> None:
        """Close all models; may be called again."""
        self._entries.clear()
        self.open.close()

    # -- the folder ----------------------------------------------------------------------------------------

    async def _is_as_it_was(self, entry: ModelEntry) -> bool:
        stored = entry.stored
        assert stored is not None and self._looked is not None
        return await asyncio.to_thread(self._looked.is_as_it_was, stored)

    async def _look(self) -> None:
        """Take up what has come into the folder, and let go of what has left it or is another file now."""
        if self._looked is None:
            return
        self._looking = self._looking or asyncio.Lock()
        async with self._looking:
            known = {name: entry.state for name, entry in self._entries.items()}
            found = await asyncio.to_thread(_look, self._looked, known, self._settings.llm_defaults)
            for name, entry in list(self._entries.items()):
                if not entry.pinned and (name not in found.states or found.states[name] != entry.state):
                    self.forget(name)
            places = {
                entry.place.identity: entry.place for entry in self._entries.values() if not entry.pinned
            }
            for entry in found.fresh:
                if entry.name in self._entries:
                    continue
                entry.place = places.setdefault(entry.place.identity, entry.place)
                entry.place.entries.append(entry)
                self._entries[entry.name] = entry


@dataclass(frozen=True)
class _Found:
    """What a look at the folder found; ``fresh`` are those that were not known in this state."""

    states: dict[str, str]
    fresh: list[ModelEntry]


def _look(folder: ModelFolder, known: Mapping[str, str], base: ModelSettings) -> _Found:
    """In a thread. Raises ApiError."""
    try:
        found = folder.look()
    except OSError as error:
        raise ApiError(503, "unavailable_error", f"the folder of models cannot be read: {error}") from None
    fresh = []
    for name, (stored, state) in found.items():
        if known.get(name) != state:
            with contextlib.suppress(OSError):  # gone meanwhile
                fresh.append(_entry(stored, state, base))
    return _Found({name: state for name, (_, state) in found.items()}, fresh)


def _entry(stored: StoredModel, state: str, base: ModelSettings) -> ModelEntry:
    given = read_parameters(stored.parameters) if stored.parameters.is_file() else {}
    if stored.adapter_files:
        given["lora"] = str(stored.adapters)
    settings = replace(base, model=str(stored.path), alias=stored.name, **given)
    place = OpenModel(_identity(stored, settings))
    if stored.broken:
        place.failed(ModelInvalid(stored.broken))
    size, modified = stored.size, stored.path.stat().st_mtime
    return ModelEntry(stored.name, settings, place, stored, state, file_size=size, modified=modified)


def _identity(stored: StoredModel, settings: ModelSettings) -> str:
    """The same for all names of the same files (hard links) that are opened in the same way, a SHA-256."""
    files = [path.stat() for path in (*stored.content, *stored.adapter_files)]
    told = sorted((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) for status in files)
    opened = (settings.ctx_size, settings.made.template, settings.lora)
    return hashlib.sha256(repr((stored.kind.value, told, opened)).encode()).hexdigest()
