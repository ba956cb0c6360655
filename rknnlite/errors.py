"""Typed errors, one per code of the vendor's C API.

Every error carries ``code`` (the number the C API and the vendor-compatible faces report) and a text that
names what failed, the numbers that clashed and what to do about it.
"""

from __future__ import annotations

__all__ = [
    "ERROR_NAMES",
    "BackendUnavailable",
    "ContextInvalid",
    "DeviceUnavailable",
    "DeviceUnmatch",
    "InputInvalid",
    "ModelInvalid",
    "ModelUnsupported",
    "OptimizationLevelUnmatch",
    "OutOfMemory",
    "OutputInvalid",
    "ParamInvalid",
    "PreCompiledModelUnmatch",
    "RknnError",
    "RunTimeout",
    "TargetPlatformUnmatch",
    "error_from_code",
]

ERROR_NAMES = {
    0: "RKNN_SUCC",
    -1: "RKNN_ERR_FAIL",
    -2: "RKNN_ERR_TIMEOUT",
    -3: "RKNN_ERR_DEVICE_UNAVAILABLE",
    -4: "RKNN_ERR_MALLOC_FAIL",
    -5: "RKNN_ERR_PARAM_INVALID",
    -6: "RKNN_ERR_MODEL_INVALID",
    -7: "RKNN_ERR_CTX_INVALID",
    -8: "RKNN_ERR_INPUT_INVALID",
    -9: "RKNN_ERR_OUTPUT_INVALID",
    -10: "RKNN_ERR_DEVICE_UNMATCH",
    -11: "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL",
    -12: "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION",
    -13: "RKNN_ERR_TARGET_PLATFORM_UNMATCH",
    -14: "RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE",
}
"""Code to name, spelt as the vendor's header spells them (misspellings included)."""


class RknnError(Exception):
    """Base of all errors of rknnlite; ``code`` is the vendor's number, ``name`` the vendor's word for it."""

    code = -1
    native_code: int | None = None
    """What a library with other numbers (librknn3_api) answered; None when no library was asked."""

    @property
    def name(self) -> str:
        """The vendor's name of the code, e.g. ``RKNN_ERR_FAIL``."""
        return ERROR_NAMES.get(self.code, "RKNN_ERR_FAIL")


class RunTimeout(RknnError):
    """A run did not finish in time."""

    code = -2


class DeviceUnavailable(RknnError):
    """The NPU, its device node or the permission to use it is missing."""

    code = -3


class BackendUnavailable(DeviceUnavailable):
    """No backend, or not the one that was asked for, can be used here; the text says why."""


class OutOfMemory(RknnError):
    """Memory for the model or a tensor could not be had."""

    code = -4


class ParamInvalid(RknnError):
    """An argument has an illegal value."""

    code = -5


class ModelInvalid(RknnError):
    """The file is not a usable RKNN model."""

    code = -6


class ModelUnsupported(ModelInvalid):
    """The file is a genuine model, but uses something that this backend cannot compute."""


class ContextInvalid(RknnError):
    """The context is closed, or in use by another thread."""

    code = -7


class InputInvalid(RknnError):
    """Number, rank, shape, type or values of the inputs do not fit the model."""

    code = -8


class OutputInvalid(RknnError):
    """An output buffer or the request for an output does not fit the model."""

    code = -9


class DeviceUnmatch(RknnError):
    """Runtime and driver versions do not go together."""

    code = -10


class PreCompiledModelUnmatch(RknnError):
    """A pre-compiled model does not go with this driver."""

    code = -11


class OptimizationLevelUnmatch(RknnError):
    """The optimisation level of the model does not go with this driver."""

    code = -12


class TargetPlatformUnmatch(RknnError):
    """The model, or the call, is meant for another SoC."""

    code = -13


_BY_CODE: dict[int, type[RknnError]] = {
    cls.code: cls
    for cls in (
        RknnError,
        RunTimeout,
        DeviceUnavailable,
        OutOfMemory,
        ParamInvalid,
        ModelInvalid,
        ContextInvalid,
        InputInvalid,
        OutputInvalid,
        DeviceUnmatch,
        PreCompiledModelUnmatch,
        OptimizationLevelUnmatch,
        TargetPlatformUnmatch,
    )
}


def error_from_code(code: int, text: str) -> RknnError:
    """Build the error that belongs to a code of the C API; an unknown code keeps its number."""
    error = _BY_CODE.get(code, RknnError)(text)
    if error.code != code:
        error.code = code
    return error
