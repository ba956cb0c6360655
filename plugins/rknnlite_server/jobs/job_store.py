"""The folder of files and batches, which outlives the server: what was not finished goes on with the next one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Optional

from rknnlite_programs.buildcache import make_private, writable_by_others

from rknnlite.errors import ParamInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import open_file
from rknnlite.files.writing import GrowingFile, write_file

from .batch import ENDED, Batch
from .kept_files import KeptFiles, records

__all__ = ["Answers", "JobStore"]

_MOST_BATCHES = 10_000


class JobStore:
    """Files and batches of one server at a time. Raises ParamInvalid for an unusable folder."""

    def __init__(self, folder: str, limit: int, days: float = 0) -> None:
        """``limit`` in bytes of files; what ended or came more than ``days`` ago is removed, never where that is 0."""
        self._folder, self._days = Path(folder), days
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
        self._sweep()

    def close(self) -> None:
        """Let another server have the folder."""
        self._lock.close()

    def of(self, owner: str) -> list[Batch]:
        """All of an owner, the newest first."""
        found = [batch for batch in self.all() if batch.owner == owner]
        return sorted(found, key=lambda batch: (batch.created_at, batch.id), reverse=True)

    def get(self, owner: str, identity: str) -> Optional[Batch]:
        """A batch of that owner, None where there is none."""
        batch = self._batches.get(identity)
        return batch if batch is not None and batch.owner == owner else None

    def all(self) -> list[Batch]:
        """Those of all owners."""
        return list(self._batches.values())

    def open(self) -> list[Batch]:
        """Those that have not ended, the oldest first."""
        found = [batch for batch in self.all() if batch.status not in ENDED]
        return sorted(found, key=lambda batch: (batch.created_at, batch.id))

    def save(self, batch: Batch) -> None:
        """Keep a batch as it is now; raises OSError."""
        self._write(batch)
        self._batches[batch.id] = batch

    def end(self, batch: Batch, status: str, answers: Answers) -> None:
        """Keep a batch that has ended, which is seen once nothing is left to do for it; raises OSError."""
        ended = replace(batch, times=dict(batch.times))
        ended.enter(status)
        self._write(ended)
        answers.discard()
        batch.times, batch.status = ended.times, ended.status

    def _write(self, batch: Batch) -> None:
        write_file(self._folder / f"{batch.id}.json", json.dumps(asdict(batch)).encode(), 0o600)

    def _sweep(self) -> None:
        """What a server that was killed left half done."""
        for path in self._folder.glob("*.part"):
            batch = self._batches.get(path.stem)
            if batch is None or batch.status in ENDED:
                path.unlink()

    def tidy(self) -> None:
        """Remove what has been there for too long, and the oldest batches that ended where there are too many."""
        before = time.time() - self._days * 86400 if self._days else 0.0
        ended = sorted(
            (batch for batch in self.all() if batch.ended_at is not None),
            key=lambda batch: (batch.ended_at, batch.id),
        )
        many = max(0, len(self._batches) - _MOST_BATCHES)
        for number, batch in enumerate(ended):
            if number < many or (batch.ended_at or 0) < before:
                self._batches.pop(batch.id, None)
                for name in (f"{batch.id}.json", f"{batch.id}.part"):
                    (self._folder / name).unlink(missing_ok=True)
        used = {
            name
            for batch in self.all()
            for name in (batch.input_file_id, batch.output_file_id, batch.error_file_id)
        }
        for file in self.files.all():
            if file.created_at < before and file.id not in used:
                self.files.remove(file)

    def answers(self, batch: Batch) -> Answers:
        """What a batch has so far."""
        return Answers(self._folder / f"{batch.id}.part")


class Answers:
    """The answers of a batch as they come, a line each; a line that was cut off is none.

    They lie in a file: embeddings of many texts have no room in memory.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, GrowingFile(path)
        self._torn = False  # whether the file ends with a part of a line
        self.lines: dict[str, bool] = {}
        """By ``custom_id``: whether it is an answer or an error."""
        self._places: dict[str, tuple[int, int]] = {}
        start = 0
        with open_file(path) as kept:
            for row in kept:
                self._torn = not row.endswith(b"\n")
                if not self._torn:
                    self._take(start, row)
                start += len(row)

    def add(self, name: str, good: bool, row: bytes) -> None:
        """Keep a line; raises OSError."""
        if self._torn:
            self._file.append(b"\n")
            self._torn = False
        start, self._torn = self._file.size, True
        self._file.append(row + b"\n")
        self._torn = False
        self._put(name, good, start, len(row) + 1)

    def _take(self, start: int, row: bytes) -> None:
        """A line of an earlier server."""
        try:
            found = parse_json(row)
            self._put(found["custom_id"], found["response"]["status_code"] == 200, start, len(row))
        except (ValueError, TypeError, KeyError):
            return

    def _put(self, name: str, good: bool, start: int, size: int) -> None:
        if name not in self.lines:
            self.lines[name], self._places[name] = good, (start, size)

    def joined(self, good: bool) -> Iterator[bytes]:
        """All lines of a kind; raises OSError."""
        with open_file(self._path) as file:
            for name, kind in self.lines.items():
                if kind is good:
                    start, size = self._places[name]
                    file.seek(start)
                    yield file.read(size)

    def discard(self) -> None:
        """Their batch has ended."""
        self._file.discard()

    def close(self) -> None:
        """They stay for the next server."""
        self._file.close()
