"""Names of the RKNN3 status codes that errors of the core stand for."""

from __future__ import annotations

from .. import errors
from ..abi.rknn3_enums import RKNN3Error

__all__ = ["code_name"]

_CODES: dict[type[BaseException], RKNN3Error] = {
    errors.ParamInvalid: RKNN3Error.RKNN3_ERR_ARGUMENT_INVALID,
    errors.ModelInvalid: RKNN3Error.RKNN3_ERR_MODEL_INVALID,
    errors.ContextInvalid: RKNN3Error.RKNN3_ERR_CTX_INVALID,
    errors.OutOfMemory: RKNN3Error.RKNN3_ERR_OUT_OF_MEMORY,
    errors.RunTimeout: RKNN3Error.RKNN3_ERR_TIMEOUT,
    errors.InputInvalid: RKNN3Error.RKNN3_ERR_INPUT_INVALID,
    errors.OutputInvalid: RKNN3Error.RKNN3_ERR_OUTPUT_INVALID,
    errors.DeviceUnavailable: RKNN3Error.RKNN3_ERR_DEVICE_UNAVAILABLE,
    errors.DeviceUnmatch: RKNN3Error.RKNN3_ERR_DEVICE_UNMATCH,
    errors.TargetPlatformUnmatch: RKNN3Error.RKNN3_ERR_TARGET_PLATFORM_UNMATCH,
}


def code_name(error: BaseException) -> str:
    """``RKNN3_ERR_INPUT_INVALID``, ...; ``RKNN3_ERR_FAIL`` for what has no code of its own."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind].name
    return RKNN3Error.RKNN3_ERR_FAIL.name
