"""The body of a request as a form of several parts (multipart/form-data), as files are sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Optional

from starlette.requests import Request

from .errors import ApiError, bad_request
from .request_body import Body, read_body

__all__ = ["Form", "parse_form", "read_form"]

_MOST_PARTS = 64
_MOST_HEAD = 8192  # bytes
_MOST_TEXT = 1 << 20  # bytes
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


@dataclass
class Form:
    """``texts`` by name, in their order; ``files`` likewise, and what they are called in ``names``."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[bytes]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)

    def file(self, name: str) -> bytes:
        """The one file of that name. Raises ApiError."""
        found = self.files.get(name, [])
        if len(found) != 1:
            raise bad_request(f"{len(found)} files are named {name}, must be one", name)
        return found[0]

    def body(self, numbers: Sequence[str] = (), flags: Sequence[str] = ()) -> Body:
        """The texts as the fields of an object: of ``numbers`` and ``flags`` what they say; ``NAME[]`` is a list NAME.

        Raises ApiError for a field that is there twice.
        """
        fields: dict[str, Any] = {}
        for name, values in self.texts.items():
            if name.endswith("[]"):
                fields[name[:-2]] = values
                continue
            if len(values) > 1:
                raise bad_request(f"{name} is there {len(values)} times", name)
            fields[name] = values[0]
        for name in numbers:
            fields[name] = _number(fields.get(name))
        for name in flags:
            given = fields.get(name)
            fields[name] = _FLAGS.get(str(given).lower(), given)
        return Body(fields)


def _number(given: Optional[str]) -> Any:
    """What it says; what is no number is refused as a field of that text."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


async def read_form(request: Request, limit: int, take: Callable[[int], None] = lambda count: None) -> Form:
    """The form that a request carries, at most ``limit`` bytes, for which ``take`` makes room. Raises ApiError."""
    kind = Message()
    kind["Content-Type"] = request.headers.get("content-type", "")
    boundary = kind.get_param("boundary")
    if kind.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise ApiError(415, "invalid_request_error", "the body must be multipart/form-data, with a file")
    return parse_form(await read_body(request, limit, take), boundary)


def parse_form(data: bytes, boundary: str) -> Form:
    """The parts between lines of the boundary. Raises ApiError."""
    if not _BOUNDARY.fullmatch(boundary):
        raise bad_request("the boundary of the form is none")
    line = b"--" + boundary.encode()
    form = Form()
    place = 0 if data.startswith(line) else data.find(b"\r\n" + line) + 2
    if place == 1:
        raise bad_request("the form has no parts")
    for _ in range(_MOST_PARTS + 1):
        place += len(line)
        if data.startswith(b"--", place):
            return form
        place = data.find(b"\r\n", place) + 2
        end = data.find(b"\r\n" + line, place - 2)
        if place == 1 or end < 0:
            raise bad_request("the form is cut: its last part does not end")
        _add(form, data, place, end)
        place = end + 2
    raise bad_request(f"the form has more than {_MOST_PARTS} parts")


def _add(form: Form, data: bytes, start: int, end: int) -> None:
    blank = data.find(b"\r\n\r\n", start, min(end, start + _MOST_HEAD))
    if blank < 0:
        raise bad_request("a part of the form has no head")
    head = Message()
    for row in data[start:blank].decode("utf-8", "replace").split("\r\n"):
        name, _, value = row.partition(":")
        if name.lower() == "content-disposition":
            head["Content-Disposition"] = value.strip()
    named = head.get_param("name", header="Content-Disposition")
    if not isinstance(named, str) or not named:
        raise bad_request("a part of the form has no name")
    body = data[blank + 4 : end]
    called = head.get_param("filename", header="Content-Disposition")
    if called is not None:
        form.files.setdefault(named, []).append(body)
        form.names.setdefault(named, []).append(called if isinstance(called, str) else "")
        return
    if len(body) > _MOST_TEXT:
        raise bad_request(f"{named[:80]} is {len(body)} bytes of text, must be at most {_MOST_TEXT}")
    try:
        form.texts.setdefault(named, []).append(body.decode())
    except UnicodeDecodeError:
        raise bad_request(f"{named[:80]} is no UTF-8") from None
