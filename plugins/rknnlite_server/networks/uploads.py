"""Files of networks that clients sent, kept under the hash of their content: bounded, whole or not at all, private.

A file arrives as ``HASH.part`` and becomes ``HASH.rknn`` when it is complete and its hash is the one announced; a server
that is killed meanwhile leaves the part, and the client goes on where it ended. Who uses a file holds a shared lock on
it, who writes one an exclusive one: several servers may have one folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

from rknnlite_programs.buildcache import cache_dir, make_private, writable_by_others
from rknnlite_protocol.board import stored_name

from rknnlite.errors import InputInvalid, OutOfMemory, ParamInvalid
from rknnlite.files.writing import GrowingFile

__all__ = ["FileInUse", "Receiving", "Stored", "Uploads", "digest_of_file"]

PART_SECONDS = 86400.0
"""How long a part is kept that nobody goes on with."""
MOST_FILES = 1000
_WHOLE, _PART = ".rknn", ".part"
_BLOCK = 1 << 20


class Stored(NamedTuple):
    """Bytes of a file that are there, and whether that is all of it."""

    size: int
    complete: bool


@dataclass
class FileInUse:
    """A file in use: nobody removes it until ``close``."""

    path: Path
    handle: int

    def close(self) -> None:
        """May be called again."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            with contextlib.suppress(OSError):
                os.utime(handle)  # it was in use until now
            os.close(handle)


