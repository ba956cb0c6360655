"""Errors on their way: which status they get, and what class they have again on the other side."""

from __future__ import annotations

import enum

from rknnlite import errors
from rknnlite.errors import RknnError

__all__ = ["CODE_KEY", "ERROR_KEY", "RETRY_KEY", "Status", "error_from", "kind_of_http", "status_of"]

ERROR_KEY = "rknnlite-error"
"""Trailing metadata of gRPC, and header of HTTP: the class of the error."""
CODE_KEY = "rknnlite-code"
"""The same for its number."""
RETRY_KEY = "retry-after"
"""Seconds after which there may be room."""


class Status(enum.Enum):
    """An outcome: number of gRPC, status of HTTP.

    Examples:
        >>> Status.FULL.grpc, Status.FULL.http
        ('RESOURCE_EXHAUSTED', 503)
    """

    INVALID = ("INVALID_ARGUMENT", 400)
    NO_KEY = ("UNAUTHENTICATED", 401)
    FORBIDDEN = ("PERMISSION_DENIED", 403)
    NOT_FOUND = ("NOT_FOUND", 404)
    TOO_LARGE = ("INVALID_ARGUMENT", 413)
    UNUSABLE = ("FAILED_PRECONDITION", 422)
    FULL = ("RESOURCE_EXHAUSTED", 503)
    AWAY = ("UNAVAILABLE", 503)
    LATE = ("DEADLINE_EXCEEDED", 504)
    NOT_HERE = ("UNIMPLEMENTED", 501)
    FAILED = ("INTERNAL", 500)

    def __init__(self, grpc: str, http: int) -> None:
        self.grpc, self.http = grpc, http


_STATUS: tuple[tuple[type[BaseException], Status], ...] = (
    (errors.InputInvalid, Status.INVALID),
    (errors.ParamInvalid, Status.INVALID),
    (errors.OutputInvalid, Status.INVALID),
    (errors.TargetPlatformUnmatch, Status.INVALID),
    (errors.ModelInvalid, Status.UNUSABLE),  # ModelUnsupported is one
    (errors.RunTimeout, Status.LATE),
    (errors.OutOfMemory, Status.FULL),
    (errors.ContextInvalid, Status.AWAY),
    (errors.DeviceUnavailable, Status.AWAY),  # BackendUnavailable is one
    (RknnError, Status.FAILED),
)


def status_of(error: BaseException) -> Status:
    """The status of an error of the library; FAILED for what nobody foresaw."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), Status.FAILED)


_KINDS = {
    400: errors.InputInvalid,
    401: errors.BackendUnavailable,
    403: errors.BackendUnavailable,
    404: errors.ParamInvalid,
    408: errors.RunTimeout,
    413: errors.InputInvalid,
    422: errors.ModelInvalid,
    429: errors.DeviceUnavailable,
    501: errors.BackendUnavailable,
    503: errors.DeviceUnavailable,
    504: errors.RunTimeout,
}


def kind_of_http(status: int) -> type[RknnError]:
    """The class of what has no other name than a status of HTTP: a missing key, an unknown model, a full queue.

    Examples:
        >>> kind_of_http(404).__name__, kind_of_http(503).__name__
        ('ParamInvalid', 'DeviceUnavailable')
    """
    return _KINDS.get(status, RknnError)


def error_from(name: str, text: str, code: int | None = None) -> RknnError:
    """The error that the other side raised, by the name of its class; a plain RknnError for an unknown one."""
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, RknnError)):
        kind = RknnError
    error: RknnError = kind(text, code=code)
    return error
