"""What the library's codes mean here: typed errors that name the call, the code and what to do."""

from __future__ import annotations

import rknnlite_backend.native_objects
from rknnlite_backend.rknn_calls import CallErrors

from rknnlite.errors import RKNNRT_CODES

__all__ = ["Native", "call_error", "check"]

_ERRORS = CallErrors(RKNNRT_CODES)
call_error, check = _ERRORS.error, _ERRORS.check


class Native(rknnlite_backend.native_objects.Native):
    """An object of librknnrt; one that cannot be given back is logged with what its code means."""

    __slots__ = ()
    explain = staticmethod(call_error)
