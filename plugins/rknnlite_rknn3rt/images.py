"""Image buffers on the coprocessor, which converts colours there."""

from __future__ import annotations

import ctypes as ct
from typing import Any

from numpy.typing import NDArray
from rknnlite_backend.addresses import view

from rknnlite.abi.rknn3_enums import RKNN3ImFmt, RKNN3MemSyncMode
from rknnlite.abi.rknn3_types import RKNN3ImMem
from rknnlite.errors import ContextInvalid, ParamInvalid

from .errors import Native, check
from .native_context import NativeContext

__all__ = ["DeviceImage"]

Array = NDArray[Any]
_CHANNELS = {
    RKNN3ImFmt.RKNN3_IM_FMT_RGB888: 3,
    RKNN3ImFmt.RKNN3_IM_FMT_BGR888: 3,
    RKNN3ImFmt.RKNN3_IM_FMT_GRAY8: 1,
}
"""Formats with one plane; the others are seen as plain bytes."""


class DeviceImage:
    """One ``rknn3_im_mem``; given back with ``close``, or when nobody holds it or a view of it any more."""

    def __init__(
        self,
        context: NativeContext,
        width: int,
        height: int,
        fmt: RKNN3ImFmt,
        core_id: int,
        flags: int,
        guard: Any,
    ) -> None:
        """``rknn3_im_mem_create``; raises the typed error of the call."""
        if width < 1 or height < 1:
            raise ParamInvalid(f"an image of {width} x {height} pixels was asked for")
        struct = RKNN3ImMem()
        code = context.call("rknn3_im_mem_create", width, height, fmt, 0, core_id, flags, ct.byref(struct))
        check("rknn3_im_mem_create", code)
        self.format = RKNN3ImFmt(fmt)
        self.width, self.height, self.stride = struct.width, struct.height, struct.stride
        self._context = context
        args = (context.value, struct)
        destroy = context.api.function("rknn3_im_mem_destroy")
        self._native: Native | None = Native(struct, destroy, args, (context.native,), guard)

    @property
    def struct(self) -> RKNN3ImMem:
        """The structure for C; raises ContextInvalid after ``close``."""
        if self._native is None or not self._native.alive:
            raise ContextInvalid("this image is closed; create it again")
        struct: RKNN3ImMem = self._native.value
        return struct

    @property
    def ndarray(self) -> Array:
        """uint8 (height, width, channels) for formats with one plane, else (bytes,); see ``sync``."""
        mem = self.struct.data_mem.contents
        channels = _CHANNELS.get(self.format)
        data = view(mem.virt_addr + mem.offset, (mem.size,), "u1", self._native)
        if channels is None:
            return data
        rows: Array = data[: self.height * self.stride].reshape(self.height, self.stride)
        return rows[:, : self.width * channels].reshape(self.height, self.width, channels)

    def sync(self, to_device: bool) -> None:
        """Move the pixels to the device, or from it."""
        mode = RKNN3MemSyncMode
        way = mode.RKNN3_MEMORY_SYNC_TO_DEVICE if to_device else mode.RKNN3_MEMORY_SYNC_FROM_DEVICE
        check("rknn3_mem_sync", self._context.call("rknn3_mem_sync", self.struct.data_mem, way))

    def convert_to(self, target: DeviceImage, sync_to_host: bool = False) -> None:
        """``rknn3_im_cvt_color`` into another image of this size; ``sync_to_host`` fetches the result as well."""
        if (self.width, self.height) != (target.width, target.height):
            raise ParamInvalid(
                f"images of {self.width} x {self.height} and {target.width} x {target.height}: sizes must agree"
            )
        target.struct.sync_to_host = sync_to_host
        detail = f"the runtime does not convert {self.format.name} to {target.format.name}"
        code = self._context.call("rknn3_im_cvt_color", ct.byref(self.struct), ct.byref(target.struct))
        check("rknn3_im_cvt_color", code, detail)

    def close(self) -> None:
        """Give the image back; again does nothing."""
        self._native = None
