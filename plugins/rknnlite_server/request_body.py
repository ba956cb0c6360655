"""The body of a request: JSON of bounded size and depth, and its fields one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from starlette.requests import ClientDisconnect, Request

from rknnlite.files.json_text import parse_json

from .async_helpers import within
from .compression import decoded
from .errors import ApiError, bad_request

__all__ = ["Body", "read_body", "read_json"]

_SHOWN = 80
_LARGE = 1 << 18  # bytes of JSON; fewer take a few milliseconds
_MOST_VALUES = 1 << 20
BODY_SECONDS = 60.0
"""Time for a body to arrive."""


def _no_room(count: int) -> None:
    """Where nobody counts bytes."""


async def read_json(
    request: Request, limit: int, empty: bool = False, take: Callable[[int], None] = _no_room
) -> Body:
    """The object that a request carries; ``limit`` in bytes. With ``empty`` there may be none. Raises ApiError."""
    data = await read_body(request, limit, take)
    if empty and not data.strip():
        return Body({})
    try:
        value = _value(data) if len(data) < _LARGE else await asyncio.to_thread(_value, data)
    except ValueError as error:
        raise bad_request(f"the body is no JSON: {_cause(error)[:_SHOWN]}") from None
    if not isinstance(value, dict):
        raise bad_request(f"the body is {_kind(value)}, must be an object")
    return Body(value)


def _value(data: bytes) -> Any:
    """What a body says; of a large one in a thread, which others get their turn beside as long as it runs Python code."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES} values")
    if data.count(b"\\") > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES} escaped characters; send UTF-8")
    value = parse_json(data, takes_turns=len(data) >= _LARGE)
    if b"\\ud" in data or b"\\uD" in data:  # half of a character cannot be written anywhere
        json.dumps(value, ensure_ascii=False).encode()
    return value


async def read_body(request: Request, limit: int, take: Callable[[int], None] = _no_room) -> bytes:
    """The bytes of a request, decompressed, at most ``limit``, within ``BODY_SECONDS``. Raises ApiError.

    ``take`` is asked for room: for all that is announced before any of it is read, else for each part that comes.
    """
    declared = request.headers.get("content-length", "0")
    length = int(declared) if declared.isdigit() else 0
    if length > limit:
        raise _too_large(limit)
    take(length)
    try:
        data = await within(_data(request, limit, length, take), BODY_SECONDS)
    except ClientDisconnect:
        raise ApiError(
            400, "invalid_request_error", "the client went away before its request was complete"
        ) from None
    except asyncio.TimeoutError:
        raise ApiError(
            408, "invalid_request_error", f"the body was not complete within {BODY_SECONDS:g} s"
        ) from None
    whole = await decoded(data, request.headers.get("content-encoding", ""), limit)
    take(max(0, len(whole) - max(len(data), length)))
    return whole


async def _data(request: Request, limit: int, taken: int, take: Callable[[int], None]) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        if len(data) + len(chunk) > limit:
            raise _too_large(limit)
        more = len(data) + len(chunk) - taken
        if more > 0:
            take(more)
            taken += more
        data += chunk
    return bytes(data)


def _cause(error: Exception) -> str:
    return error.reason if isinstance(error, UnicodeError) else str(error)


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413, "invalid_request_error", f"the body is larger than {limit} bytes", code="body_too_large"
    )


class Body:
    """Typed access to an object; every complaint is an ApiError that names the field."""

    def __init__(self, fields: Mapping[str, Any], place: str = "") -> None:
        self.fields, self._place = fields, place

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.fields.get(name) is not None

    def name(self, name: str) -> str:
        """The field as clients write it."""
        return f"{self._place}.{name}" if self._place else name

    def text(self, name: str, default: str = "", choices: Sequence[str] = ()) -> str:
        """Text, one of ``choices`` if there are any."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(name, "text")
        if choices and value not in choices:
            raise self.wrong(name, f"one of {', '.join(choices)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """true or false."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number within bounds."""
        value = self.fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise self.wrong(name, f"a number in {low:g}..{high:g}")
        return float(value)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number within bounds."""
        value = self.fields.get(name)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not low <= value <= high
            or value != int(value)
        ):
            raise self.wrong(name, f"a whole number in {low}..{high}")
        return int(value)

    def items(self, name: str) -> Optional[list[Any]]:
        """A list; None where the field is not there."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Text or a list of texts, at most so many."""
        value = self.fields.get(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or len(values) > most or not all(isinstance(v, str) for v in values):
            raise self.wrong(name, f"text or a list of at most {most} texts")
        return tuple(values)

    def object(self, name: str) -> Body:
        """An object; an empty one where the field is not there."""
        value = self.fields.get(name)
        if value is None:
            return Body({}, self.name(name))
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Body(value, self.name(name))

    def wrong(self, name: str, wanted: str) -> ApiError:
        """The complaint about a field."""
        text = ""
        for piece in json.JSONEncoder(default=str).iterencode(self.fields.get(name)):
            text += piece
            if len(text) > _SHOWN:  # of a million values the first will do
                break
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        return bad_request(f"{self.name(name)} is {shown}, must be {wanted}", self.name(name))


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", type(None): "null"}.get(type(value), type(value).__name__)
