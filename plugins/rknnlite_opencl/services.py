"""What compiled GPU operators need: OpenCL in sight, and handles of context, queue and kernel."""

from __future__ import annotations

from rknnlite.spi import GpuKernel, GpuServices

from . import buffers
from .device import device, opencl_library

__all__ = ["OpenClServices"]


class OpenClServices(GpuServices):
    """OpenCL through pyopencl."""

    def preload(self) -> None:
        """Load the OpenCL library, and the import function where that library lacks it, for everybody."""
        opencl_library()
        buffers.import_function()

    def build(self, source: str, name: str, options: str) -> GpuKernel:
        opened = device()
        kernel = opened.build(source, name, options)
        return GpuKernel(opened.context.int_ptr, opened.queue.int_ptr, kernel.int_ptr, owner=(opened, kernel))

    def forget(self, fd: int) -> None:
        """Release what operators imported of this memory."""
        buffers.forget_imports(fd)
