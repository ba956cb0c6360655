"""The folder of files and batches, which outlives the server: what was not finished goes on with the next one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Optional

from rknnlite_programs.buildcache import make_private, writable_by_others

from rknnlite.errors import ParamInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import GrowingFile, write_file

from .batch import ENDED, Batch
from .kept_files import KeptFiles, records

__all__ = ["Answers", "JobStore"]


class JobStore:
    """Files and batches of one server at a time; ``limit`` in bytes of files. Raises ParamInvalid for an unusable folder."""

    def __init__(self, folder: str, limit: int) -> None:
        self._folder = Path(folder)
        try:
            make_private(self._folder)
            shared = writable_by_others(self._folder)
            self._lock = GrowingFile(self._folder / "lock")
        except BlockingIOError:
            raise ParamInvalid(f"--batch-dir {folder}: another server uses it") from None
        except (OSError, ImportError) as error:
            raise ParamInvalid(f"--batch-dir {folder}: {error}") from None
        if shared:
            self._lock.close()
            raise ParamInvalid(f"--batch-dir {folder} can be written by other users; run chmod go-w on it")
        self.files = KeptFiles(self._folder, limit)
        self._batches: dict[str, Batch] = {
            batch.id: batch for batch in records(self._folder, "batch_", Batch)
        }

    def close(self) -> None:
        """Let another server have the folder."""
        self._lock.close()

    def of(self, owner: str) -> list[Batch]:
        """All of an owner, the newest first."""
        found = [batch for batch in list(self._batches.values()) if batch.owner == owner]
        return sorted(found, key=lambda batch: (batch.created_at, batch.id), reverse=True)

    def get(self, owner: str, identity: str) -> Optional[Batch]:
        """A batch of that owner, None where there is none."""
        batch = self._batches.get(identity)
        return batch if batch is not None and batch.owner == owner else None

    def open(self) -> list[Batch]:
        """Those that have not ended, the oldest first."""
        found = [batch for batch in list(self._batches.values()) if batch.status not in ENDED]
        return sorted(found, key=lambda batch: (batch.created_at, batch.id))

    def save(self, batch: Batch) -> None:
        """Keep a batch as it is now; raises OSError."""
        write_file(self._folder / f"{batch.id}.json", json.dumps(asdict(batch)).encode(), 0o600)
        self._batches[batch.id] = batch

    def answers(self, batch: Batch) -> Answers:
        """What a batch has so far."""
        return Answers(self._folder / f"{batch.id}.part")


class Answers:
    """The answers of a batch as they come, a line each; a line that was cut off is none."""

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self.lines: dict[str, tuple[bool, bytes]] = {}
        """By ``custom_id``: whether it is an answer or an error, and its line."""
        kept = read_bytes(path)
        if kept and not kept.endswith(b"\n"):
            self._file.append(b"\n")
        for row in kept.split(b"\n")[:-1]:
            try:
                found = parse_json(row)
                self._take(found["custom_id"], found["response"]["status_code"] == 200, row)
            except (ValueError, TypeError, KeyError):
                continue

    def add(self, name: str, good: bool, row: bytes) -> None:
        """Keep a line; raises OSError."""
        self._file.append(row + b"\n")
        self._take(name, good, row)

    def _take(self, name: str, good: bool, row: bytes) -> None:
        self.lines.setdefault(name, (good, row))

    def joined(self, good: bool) -> bytes:
        """All lines of a kind."""
        return b"".join(row + b"\n" for kind, row in self.lines.values() if kind is good)

    def discard(self) -> None:
        """Their batch has ended."""
        self._file.discard()

    def close(self) -> None:
        """They stay for the next server."""
        self._file.close()
