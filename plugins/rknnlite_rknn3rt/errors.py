"""What the library's codes mean here: typed errors that name the call, the code and what to do."""

from __future__ import annotations

from rknnlite_backend.native_objects import Native
from rknnlite_backend.rknn_calls import CallErrors

from rknnlite.abi.rknn3_v104 import RKNN3Error
from rknnlite.errors import RKNN3_CODES
from rknnlite.log import logger

__all__ = ["Native", "call_error", "check", "check_or_warn"]

_ERRORS = CallErrors(RKNN3_CODES, ours=False)
call_error, check = _ERRORS.error, _ERRORS.check


def check_or_warn(function: str, code: int, detail: str = "") -> None:
    """As ``check``; the one code that only warns goes to the log."""
    if code == RKNN3Error.RKNN3_WARN_NPU_CORE_UNUSED:
        logger.warning("%s: the core mask names a core that the model does not use", function)
    else:
        check(function, code, detail)
