"""Networks that are known by the hash of their content: opened when they are asked for, closed when nobody asks any more."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from rknnlite_protocol.board import stored_name

from ..async_helpers import in_thread
from ..errors import ApiError
from ..queueing import Room
from ..settings import ServerSettings
from .network import Identity, ServedNetwork, identity_of
from .uploads import FileInUse, Stored, Uploads, digest_of_file

__all__ = ["UploadedNetworks"]

logger = logging.getLogger("rknnlite.server")
IDLE_SECONDS = 600.0
"""After so long without a request a network is closed."""
_LOOK_SECONDS = 15.0


@dataclass
class _Loaded:
    network: ServedNetwork
    in_use: Optional[FileInUse]
    used: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        self.network.close()
        if self.in_use is not None:
            self.in_use.close()


@dataclass
class _Known:
    """The hash of a file of this server, as long as the file is what it was."""

    identity: Identity
    digest: str


class UploadedNetworks:
    """For one event loop.

    Args:
        served: gives path and, where it is loaded, network of each file that this server has of its own.
        room: for requests, shared with the other networks of the server.
    """

    def __init__(
        self,
        settings: ServerSettings,
        served: Callable[[], Iterable[tuple[Path, Optional[ServedNetwork]]]],
        room: Room,
    ) -> None:
        self.files = Uploads(settings.upload_dir, settings.upload_bytes)
        self._settings, self._served, self._room = settings, served, room
        self._loaded: dict[str, _Loaded] = {}
        self._hashes: dict[Path, _Known] = {}
        self._lock: Optional[asyncio.Lock] = None  # made in the event loop, to which it belongs
        self._timer: Optional[asyncio.TimerHandle] = None
        self._closed = False

    @property
    def loaded(self) -> list[ServedNetwork]:
        """The networks that are open."""
        return [entry.network for entry in self._loaded.values()]

    async def stored(self, digest: str, size: int = 0) -> Stored:
        """How much of a file is here, be it sent or this server's own; ``size`` of it where that is known."""
        if self._settings.allow_upload:
            found = await in_thread(self.files.stored, digest)
            if found.complete:
                return found
        own = await self._own(digest, size)
        if own is not None:
            return Stored((await in_thread(own[0].stat)).st_size, True)
        return found if self._settings.allow_upload else Stored(0, False)

    async def network(self, digest: str) -> ServedNetwork:
        """The network of that content, opened if need be.

        Raises:
            ApiError: 404 where it is not here, 503 where all that may be open are busy.
            RknnError: it cannot be opened.
        """
        while (entry := self._loaded.get(digest)) is None:
            own = await self._own(digest)
            if own is not None and own[1] is not None:
                return own[1]
            await self._loading(digest, own[0] if own else None)  # and it may be closed again by now
        entry.used = time.monotonic()
        return entry.network

    def close(self) -> None:
        """Close all of them; from any thread, when no request is under way. May be called again."""
        self._closed = True
        while self._loaded:
            self._loaded.popitem()[1].close()

    # -- opening and closing ------------------------------------------------------------------------------

    async def _loading(self, digest: str, path: Optional[Path]) -> None:
        """Goes on when the one who asked has gone: others may ask, and what is opened must be closed by somebody."""
        task = asyncio.ensure_future(self._load(digest, path))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(task)

    async def _load(self, digest: str, path: Optional[Path]) -> None:
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if digest in self._loaded:
                return
            await self._make_room()
            entry = await in_thread(self._open, digest, path)
            if self._closed:  # meanwhile
                await in_thread(entry.close)
                raise ApiError(503, "unavailable_error", "the server is stopping", retry_after=5)
            self._loaded[digest] = entry
            self._watch()

    def _open(self, digest: str, path: Optional[Path]) -> _Loaded:
        in_use = self.files.hold(digest) if path is None and self._settings.allow_upload else None
        if in_use is not None:
            path = in_use.path
        if path is None:
            raise ApiError(
                404,
                "not_found_error",
                f"the network {stored_name(digest)} is not here (any more); send its file",
            )
        try:
            network = ServedNetwork(stored_name(digest), path, self._settings, self._room)
        except BaseException:
            if in_use is not None:
                in_use.close()
            raise
        entry = _Loaded(network, in_use)
        if in_use is None and self._known(path) != digest:
            entry.close()
            raise ApiError(
                404, "not_found_error", f"{path.name} was changed while it was opened; send the file"
            )
        return entry

    async def _make_room(self) -> None:
        most = max(1, self._settings.upload_models)
        while len(self._loaded) >= most:
            idle = [digest for digest, entry in self._loaded.items() if entry.network.idle]
            if not idle:
                raise ApiError(
                    503,
                    "rate_limit_error",
                    f"{most} networks that clients sent are open and all are busy; try again "
                    "later, or allow more with --upload-models",
                    retry_after=1,
                )
            await self._unload(min(idle, key=lambda digest: self._loaded[digest].used))

    async def _unload(self, digest: str) -> None:
        entry = self._loaded.pop(digest)
        logger.info("%s is closed", stored_name(digest))
        await in_thread(entry.close)

    def _watch(self) -> None:
        if self._timer is None and self._loaded and not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LOOK_SECONDS, lambda: loop.create_task(self._unload_idle()))

    async def _unload_idle(self) -> None:
        self._timer = None
        before = time.monotonic() - IDLE_SECONDS
        for digest, entry in list(self._loaded.items()):
            if entry.used < before and entry.network.idle and self._loaded.get(digest) is entry:
                await self._unload(digest)
        await in_thread(self.files.tidy)
        self._watch()

    # -- files of the server's own ------------------------------------------------------------------------

    async def _own(self, digest: str, size: int = 0) -> Optional[tuple[Path, Optional[ServedNetwork]]]:
        """The server's own file of that content, and the network that was opened of it; hashes each file once."""
        for path, network in self._served():
            known = self._hashes.get(path)
            if known is None or known.identity != identity_of(path):
                if size and not _has_size(path, size):
                    continue
                await in_thread(self._known, path)
                known = self._hashes.get(path)
            if known is not None and known.digest == digest:
                same = network is not None and network.identity == known.identity
                return path, network if same else None
        return None

    def _known(self, path: Path) -> str:
        """The hash of a file; empty where it cannot be read, or is changed meanwhile."""
        before = identity_of(path)
        known = self._hashes.get(path)
        if known is not None and known.identity == before:
            return known.digest
        self._hashes.pop(path, None)
        try:
            digest = digest_of_file(path)
        except OSError:
            return ""
        if before is None or identity_of(path) != before:
            return ""
        self._hashes[path] = _Known(before, digest)
        return digest


def _has_size(path: Path, size: int) -> bool:
    identity = identity_of(path)
    return identity is not None and identity[2] == size
