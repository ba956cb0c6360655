"""A batch: many requests in a file, one a line, whose answers come in a file too."""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite.errors import shown
from rknnlite.files.json_text import parse_json

__all__ = ["ENDED", "ENDPOINTS", "Batch", "Line", "lines_of"]

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
"""Routes that lines may ask."""
ENDED = frozenset({"failed", "completed", "expired", "cancelled"})
"""States that do not change any more."""
WINDOW = 86400
"""Seconds in which a batch is done, or expires."""
_MOST_LINES = 50_000
_MOST_ERRORS = 100
_STATES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


@dataclass
class Batch:
    """``status`` is OpenAI's word; ``times`` tells when each state was reached, in seconds since 1970."""

    id: str
    owner: str
    endpoint: str
    input_file_id: str
    created_at: int
    metadata: Optional[dict[str, str]] = None
    status: str = "validating"
    times: dict[str, int] = field(default_factory=dict)
    total: int = 0
    completed: int = 0
    failed: int = 0
    output_file_id: Optional[str] = None
    error_file_id: Optional[str] = None
    errors: list[dict[str, Any]] = field(default_factory=list)

    @property
    def expires_at(self) -> int:
        """In seconds since 1970."""
        return self.created_at + WINDOW

    @property
    def ended_at(self) -> Optional[int]:
        """When it ended, in seconds since 1970; None as long as it has not."""
        return self.times.get(self.status, self.created_at) if self.status in ENDED else None

    def enter(self, status: str) -> None:
        """Another state."""
        self.status = status
        self.times[status] = int(time.time())

    @property
    def object(self) -> dict[str, Any]:
        """As OpenAI's API tells of it."""
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            **{f"{state}_at": self.times.get(state) for state in _STATES},
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "metadata": self.metadata,
        }


@dataclass(frozen=True)
class Line:
    """A request; ``body`` is JSON."""

    custom_id: str
    body: bytes


def lines_of(content: bytes, endpoint: str) -> tuple[list[Line], list[dict[str, Any]]]:
    """The requests of a file, and what is wrong with it, as OpenAI's API tells of that."""
    lines: dict[str, Line] = {}
    errors: list[dict[str, Any]] = []
    count = 0
    for number, row in enumerate(io.BytesIO(content), 1):
        if not row.strip():
            continue
        count += 1
        if count > _MOST_LINES:
            return [], [_problem("too_many_requests", f"more than {_MOST_LINES} requests")]
        try:
            line = _line(row, endpoint)
            if line.custom_id in lines:
                raise ValueError(f"custom_id {line.custom_id[:80]!r} is there before")
            lines[line.custom_id] = line
        except ValueError as error:
            errors.append(_problem("invalid_request", shown(error), number))
            if len(errors) == _MOST_ERRORS:
                break
    if not count:
        errors.append(_problem("empty_file", "the file has no requests"))
    return list(lines.values()), errors


def _line(row: bytes, endpoint: str) -> Line:
    """Raises ValueError."""
    found = parse_json(row)
    if not isinstance(found, dict):
        raise ValueError("a line must be an object")
    name, body = found.get("custom_id"), found.get("body")
    if not isinstance(name, str) or not 0 < len(name) <= 512:
        raise ValueError("custom_id must be text of 1..512 characters")
    if found.get("method") != "POST":
        raise ValueError("method must be POST")
    if found.get("url") != endpoint:
        raise ValueError(f"url must be {endpoint}, as the batch says")
    if not isinstance(body, dict):
        raise ValueError("body must be an object")
    if body.get("stream"):
        raise ValueError("stream cannot be had in a batch")
    return Line(name, json.dumps(body).encode())


def _problem(code: str, message: str, line: Optional[int] = None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": None, "line": line}
