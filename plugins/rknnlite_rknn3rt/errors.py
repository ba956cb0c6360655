"""What the library's codes mean here: typed errors that name the call, the code and what to do."""

from __future__ import annotations

from rknnlite.abi.rknn3_v104 import RKNN3Error
from rknnlite.errors import RKNN3_CODES, RknnError
from rknnlite.log import logger
from rknnlite.native.objects import Native

__all__ = ["Native", "call_error", "check", "check_or_warn"]

_ERRORS = {row.code: row for row in RKNN3_CODES if row.error is not None}
_ANY = _ERRORS[RKNN3Error.RKNN3_ERR_FAIL]


def call_error(function: str, code: int, detail: str = "") -> RknnError:
    """The typed error of a C call that answered ``code``; ``native_code`` keeps the library's own number."""
    row = _ERRORS.get(code, _ANY)
    try:
        name = RKNN3Error(code).name
    except ValueError:
        name = "unknown code"
    error = row.error(f"{function} failed. error code: {name} ({code}); {detail or row.remedy}")
    error.native_code = code
    return error


def check(function: str, code: int, detail: str = "") -> None:
    """Raise the typed error unless ``code`` is 0."""
    if code:
        raise call_error(function, code, detail)


def check_or_warn(function: str, code: int, detail: str = "") -> None:
    """As ``check``; the one code that only warns goes to the log."""
    if code == RKNN3Error.RKNN3_WARN_NPU_CORE_UNUSED:
        logger.warning("%s: the core mask names a core that the model does not use", function)
    else:
        check(function, code, detail)
