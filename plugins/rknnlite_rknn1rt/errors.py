"""What the library's codes mean here: typed errors that name the call, the code and what to do.

The numbers are librknnrt's but for -14; what to do about some of them is another thing on these boards.
"""

from __future__ import annotations

import rknnlite_backend.native_objects
from rknnlite_backend.rknn_calls import CallErrors

from rknnlite.errors import RKNNRT_CODES, PreCompiledModelUnmatch, VendorCode

__all__ = ["CODES", "MiniDriver", "Native", "call_error", "check"]


class MiniDriver(PreCompiledModelUnmatch):
    """A mini driver runs pre-compiled models only; code -14, which librknnrt gives another meaning."""

    code = -14

    @property
    def name(self) -> str:
        """The name in the header of librknn_api."""
        return "RKNN_ERR_NON_PRE_COMPILED_MODEL_ON_MINI_DRIVER"


_OTHER_REMEDIES = {
    -1: "read the library's own lines above, and those of dmesg",
    -2: "the NPU did not answer in time; look into dmesg (galcore), or at the cable of a USB device",
    -3: "load the NPU's driver (galcore) on a board; on a host plug the device in and start npu_transfer_proxy",
    -6: "it may be damaged, or made by a toolkit newer than this driver: convert the network again, or update the driver",
    -10: "library and driver are of different versions: install both from one release",
    -11: "it was pre-compiled for another driver version: convert the network with pre_compile=False, or pre-compile it "
    "with the toolkit of this driver",
    -12: "this driver does not know the optimisation level: convert the network with optimization_level=0, or update the "
    "driver",
    -13: "convert the network with target_platform set to this board's chip",
}
CODES = (
    *(
        row._replace(remedy=_OTHER_REMEDIES.get(row.code, row.remedy))
        for row in RKNNRT_CODES
        if row.code != -14
    ),
    VendorCode(
        -14,
        "RKNN_ERR_NON_PRE_COMPILED_MODEL_ON_MINI_DRIVER",
        MiniDriver,
        "this board has the mini driver, which runs pre-compiled models only: convert the network with "
        "pre_compile=True, or install the full driver",
    ),
)
"""librknn_api's codes."""
_ERRORS = CallErrors(CODES)
call_error, check = _ERRORS.error, _ERRORS.check


class Native(rknnlite_backend.native_objects.Native):
    """An object of librknn_api; one that cannot be given back is logged with what its code means."""

    __slots__ = ()
    explain = staticmethod(call_error)
