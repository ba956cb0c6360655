"""Files that clients sent, and those that batches made: bounded, private, each with who may read it."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from rknnlite.errors import OutOfMemory
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import write_file, writing

__all__ = ["KeptFile", "KeptFiles", "new_id", "records"]

logger = logging.getLogger("rknnlite.server")
_MOST_FILES = 10_000


@dataclass(frozen=True)
class KeptFile:
    """``owner`` is the identity of a key, empty on a server without keys; ``created_at`` in seconds since 1970."""

    id: str
    owner: str
    filename: str
    purpose: str
    bytes: int
    created_at: int

    @property
    def object(self) -> dict[str, Any]:
        """As OpenAI's API tells of it."""
        told = {name: value for name, value in asdict(self).items() if name != "owner"}
        return {"object": "file", **told, "status": "processed", "status_details": None}


class KeptFiles:
    """The files of a folder. ``limit`` in bytes, of all together."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit, self._lock = folder, limit, threading.Lock()
        self._files = {
            file.id: file for file in records(folder, "file-", KeptFile) if self.path(file).is_file()
        }
        for path in folder.glob("file-*.content"):  # a server was ended before it could write what they are
            if path.stem not in self._files:
                path.unlink()

    def of(self, owner: str) -> list[KeptFile]:
        """All of an owner, the newest first."""
        found = [file for file in list(self._files.values()) if file.owner == owner]
        return sorted(found, key=lambda file: (file.created_at, file.id), reverse=True)

    def get(self, owner: str, identity: str) -> Optional[KeptFile]:
        """A file of that owner, None where there is none."""
        file = self._files.get(identity)
        return file if file is not None and file.owner == owner else None

    def add(self, owner: str, filename: str, purpose: str, content: bytes) -> KeptFile:
        """Keep a file; raises OutOfMemory where there is no room, OSError."""
        with self._lock:
            used = sum(file.bytes for file in self._files.values())
            if used + len(content) > self._limit or len(self._files) >= _MOST_FILES:
                raise OutOfMemory(
                    f"{len(self._files)} files of {used} bytes are kept, {len(content)} bytes more do not fit into "
                    f"{self._limit}; delete some, or allow more with --batch-bytes"
                )
            return self._kept(new_id("file-"), owner, filename, purpose, (content,))

    def keep(
        self, identity: str, owner: str, filename: str, purpose: str, content: Iterable[bytes]
    ) -> KeptFile:
        """Keep a file that was made here, also beyond the limit; one of that identity is replaced. Raises OSError."""
        with self._lock:
            return self._kept(identity, owner, filename, purpose, content)

    def _kept(
        self, identity: str, owner: str, filename: str, purpose: str, content: Iterable[bytes]
    ) -> KeptFile:
        place = self._folder / f"{identity}.content"
        with writing(place, 0o600) as file:
            size = sum(file.write(part) for part in content)
        made = KeptFile(identity, owner, filename, purpose, size, int(time.time()))
        try:
            write_file(self._folder / f"{identity}.json", json.dumps(asdict(made)).encode(), 0o600)
        except OSError:
            place.unlink(missing_ok=True)
            raise
        self._files[identity] = made
        return made

    def content(self, file: KeptFile) -> bytes:
        """Its bytes; raises OSError."""
        return read_bytes(self.path(file))

    def path(self, file: KeptFile) -> Path:
        """Where its bytes are."""
        return self._folder / f"{file.id}.content"

    def remove(self, file: KeptFile) -> None:
        """For good."""
        with self._lock:
            self._files.pop(file.id, None)
            for path in (self._folder / f"{file.id}.json", self.path(file)):
                path.unlink(missing_ok=True)

    def all(self) -> list[KeptFile]:
        """Those of all owners."""
        return list(self._files.values())


def new_id(prefix: str) -> str:
    """An identity that nobody guesses."""
    return prefix + secrets.token_hex(12)


def records(folder: Path, prefix: str, kind: Any) -> Iterator[Any]:
    """What ``PREFIX*.json`` in a folder describe; what is none is passed over, with a line in the log."""
    for path in sorted(folder.glob(f"{prefix}*.json")):
        try:
            yield kind(**parse_json(read_bytes(path)))
        except (OSError, ValueError, TypeError) as error:
            logger.error("%s is passed over: %s", path, error)
