"""Errors as gRPC tells them: a status, a text, and trailing metadata that names the class of the error."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NoReturn

import grpc
from rknnlite_protocol.error_status import CODE_KEY, ERROR_KEY, RETRY_KEY, kind_of_http, status_of

from rknnlite.errors import RknnError

from ..errors import ApiError, as_api_error

__all__ = ["abort", "logged_outcome", "outcome", "status_name"]

logger = logging.getLogger("rknnlite.server")
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_LONGEST = 2000  # characters of a text: clients take 8 KiB of trailing metadata


def outcome(error: BaseException) -> tuple[Any, str, tuple[tuple[str, str], ...]]:
    """Status, text and trailing metadata of an error."""
    if isinstance(error, RknnError):
        metadata = ((ERROR_KEY, type(error).__name__), (CODE_KEY, str(error.code)))
        status = status_of(error).grpc
        if status in ("RESOURCE_EXHAUSTED", "UNAVAILABLE"):
            metadata += ((RETRY_KEY, "1"),)
        return getattr(grpc.StatusCode, status), _short(str(error)), metadata
    if isinstance(error, asyncio.TimeoutError):
        error = ApiError(504, "timeout_error", "the time for the call is over")
    problem = as_api_error(error)
    kind = kind_of_http(problem.status)
    metadata = ((ERROR_KEY, kind.__name__), (CODE_KEY, str(kind.code)))
    wait = problem.headers.get("Retry-After")
    if wait:
        metadata += ((RETRY_KEY, wait),)
    full = problem.status == 503 and problem.kind == "rate_limit_error"
    name = "RESOURCE_EXHAUSTED" if full else _CODES.get(problem.status, "INTERNAL")
    return getattr(grpc.StatusCode, name), _short(problem.message), metadata


def logged_outcome(error: BaseException) -> tuple[Any, str, tuple[tuple[str, str], ...]]:
    """``outcome``; what nobody foresaw goes to the log."""
    if not isinstance(error, (ApiError, RknnError, asyncio.TimeoutError)):
        logger.error("gRPC: %s", error, exc_info=error)
    return outcome(error)


async def abort(context: Any, error: BaseException) -> NoReturn:
    """End a call with an error."""
    code, text, metadata = logged_outcome(error)
    await context.abort(code, text, metadata)
    raise AssertionError


def status_name(context: Any, failed: bool) -> str:
    """The name of a call's status; a call that was given up has none yet."""
    code = context.code()
    if isinstance(code, int):
        code = next((known for known in grpc.StatusCode if known.value[0] == code), None)
    if code is None or (failed and code is grpc.StatusCode.OK):
        return "CANCELLED" if failed else "OK"
    return str(code.name)


def _short(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
