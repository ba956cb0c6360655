"""The networks of a server by name: those of the command line, those of a folder, those that clients sent."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from rknnlite_protocol.board import digest_of

from rknnlite import plugins
from rknnlite.errors import ParamInvalid, RknnError, shown

from ..errors import ApiError
from ..queueing import Room
from ..settings import ServerSettings
from .network import ServedNetwork
from .uploaded_networks import UploadedNetworks

__all__ = ["Entry", "Repository", "described", "name_of"]

logger = logging.getLogger("rknnlite.server")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")


@dataclass
class Entry:
    """A network that can be loaded: its file, the network itself while it is loaded, else why it is not."""

    name: str
    path: Path
    network: Optional[ServedNetwork] = None
    reason: str = ""

    @property
    def state(self) -> str:
        """READY or UNAVAILABLE."""
        return "READY" if self.network is not None else "UNAVAILABLE"


class Repository:
    """For one event loop; models are opened in threads, one at a time."""

    def __init__(self, settings: ServerSettings) -> None:
        """Raises ParamInvalid for two models of one name."""
        self._settings = settings
        self._lock: Optional[asyncio.Lock] = None  # made in the event loop, to which it belongs
        self._named: dict[str, Entry] = {}
        for path in map(Path, settings.networks):
            name = name_of(path)
            if name in self._named:
                raise ParamInvalid(f"two models have the name {name!r}: {self._named[name].path} and {path}")
            self._named[name] = Entry(name, path)
        self._found: dict[str, Entry] = {}
        self.room = Room(settings.queue_bytes)
        self.uploaded = UploadedNetworks(settings, self._files, self.room)

    @property
    def loaded(self) -> list[ServedNetwork]:
        """The networks that answer."""
        return [entry.network for entry in self._all() if entry.network is not None]

    @property
    def open(self) -> list[ServedNetwork]:
        """These, and those that are known by their content."""
        return [*self.loaded, *self.uploaded.loaded]

    def index(self) -> list[Entry]:
        """All networks that there are."""
        self._look()
        return sorted(self._all(), key=lambda entry: entry.name)

    def network(self, name: str, version: str = "") -> ServedNetwork:
        """The loaded network of that name; raises ApiError."""
        entry = self._known(name)
        _check_version(name, version)
        if entry.network is None:
            raise ApiError(
                404,
                "not_found_error",
                f"model {name} is not loaded{': ' + entry.reason if entry.reason else ''}",
            )
        return entry.network

    async def opened(self, name: str, version: str = "") -> ServedNetwork:
        """As ``network``; one that is named by the hash of its content is opened if need be. Raises ApiError, RknnError."""
        digest = digest_of(name)
        if digest is None or name in self._named or name in self._found:
            return self.network(name, version)
        _check_version(name, version)
        return await self.uploaded.network(digest)

    async def load(self, name: str) -> None:
        """Load a network, or load it anew; requests under way end on the old one. Raises ApiError, RknnError."""
        self._look()
        entry = self._known(name)
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            try:
                fresh = await asyncio.to_thread(ServedNetwork, name, entry.path, self._settings, self.room)
            except RknnError as error:
                # whoever looks at a folder of networks wants to know which
                if str(entry.path) not in str(error):
                    error.args = (f"{entry.path}: {error}", *error.args[1:])
                entry.reason = str(error)
                raise
            old, entry.network, entry.reason = entry.network, fresh, ""
        if old is not None:
            await old.retire()

    async def unload(self, name: str) -> None:
        """Unload a network once its requests are answered; raises ApiError where there is none of the name."""
        entry = self._known(name)
        old, entry.network, entry.reason = entry.network, None, "unloaded"
        if old is not None:
            await old.retire()

    async def load_at_start(self) -> None:
        """Load what the command line names, and the folder unless that is left to clients.

        Raises what the first of the command line raises that cannot be loaded; the index tells it of those of the folder.
        """
        for name in self._named:
            await self.load(name)
        self._look()
        for name in [] if self._settings.explicit else sorted(self._found):
            try:
                await self.load(name)
            except RknnError as error:
                logger.warning("%s is not loaded: %s", name, error)

    def close(self) -> None:
        """Unload everything; may be called again."""
        for entry in self._all():
            network, entry.network = entry.network, None
            if network is not None:
                network.close()
        self.uploaded.close()

    def _files(self) -> list[tuple[Path, Optional[ServedNetwork]]]:
        self._look()
        return [(entry.path, entry.network) for entry in self._all()]

    def _all(self) -> Iterable[Entry]:
        return [*self._named.values(), *self._found.values()]

    def _known(self, name: str) -> Entry:
        if not _NAME.fullmatch(name):
            raise ApiError(404, "not_found_error", f"{shown(name)} is no name of a model")
        entry = self._named.get(name) or self._found.get(name)
        if entry is None:
            known = ", ".join(entry.name for entry in self._all()) or "none"
            raise ApiError(
                404, "not_found_error", f"the model {name!r} does not exist here; there is {known}"
            )
        return entry

    def _look(self) -> None:
        """Take up what has come into the folder, and forget what has left it and is not loaded."""
        if not self._settings.repository:
            return
        folder = Path(self._settings.repository)
        files = sorted(path for suffix in _suffixes() for path in folder.glob(f"*{suffix}"))
        there = {_without_suffix(path): path for path in files if _inside(path, folder)}
        for name, path in there.items():
            if _NAME.fullmatch(name) and name not in self._named:
                self._found.setdefault(name, Entry(name, path))
        for name in [n for n, e in self._found.items() if n not in there and e.network is None]:
            del self._found[name]


def name_of(path: Path) -> str:
    """What clients call a network: its file's name without the suffix; raises ParamInvalid for one that is no name."""
    name = _without_suffix(path)
    if not _NAME.fullmatch(name):
        raise ParamInvalid(
            f"{path}: {shown(name)} cannot be the name of a model; letters, digits and _ . + - make one"
        )
    return name


def _suffixes() -> set[str]:
    """Those of the model files of all backends."""
    return {suffix for backend in plugins.backends().values() for suffix in backend.suffixes}


def _without_suffix(path: Path) -> str:
    suffix = next((suffix for suffix in _suffixes() if path.name.endswith(suffix)), "")
    return path.name[: len(path.name) - len(suffix)]


def _check_version(name: str, version: str) -> None:
    if version not in ("", "1"):
        raise ApiError(
            404, "not_found_error", f"model {name} has the version 1 and no version {version[:80]!r}"
        )


def _inside(path: Path, folder: Path) -> bool:
    """A link may not lead out of the folder."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def described(entry: Entry) -> dict[str, Any]:
    """A line of the index."""
    return {"name": entry.name, "version": "1", "state": entry.state, "reason": entry.reason}
