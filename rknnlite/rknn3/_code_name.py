"""The RKNN3 status code that an error of the core stands for, by name."""

from __future__ import annotations

from ..errors import RKNN3_CODES, RknnError

__all__ = ["code_name"]

_NAMES = {row.error: row.name for row in reversed(RKNN3_CODES) if row.error is not None}


def code_name(error: BaseException) -> str:
    """``RKNN3_ERR_INPUT_INVALID``, ...; ``RKNN3_ERR_FAIL`` for what has no code of its own."""
    return next((_NAMES[kind] for kind in type(error).__mro__ if kind in _NAMES), _NAMES[RknnError])
