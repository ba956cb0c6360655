"""What gRPC reports, as the errors that the board raised, or as typed ones that say what is wrong with the way there."""

from __future__ import annotations

from typing import Any

import grpc
from rknnlite_protocol.error_status import CODE_KEY, ERROR_KEY, error_from

from rknnlite.errors import (
    ContextInvalid,
    DeviceUnavailable,
    InputInvalid,
    OutOfMemory,
    RknnError,
    RunTimeout,
)

from .boards import Board

__all__ = ["NotThere", "error_of", "is_away", "is_busy", "typed"]

_CODE = grpc.StatusCode
_LONGEST = 2000
_CERTIFICATE = "is the server's certificate the one that ca in remotes signed, still valid, and for this name (server_name)?"
_AWAY = "is the board on, its server running (rknnlite serve), the address right?"


class NotThere(RknnError):
    """The board does not have the model (any more); it is sent and asked again."""


def is_away(error: Any) -> bool:
    """Whether nobody answered, or the answer broke off."""
    return error.code() is _CODE.UNAVAILABLE


def is_busy(error: Any) -> bool:
    """Whether the board has no room at the moment."""
    return error.code() is _CODE.RESOURCE_EXHAUSTED and _told(error, ERROR_KEY) != OutOfMemory.__name__


def error_of(error: Any, board: Board, doing: str) -> RknnError:
    """The error that stands for a failed call.

    Args:
        error: a ``grpc.RpcError``.
        board: the board.
        doing: what was asked of it.
    """
    label = board.label
    code, text = error.code(), (error.details() or "")[:_LONGEST]
    kind = _told(error, ERROR_KEY)
    if code is _CODE.NOT_FOUND:
        return NotThere(f"board {label}: {text}")
    if kind is not None and code is not _CODE.UNAUTHENTICATED:
        return typed(kind, f"board {label}: {text}", _told(error, CODE_KEY))
    where = f"board {label}: {doing} failed"
    if code is _CODE.UNAVAILABLE:
        hint = _CERTIFICATE if _is_about_encryption(text) else _AWAY
        # of several numbers of a host, gRPC tells what the last one said
        if board.encrypted and hint is _AWAY:
            hint = f"{_AWAY} If so: {_CERTIFICATE}"
        return DeviceUnavailable(f"{where}: {text or 'nobody answers'}; {hint}")
    if code is _CODE.DEADLINE_EXCEEDED:
        return RunTimeout(
            f"{where}: no answer in time; give more time (timeout_ms), or look whether the board is busy"
        )
    if code is _CODE.UNAUTHENTICATED:
        return DeviceUnavailable(f"{where}: {text}; give the server's key in remotes (key or key_file)")
    if code is _CODE.PERMISSION_DENIED:
        return DeviceUnavailable(f"{where}: {text}")
    if code is _CODE.UNIMPLEMENTED:
        return DeviceUnavailable(
            f"{where}: what answers there knows no such call ({text}); is it the gRPC port of rknnlite serve, and is that "
            "as new as this?"
        )
    if code is _CODE.RESOURCE_EXHAUSTED:
        if "larger than max" in text:
            return InputInvalid(f"{where}: {text}; the server takes larger requests with --max-body")
        return DeviceUnavailable(f"{where}: {text}; try again later, or let more workers run there")
    if code is _CODE.INVALID_ARGUMENT:
        return InputInvalid(f"{where}: {text}")
    if code is _CODE.CANCELLED:
        return ContextInvalid(f"{where}: it was given up")
    if code is _CODE.UNKNOWN:
        return DeviceUnavailable(
            f"{where}: {text or 'no answer that makes sense'}; is it the gRPC port of rknnlite serve?"
        )
    return RknnError(f"{where}: {text or code.name}")


def typed(kind: str, text: str, code: str | None = None) -> RknnError:
    """The error of that class."""
    number = int(code) if code is not None and code.lstrip("-").isdigit() and len(code) < 10 else None
    return error_from(kind, text, number)


def _told(error: Any, key: str) -> str | None:
    for name, value in error.trailing_metadata() or ():
        if name == key:
            return str(value)
    return None


def _is_about_encryption(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in ("certificate", "handshake", "ssl", "tls"))
