"""What the library's codes mean here: typed errors that name the call, the code and what to do."""

from __future__ import annotations

from rknnlite.abi.rknn3_v104 import RKNN3Error
from rknnlite.errors import (
    ContextInvalid,
    DeviceUnavailable,
    DeviceUnmatch,
    InputInvalid,
    ModelInvalid,
    OutOfMemory,
    OutputInvalid,
    ParamInvalid,
    RknnError,
    RunTimeout,
    TargetPlatformUnmatch,
)
from rknnlite.log import logger
from rknnlite.native.objects import Native

__all__ = ["Native", "call_error", "check", "check_or_warn"]

_ERRORS: dict[int, tuple[type[RknnError], str]] = {
    -1: (RknnError, "read the library's own lines above"),
    -2: (ParamInvalid, "an argument does not fit this model or this version of the library"),
    -3: (ModelInvalid, "convert the network again with a toolkit that fits this runtime"),
    -4: (ContextInvalid, "the context is gone; open the model again"),
    -5: (RknnError, "the task failed on the coprocessor; read the library's own lines above"),
    -6: (OutOfMemory, "close other contexts, or use a smaller model or context length"),
    -7: (RunTimeout, "the coprocessor did not answer in time; allow more time, or reset it"),
    -8: (InputInvalid, "compare the inputs with the model's input attributes"),
    -9: (OutputInvalid, "compare the output buffers with the model's output attributes"),
    -10: (DeviceUnavailable, "plug the coprocessor in, start its transfer proxy, and look for its device id"),
    -11: (DeviceUnmatch, "name a device that fits the model"),
    -12: (TargetPlatformUnmatch, "convert the network for this coprocessor"),
    -13: (DeviceUnavailable, "the link to the coprocessor broke; look at cable, driver and transfer proxy"),
    -14: (RknnError, "moving data to or from the coprocessor failed; look at the link"),
    -15: (ParamInvalid, "the key cannot be used for this model"),
    -16: (ModelInvalid, "the model could not be decrypted; is the key the right one?"),
    -17: (ContextInvalid, "stream weights after the model was initialised"),
    -18: (DeviceUnmatch, "make API library, transfer proxy and firmware the same version"),
}


def call_error(function: str, code: int, detail: str = "") -> RknnError:
    """The typed error of a C call that answered ``code``; ``native_code`` keeps the library's own number."""
    kind, remedy = _ERRORS.get(code, (RknnError, _ERRORS[-1][1]))
    try:
        name = RKNN3Error(code).name
    except ValueError:
        name = "unknown code"
    error = kind(f"{function} failed. error code: {name} ({code}); {detail or remedy}")
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
