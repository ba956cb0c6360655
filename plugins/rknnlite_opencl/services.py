"""What compiled GPU operators need: handles of context, queue and kernel, and ``clImportMemoryARM``."""

from __future__ import annotations

import ctypes as ct
import functools
import os
from pathlib import Path
from typing import Any

from rknnlite.errors import BackendUnavailable
from rknnlite.native import buildcache
from rknnlite.spi import GpuKernel, GpuServices

from .device import device

__all__ = ["OpenClServices", "imports"]

_SOURCE = Path(__file__).with_name("climport.c")


class OpenClServices(GpuServices):
    """OpenCL through pyopencl."""

    def preload(self) -> None:
        """Load the OpenCL library, and the import function where that library lacks it, for everybody."""
        _library()
        _importer()

    def build(self, source: str, name: str, options: str) -> GpuKernel:
        opened = device()
        kernel = opened.build(source, name, options)
        return GpuKernel(opened.context.int_ptr, opened.queue.int_ptr, kernel.int_ptr, owner=(opened, kernel))

    def forget(self, fd: int) -> None:
        """Release what operators imported of this memory."""
        shim = _importer()
        if shim is not None:
            shim.rknnlite_cl_forget(fd)


@functools.cache
def _library() -> Any:
    """The system's OpenCL library, visible to plugins that were linked without naming it."""
    for name in ("libOpenCL.so.1", "libOpenCL.so", "libmali.so.1", "libmali.so"):
        try:
            return ct.CDLL(name, mode=os.RTLD_NOW | ct.RTLD_GLOBAL)
        except OSError:
            continue
    raise BackendUnavailable(
        "no OpenCL library for compiled GPU operators; install ocl-icd-libopencl1 or libmali"
    )


@functools.cache
def _importer() -> Any:
    """Our import function; None where the OpenCL library has one."""
    if hasattr(_library(), "clImportMemoryARM"):
        return None
    purpose = "clImportMemoryARM for GPU operators"
    library = buildcache.build_library("librknnlite_climport.so", _SOURCE, purpose)
    return ct.CDLL(str(library), mode=os.RTLD_NOW | ct.RTLD_GLOBAL)


def imports() -> int:
    """Number of buffers that compiled operators have imported and that are still there; 0 without our function."""
    shim = _importer()
    return int(shim.rknnlite_cl_imports()) if shim is not None else 0
