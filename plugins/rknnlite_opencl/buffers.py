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
from rknnlite_programs import buildcache

from rknnlite.spi.custom_op import put
from rknnlite.spi.op_host import on_gpu
from rknnlite.tensor import DType, TensorAttr

from .device import Device, opencl_library, unavailable

__all__ = ["TensorBuffers", "forget_imports", "import_function", "imports"]

_SOURCE = Path(__file__).with_name("climport.c")


class TensorBuffers:
    """A buffer of float32 per input and output of a node, zero at first; other types are converted on the way."""

    def __init__(self, opened: Device, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> None:
        flags = opened.cl.mem_flags
        self._device = opened
        self.inputs = [_buffer(opened, flags.READ_ONLY, attr) for attr in inputs]
        self.outputs = [_buffer(opened, flags.WRITE_ONLY, attr) for attr in outputs]
        self._in_float, self._out_float = _floats(inputs), _floats(outputs)

    def fill(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Queue copies of the inputs."""
        for buffer, array, floats in zip(self.inputs, arrays, self._in_float):
            if floats is not None:
                np.copyto(floats, array, casting="unsafe")
            source = array if floats is None else floats
            self._device.cl.enqueue_copy(self._device.queue, buffer, source, is_blocking=False)

    def fetch(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy the outputs out when everything that was queued is done."""
        targets = [array if floats is None else floats for array, floats in zip(arrays, self._out_float)]
        for target, buffer in zip(targets, self.outputs):
            self._device.cl.enqueue_copy(self._device.queue, target, buffer, is_blocking=False)
        self._device.queue.finish()
        for array, floats in zip(arrays, self._out_float):
            if floats is not None:
                put(array, floats)

    def release(self) -> None:
        """Give the buffers back, but for a forked child: they are its parent's."""
        if unavailable() is not None:
            return
        for buffer in (*self.inputs, *self.outputs):
            buffer.release()


def _buffer(opened: Device, flags: int, attr: TensorAttr) -> Any:
    zeros = np.zeros(max(1, on_gpu(attr).size), np.uint8)
    return opened.cl.Buffer(opened.context, flags | opened.cl.mem_flags.COPY_HOST_PTR, hostbuf=zeros)


def _floats(attrs: Sequence[TensorAttr]) -> list[NDArray[Any] | None]:
    """Where tensors of other types are converted; None for those of float32."""
    return [None if attr.dtype is DType.FLOAT32 else np.zeros(attr.dims, np.float32) for attr in attrs]


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