class Uploads:
    """The folder. Everything blocks; any thread may call.

    Args:
        folder: empty for ``uploads`` in the cache of this user.
        limit: bytes that are kept.
    """

    def __init__(self, folder: str, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._expected: dict[str, int] = {}  # bytes of files that are being received
        self._lock = threading.Lock()

    def stored(self, digest: str) -> Stored:
        """How much of a file is there; raises ParamInvalid for what is no hash."""
        stored_name(digest)
        self.tidy()
        for suffix in (_WHOLE, _PART):
            with contextlib.suppress(OSError):
                return Stored((self._place() / (digest + suffix)).lstat().st_size, suffix == _WHOLE)
        return Stored(0, False)

    def receive(self, digest: str, total: int, offset: int) -> Receiving:
        """Begin to receive a file, or go on.

        Raises:
            BlockingIOError: somebody else sends it now.
            ParamInvalid: ``offset`` is not where it goes on, or the file is too large to be kept.
            OutOfMemory: there is no room for it.
        """
        stored_name(digest)
        if not 0 < total <= self._limit:
            raise ParamInvalid(
                f"a file of {total} bytes cannot be kept here, 1 to {self._limit} are; --upload-bytes allows more"
            )
        folder = self._place()
        with _room(folder):
            part = GrowingFile(folder / (digest + _PART))
        receiving = Receiving(self, digest, total, part, folder)
        try:
            with self._lock:
                self._expected[digest] = total
                self._make_room(folder)
            receiving.go_on(offset)
        except BaseException:
            receiving.close()
            raise
        return receiving

    def hold(self, digest: str) -> Optional[FileInUse]:
        """A complete file, kept from being removed; None where it is not here, or damaged (then it goes)."""
        path = self._place() / (digest + _WHOLE)
        try:
            held = FileInUse(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError:
            return None
        try:
            fcntl.flock(held.handle, fcntl.LOCK_SH)
            os.utime(held.handle)
            # not removed just before the lock was had
            if os.path.samestat(os.fstat(held.handle), path.lstat()):
                if digest_of_file(path) == digest:
                    return held
                path.unlink()
        except OSError:
            pass
        held.close()
        return None

    def tidy(self) -> None:
        """Remove parts that nobody goes on with; raises nothing."""
        with contextlib.suppress(OSError, ParamInvalid), self._lock:
            for path, status in _entries(self._place(), _PART):
                if status.st_mtime < time.time() - PART_SECONDS:
                    _remove(path)

    def settle(self, digest: str) -> None:
        """A file is no longer being received."""
        with self._lock:
            self._expected.pop(digest, None)

    def _place(self) -> Path:
        """The folder, made where it is missing; raises ParamInvalid where others could put files there."""
        folder = Path(self._folder) if self._folder else cache_dir() / "uploads"
        try:
            make_private(folder)
            shared = writable_by_others(folder)
        except OSError as error:
            raise ParamInvalid(
                f"uploads cannot be kept in {folder} ({error.strerror or error}); name another folder with --upload-dir"
            ) from None
        if shared:
            raise ParamInvalid(
                f"{folder} can be written by other users, and networks are run from it; run chmod go-w on it, or "
                "name another folder with --upload-dir"
            )
        return folder

    def _make_room(self, folder: Path) -> None:
        """Remove what was not used for longest until all that is expected fits; files in use stay."""
        expected = sum(self._expected.values())
        kept = [
            (path, status)
            for path, status in _entries(folder, _WHOLE, _PART)
            if not (path.suffix == _PART and path.stem in self._expected)
        ]
        kept.sort(key=lambda entry: entry[1].st_mtime)
        size, count = sum(status.st_size for _, status in kept), len(kept) + len(self._expected)
        for path, status in kept:
            if size + expected <= self._limit and count <= MOST_FILES:
                return
            if _remove(path):
                size, count = size - status.st_size, count - 1
        if size + expected > self._limit or count > MOST_FILES:
            raise OutOfMemory(
                f"no room for the file: {size} bytes of {self._limit} are networks in use, and {expected} are being "
                "received; try again later, or allow more with --upload-bytes"
            )


class Receiving:
    """A file that is being received, by one client; ``close`` keeps what has come."""

    def __init__(self, uploads: Uploads, digest: str, total: int, part: GrowingFile, folder: Path) -> None:
        self._uploads, self._digest, self._total, self._part = uploads, digest, total, part
        self._folder = folder

    @property
    def size(self) -> int:
        """Bytes that are there."""
        return self._part.size

    def go_on(self, offset: int) -> None:
        """Check where the client goes on; raises ParamInvalid."""
        if self._part.size > self._total:
            self._discard("the part that is here is larger than the file")
        if offset != self._part.size:
            raise ParamInvalid(
                f"upload of {self._digest[:12]}: it goes on at byte {self._part.size}, not at {offset}; ask Stored"
            )

    def append(self, data: bytes) -> None:
        """Take a piece; raises ParamInvalid for more bytes than were announced, OutOfMemory where the disk is full."""
        if self._part.size + len(data) > self._total:
            self._discard(f"{self._total} bytes were announced, and more came")
        try:
            with _room(self._folder):
                self._part.append(data)
        except OutOfMemory:
            self._part.discard()
            raise

    def finish(self) -> Stored:
        """Put the file into place once all of it is there; raises InputInvalid where it is another one."""
        if self._part.size < self._total:
            return Stored(self._part.size, False)
        found = digest_of_file(self._folder / (self._digest + _PART))
        if found != self._digest:
            self._part.discard()
            raise InputInvalid(
                f"the bytes that came have the SHA-256 {found}, announced was {self._digest}; send the file again"
            )
        with _room(self._folder):
            self._part.finish(self._folder / (self._digest + _WHOLE))
        return Stored(self._total, True)

    def close(self) -> None:
        """Let go of the file."""
        if not self._part.size:
            self._part.discard()
        self._part.close()
        self._uploads.settle(self._digest)

    def _discard(self, why: str) -> None:
        self._part.discard()
        raise ParamInvalid(f"upload of {self._digest[:12]}: {why}; it begins anew at byte 0")


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file's content; raises OSError."""
    found = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _entries(folder: Path, *suffixes: str) -> Iterator[tuple[Path, os.stat_result]]:
    for path in folder.iterdir():
        if path.suffix in suffixes and len(path.stem) == 64:
            with contextlib.suppress(OSError):
                yield path, path.lstat()


def _remove(path: Path) -> bool:
    """Remove a file that nobody uses; False where somebody does."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            return True
        finally:
            os.close(handle)
    return False


@contextlib.contextmanager
def _room(folder: Path) -> Iterator[None]:
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise OutOfMemory(
            f"the file cannot be kept in {folder}: {error.strerror or error}; make room there, or name another folder "
            "with --upload-dir"
        ) from None
