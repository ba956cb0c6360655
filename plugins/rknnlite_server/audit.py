"""The audit: a line for each call that changes what the server offers, whoever made it and however it ended.

A line is a JSON object: ``time`` (UTC), ``key`` (its name; empty where there are no keys or none fits), ``client`` (address),
``call``, ``status`` (of HTTP, or gRPC's word) and ``seconds``. It goes to the logger ``rknnlite.server.audit``, and to a file where
one was named.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
import threading
import time

from rknnlite.errors import ParamInvalid
from rknnlite.files.writing import GrowingFile

__all__ = ["ADMINISTRATIVE", "Audit", "is_administrative"]

logger = logging.getLogger("rknnlite.server.audit")
_CALLS = re.compile(
    r"(POST|DELETE) (/v2/repository/models/[^/]+/(load|unload)|/models/(load|unload)|/api/(pull|push|create|copy|delete|blobs/.*))"
    r"|/inference\.GRPCInferenceService/RepositoryModel(Load|Unload)|/rknnlite\.\w+/Upload"
)
ADMINISTRATIVE = "rknnlite.administrative"
"""Of a request's scope: it changes what the server offers, though its address does not tell."""
_LONGEST = 300  # characters of a call
_PATIENCE = 0.5


def is_administrative(call: str) -> bool:
    """Whether a call, ``METHOD /path`` or gRPC's ``/service/method``, changes what the server offers."""
    return _CALLS.fullmatch(call) is not None


class Audit:
    """Writes lines, from any thread; ``path`` may be empty. Raises ParamInvalid for a file that cannot be written."""

    def __init__(self, path: str = "") -> None:
        self._path, self._lock = path, threading.Lock()
        self._lost = 0  # lines since the file could be written
        if path:
            try:
                self._append(b"")
            except OSError as error:
                raise ParamInvalid(f"--audit-file {path}: {error.strerror}") from None
            except ImportError:
                raise ParamInvalid("--audit-file: this system has no locks on files") from None

    def write(self, key: str, client: str, call: str, status: int | str, seconds: float) -> None:
        """One line. The file is opened for each, so that it may be moved away."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps(
            {
                "time": now.replace("+00:00", "Z"),
                "key": key,
                "client": client,
                "call": call[:_LONGEST],
                "status": status,
                "seconds": round(seconds, 3),
            }
        )
        logger.info("%s", line)
        if self._path:
            self._keep(line)

    def _keep(self, line: str) -> None:
        """The server goes on without a file that cannot be written: the problem is told once, and the log has the lines."""
        lost = self._lost
        try:
            self._append((b"\n" if lost else b"") + line.encode() + b"\n")  # half a line may be there
        except OSError as error:
            self._lost += 1
            if not lost:
                logger.error(
                    "--audit-file %s: %s; lines are in this log meanwhile", self._path, error.strerror
                )
            logger.warning("not in the file: %s", line)
            return
        self._lost = 0
        if lost:
            logger.error("--audit-file %s is written again; %d lines are missing in it", self._path, lost)

    def _append(self, data: bytes) -> None:
        with self._lock:
            file = self._opened()
            try:
                file.append(data)
            finally:
                file.close()

    def _opened(self) -> GrowingFile:
        """Raises OSError, also when another server writes to it for as long as ``_PATIENCE`` seconds."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return GrowingFile(self._path)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.001)
