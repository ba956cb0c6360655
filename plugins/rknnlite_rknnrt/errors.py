"""What the library's codes mean here: typed errors that name the call, the code and what to do."""

from __future__ import annotations

import rknnlite.native.objects
from rknnlite.errors import ERROR_NAMES, RKNNRT_CODES, RknnError, error_from_code

__all__ = ["Native", "call_error", "check"]

_REMEDIES = {row.code: row.remedy for row in RKNNRT_CODES if row.remedy}


def call_error(function: str, code: int, detail: str = "") -> RknnError:
    """The typed error of a C call that answered ``code``: which call, which code, what to do."""
    name = ERROR_NAMES.get(code, f"unknown code {code}")
    remedy = detail or _REMEDIES.get(code, _REMEDIES[RknnError.code])
    return error_from_code(code, f"{function} failed. error code: {name} ({code}); {remedy}")


def check(function: str, code: int, detail: str = "") -> None:
    """Raise the typed error unless ``code`` is 0."""
    if code:
        raise call_error(function, code, detail)


class Native(rknnlite.native.objects.Native):
    """An object of librknnrt; one that cannot be given back is logged with what its code means."""

    __slots__ = ()
    explain = staticmethod(call_error)
