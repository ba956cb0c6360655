"""Where the memory of GPU operators comes from.

Operators written in Python get buffers of their own, one per tensor, which runs copy to and from. Compiled operators
import the memory of the tensors themselves with ``clImportMemoryARM``; where the OpenCL library has no such function,
ours (``climport.c``) stands in, and counts.
"""

from __future__ import annotations

import ctypes as ct
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.native import buildcache
from rknnlite.tensor import TensorAttr

from .device import Device, opencl_library, unavailable

__all__ = ["TensorBuffers", "forget_imports", "import_function", "imports"]

_SOURCE = Path(__file__).with_name("climport.c")


class TensorBuffers:
    """A buffer per input and output of a node, zero at first."""

    def __init__(self, opened: Device, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> None:
        flags = opened.cl.mem_flags
        self._device = opened
        self.inputs = [_buffer(opened, flags.READ_ONLY, attr) for attr in inputs]
        self.outputs = [_buffer(opened, flags.WRITE_ONLY, attr) for attr in outputs]

    def fill(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Queue copies of the inputs."""
        for buffer, array in zip(self.inputs, arrays):
            self._device.cl.enqueue_copy(self._device.queue, buffer, array, is_blocking=False)

    def fetch(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Queue copies of the outputs."""
        for array, buffer in zip(arrays, self.outputs):
            self._device.cl.enqueue_copy(self._device.queue, array, buffer, is_blocking=False)

    def release(self) -> None:
        """Give the buffers back, but for a forked child: they are its parent's."""
        if unavailable() is not None:
            return
        for buffer in (*self.inputs, *self.outputs):
            buffer.release()


def _buffer(opened: Device, flags: int, attr: TensorAttr) -> Any:
    zeros = np.zeros(max(1, attr.size), np.uint8)
    return opened.cl.Buffer(opened.context, flags | opened.cl.mem_flags.COPY_HOST_PTR, hostbuf=zeros)


@functools.cache
def import_function() -> Any:
    """The library with our import function; None where the OpenCL library has one."""
    if hasattr(opencl_library(), "clImportMemoryARM"):
        return None
    purpose = "clImportMemoryARM for GPU operators"
    library = buildcache.build_library("librknnlite_climport.so", _SOURCE, purpose)
    return ct.CDLL(str(library), mode=os.RTLD_NOW | ct.RTLD_GLOBAL)


def forget_imports(fd: int) -> None:
    """Release what compiled operators imported of this memory."""
    shim = import_function()
    if shim is not None:
        shim.rknnlite_cl_forget(fd)


def imports() -> int:
    """Number of buffers that compiled operators have imported and that are still there; 0 without our function."""
    shim = import_function()
    return int(shim.rknnlite_cl_imports()) if shim is not None else 0
