"""Typed errors, one per code of the vendor's C API.

Every error carries ``code`` (the number the C API and the vendor-compatible faces report) and a text that
names what failed, the numbers that clashed and what to do about it. What a code of either vendor library means
stands in one row, in ``RKNNRT_CODES`` or ``RKNN3_CODES``.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

__all__ = [
    "ERROR_NAMES",
    "RKNN3_CODES",
    "RKNNRT_CODES",
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
    "VendorCode",
    "error_from_code",
    "plain",
    "shown",
    "visible",
]


_SHOWN = 100
_NUMBERED = re.compile(r"""\[Errno -?\d+\] (?:([^\n]*?): ('[^'\n]*'|"[^"\n]*")(?=[,);]|$))?""", re.MULTILINE)
_LONGEST = 5500  # characters of a message about a file: one that names a path, of 4096 at most, stays whole
_KEPT = 1600


def visible(text: str) -> str:
    """Names of files, tensors and everybody else's in messages: control characters (but line feed and tab) as escapes.

    So are halves of characters, which no stream can write, and those that turn the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode("ascii") if _steers(c) else c for c in text)


def one_line(text: str) -> str:
    """``visible`` for what stands in a line with other things, as cells of a table do: line feeds are escapes, too."""
    return visible(text).replace("\n", "\\n")


def paragraph(text: str) -> str:
    """``visible`` for a message: lines behind the first are indented, so none that a name begins looks like one of ours."""
    return visible(text).replace("\n", "\n  ")


def plain(text: str) -> str:
    """Without the number of the system's error, and a path behind it that the text says elsewhere."""

    def said(found: re.Match[str]) -> str:
        what, path = found[1] or "", found[2] or "''"
        return what if text.count(path[1:-1]) > 1 or len(path) == 2 else f"{what}: {path[1:-1]}"

    return _NUMBERED.sub(said, text) if "[Errno " in text else text


def _steers(char: str) -> bool:
    import unicodedata  # for the few texts that are not printable

    turns = "\u202a" <= char <= "\u202e" or "\u2066" <= char <= "\u2069"
    return char not in "\n\t" and (turns or unicodedata.category(char) in ("Cc", "Cs"))


def shown(value: object, most: int = _SHOWN) -> str:
    """A value from a file as messages show it: never long, and always text."""
    try:
        text = " ".join((str(value) if isinstance(value, Exception) else repr(value)).split())
        text = text.encode("utf-8", "backslashreplace").decode()
    except Exception:  # numbers of thousands of digits, lists without end
        return f"a {type(value).__name__} beyond all bounds"
    return text if len(text) <= most else f"{text[:most]}..."


class RknnError(Exception):
    """Base of all errors of rknnlite; ``code`` is the vendor's number, ``name`` the vendor's word for it.

    Examples:
        >>> try:
        ...     rknnlite.open("no_such_file.rknn")
        ... except RknnError as error:
        ...     print(type(error).__name__, error.code)
        ModelInvalid -6
    """

    code: int
    """Of the class, as ``RKNNRT_CODES`` gives it, which also sets it; or what the error was raised with."""
    native_code: int | None = None
    """What a library with other numbers (librknn3_api) answered; None when no library was asked."""

    def __init__(self, *args: object, code: int | None = None) -> None:
        """``code``: where the vendor's library answers another number than that of the class."""
        super().__init__(*args)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        """The message, in which no name can drive a terminal or begin a line."""
        return paragraph(plain(super().__str__()))

    @property
    def name(self) -> str:
        """The vendor's name of the code, e.g. ``RKNN_ERR_FAIL``."""
        return ERROR_NAMES.get(self.code, "RKNN_ERR_FAIL")


class RunTimeout(RknnError):
    """A run did not finish in time."""


class DeviceUnavailable(RknnError):
    """The NPU, its device node or the permission to use it is missing."""


class BackendUnavailable(DeviceUnavailable):
    """No backend, or not the one that was asked for, can be used here; the text says why."""


class OutOfMemory(RknnError):
    """Memory for the model or a tensor could not be had."""


class ParamInvalid(RknnError):
    """An argument has an illegal value."""


class ModelInvalid(RknnError):
    """The file is not a usable RKNN model."""

    def __str__(self) -> str:
        """The message; without its middle when it is long, as names in a damaged file can be."""
        text = super().__str__()
        return text if len(text) <= _LONGEST else f"{text[: _KEPT // 2]} ... {text[-_KEPT // 2 :]}"


class ModelUnsupported(ModelInvalid):
    """The file is a genuine model, but uses something that this backend cannot compute."""


class ContextInvalid(RknnError):
    """The context is closed, or in use by another thread."""


class InputInvalid(RknnError):
    """Number, rank, shape, type or values of the inputs do not fit the model."""


class OutputInvalid(RknnError):
    """An output buffer or the request for an output does not fit the model."""


class DeviceUnmatch(RknnError):
    """Runtime and driver versions do not go together."""


class PreCompiledModelUnmatch(RknnError):
    """A pre-compiled model does not go with this driver."""


class OptimizationLevelUnmatch(RknnError):
    """The optimisation level of the model does not go with this driver."""


class TargetPlatformUnmatch(RknnError):
    """The model, or the call, is meant for another SoC."""


class VendorCode(NamedTuple):
    """A status code of a vendor library: its number, its name in the header, what it is here, and what to do about it.

    ``error`` None: no error. Of several codes with one class the first is that class's own. ``since`` is the version
    of the library that brought the code.

    Examples:
        >>> RKNNRT_CODES[2].name, RKNNRT_CODES[2].error.__name__
        ('RKNN_ERR_TIMEOUT', 'RunTimeout')
    """

    code: int
    name: str
    error: Optional[type[RknnError]]
    remedy: str = ""
    since: str = "1.0.0"


RKNNRT_CODES = (
    VendorCode(0, "RKNN_SUCC", None),
    VendorCode(-1, "RKNN_ERR_FAIL", RknnError, "set RKNN_LOG_LEVEL=4 and read the library's own lines"),
    VendorCode(-2, "RKNN_ERR_TIMEOUT", RunTimeout,
               "the NPU did not answer in time; allow more time, or look into dmesg for a reset of the NPU"),
    VendorCode(-3, "RKNN_ERR_DEVICE_UNAVAILABLE", DeviceUnavailable,
               "look whether the NPU's device node is there and open to you (groups render and video)"),
    VendorCode(-4, "RKNN_ERR_MALLOC_FAIL", OutOfMemory, "close other contexts, or use a smaller model"),
    VendorCode(-5, "RKNN_ERR_PARAM_INVALID", ParamInvalid,
               "an argument does not fit this model or this version of the library"),
    VendorCode(-6, "RKNN_ERR_MODEL_INVALID", ModelInvalid,
               "convert the network again with a toolkit that fits this runtime"),
    VendorCode(-7, "RKNN_ERR_CTX_INVALID", ContextInvalid, "the context is gone; open the model again"),
    VendorCode(-8, "RKNN_ERR_INPUT_INVALID", InputInvalid, "compare the inputs with the model's input attributes"),
    VendorCode(-9, "RKNN_ERR_OUTPUT_INVALID", OutputInvalid,
               "compare the output buffers with the model's output attributes"),
    VendorCode(-10, "RKNN_ERR_DEVICE_UNMATCH", DeviceUnmatch,
               "update driver and runtime so that they fit each other"),
    VendorCode(-11, "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL", PreCompiledModelUnmatch,
               "convert the network again for this driver"),
    VendorCode(-12, "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION", OptimizationLevelUnmatch,
               "convert the network again for this driver"),
    VendorCode(-13, "RKNN_ERR_TARGET_PLATFORM_UNMATCH", TargetPlatformUnmatch,
               "this board's SoC cannot do that; convert the network for it, or leave the call out"),
    VendorCode(-14, "RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE", None),
)  # fmt: skip
"""librknnrt's, spelt as the vendor's header spells them (misspellings included). These are the codes of our classes."""

RKNN3_CODES = (
    VendorCode(0, "RKNN3_SUCCESS", None),
    VendorCode(-1, "RKNN3_ERR_FAIL", RknnError, "read the library's own lines above"),
    VendorCode(-2, "RKNN3_ERR_ARGUMENT_INVALID", ParamInvalid,
               "an argument does not fit this model or this version of the library"),
    VendorCode(-3, "RKNN3_ERR_MODEL_INVALID", ModelInvalid,
               "convert the network again with a toolkit that fits this runtime"),
    VendorCode(-4, "RKNN3_ERR_CTX_INVALID", ContextInvalid, "the context is gone; open the model again"),
    VendorCode(-5, "RKNN3_ERR_RUN_TASK_FAILED", RknnError,
               "the task failed on the coprocessor; read the library's own lines above"),
    VendorCode(-6, "RKNN3_ERR_OUT_OF_MEMORY", OutOfMemory,
               "close other contexts, or use a smaller model or context length"),
    VendorCode(-7, "RKNN3_ERR_TIMEOUT", RunTimeout,
               "the coprocessor did not answer in time; allow more time, or reset it"),
    VendorCode(-8, "RKNN3_ERR_INPUT_INVALID", InputInvalid, "compare the inputs with the model's input attributes"),
    VendorCode(-9, "RKNN3_ERR_OUTPUT_INVALID", OutputInvalid,
               "compare the output buffers with the model's output attributes"),
    VendorCode(-10, "RKNN3_ERR_DEVICE_UNAVAILABLE", DeviceUnavailable,
               "plug the coprocessor in, start its transfer proxy, and look for its device id"),
    VendorCode(-11, "RKNN3_ERR_DEVICE_UNMATCH", DeviceUnmatch, "name a device that fits the model"),
    VendorCode(-12, "RKNN3_ERR_TARGET_PLATFORM_UNMATCH", TargetPlatformUnmatch,
               "convert the network for this coprocessor"),
    VendorCode(-13, "RKNN3_ERR_COMMUNICATION", DeviceUnavailable,
               "the link to the coprocessor broke; look at cable, driver and transfer proxy"),
    VendorCode(-14, "RKNN3_ERR_MEM_SYNC_FAILED", RknnError,
               "moving data to or from the coprocessor failed; look at the link"),
    VendorCode(-15, "RKNN3_ERR_KEY_INVALID", ParamInvalid, "the key cannot be used for this model", "1.0.4"),
    VendorCode(-16, "RKNN3_ERR_DECRYPT_FAILED", ModelInvalid,
               "the model could not be decrypted; is the key the right one?", "1.0.4"),
    VendorCode(-17, "RKNN3_ERR_WEIGHT_LOAD_NOT_PREPARED", ContextInvalid,
               "stream weights after the model was initialised", "1.0.4"),
    VendorCode(-18, "RKNN3_ERR_INCOMPATIBLE_VERSION", DeviceUnmatch,
               "make API library, transfer proxy and firmware the same version", "1.0.4"),
    VendorCode(-100, "RKNN3_WARN_NPU_CORE_UNUSED", None),
)  # fmt: skip
"""librknn3_api's; other numbers for much the same."""

ERROR_NAMES = {row.code: row.name for row in RKNNRT_CODES}
"""Code to name of librknnrt's codes."""

_BY_CODE = {row.code: row.error for row in RKNNRT_CODES if row.error is not None}
for _code, _error in reversed(list(_BY_CODE.items())):  # so that the first code of a class is its own
    _error.code = _code


def error_from_code(code: int, text: str) -> RknnError:
    """Build the error that belongs to a code of the C API; an unknown code keeps its number."""
    return _BY_CODE.get(code, RknnError)(text, code=code)
