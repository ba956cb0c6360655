"""What the library's codes mean here: typed errors that name the call, the code and what to do."""

from __future__ import annotations

import rknnlite.native.objects
from rknnlite.errors import ERROR_NAMES, RknnError, error_from_code

__all__ = ["Native", "call_error", "check"]

_REMEDIES = {
    -1: "set RKNN_LOG_LEVEL=4 and read the library's own lines",
    -2: "the NPU did not answer in time; allow more time, or look into dmesg for a reset of the NPU",
    -3: "look whether the NPU's device node is there and open to you (groups render and video)",
    -4: "close other contexts, or use a smaller model",
    -5: "an argument does not fit this model or this version of the library",
    -6: "convert the network again with a toolkit that fits this runtime",
    -7: "the context is gone; open the model again",
    -8: "compare the inputs with the model's input attributes",
    -9: "compare the output buffers with the model's output attributes",
    -10: "update driver and runtime so that they fit each other",
    -11: "convert the network again for this driver",
    -12: "convert the network again for this driver",
    -13: "this board's SoC cannot do that; convert the network for it, or leave the call out",
}


def call_error(function: str, code: int, detail: str = "") -> RknnError:
    """The typed error of a C call that answered ``code``: which call, which code, what to do."""
    name = ERROR_NAMES.get(code, f"unknown code {code}")
    remedy = detail or _REMEDIES.get(code, _REMEDIES[-1])
    return error_from_code(code, f"{function} failed. error code: {name} ({code}); {remedy}")


def check(function: str, code: int, detail: str = "") -> None:
    """Raise the typed error unless ``code`` is 0."""
    if code:
        raise call_error(function, code, detail)


class Native(rknnlite.native.objects.Native):
    """An object of librknnrt; one that cannot be given back is logged with what its code means."""

    __slots__ = ()
    explain = staticmethod(call_error)
