"""What a kernel can be given, and what it is handed for one node: buffers, local memory, numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid
from rknnlite.spi.custom_op import OpContext

from .buffers import TensorBuffers
from .device import Device, unavailable

__all__ = ["Argument", "Attr", "AttrList", "Count", "In", "Local", "NodeArguments", "Out", "Scratch"]

Array = NDArray[Any]
Elements = Union[int, Callable[[OpContext], int]]
"""A number of elements, or a function of the OpContext that gives one."""


@dataclass(frozen=True)
class In:
    """The data of an input, ``__global const float *`` whatever the tensor's type is."""

    index: int


@dataclass(frozen=True)
class Out:
    """The data of an output, ``__global float *`` whatever the tensor's type is."""

    index: int


@dataclass(frozen=True)
class Attr:
    """A number from the node's attributes, passed by value as ``dtype``."""

    name: str
    dtype: Any = np.float32
    default: Any = None


@dataclass(frozen=True)
class AttrList:
    """A list of numbers from the node's attributes, ``__global const T *``; a text as its bytes in UTF-8."""

    name: str
    dtype: Any = np.float32
    default: Any = None


@dataclass(frozen=True)
class Count:
    """The number of elements of an output, ``int``."""

    output: int = 0


@dataclass(frozen=True)
class Local:
    """Memory that the work items of a group share, ``__local T *``."""

    count: Elements
    dtype: Any = np.float32


@dataclass(frozen=True)
class Scratch:
    """A buffer of the node's own, ``__global T *``: what one kernel leaves there, the next one of the same name reads.

    Zero when the model is opened, and left as it is from run to run.
    """

    name: str
    count: Elements
    dtype: Any = np.float32


Argument = Union[
    In,
    Out,
    Attr,
    AttrList,
    Count,
    Local,
    Scratch,
    np.generic,
    Array,
    Callable[[OpContext], Union[np.generic, Array]],
]


class NodeArguments:
    """The arguments of all kernels of one node, and the buffers behind them."""

    def __init__(self, opened: Device, ctx: OpContext) -> None:
        self.tensors = TensorBuffers(opened, ctx.inputs, ctx.outputs)
        self._device, self._ctx = opened, ctx
        self._scratch: dict[str, tuple[int, Any]] = {}
        self._constants: list[Any] = []

    def values(self, args: Sequence[Argument]) -> list[Any]:
        """What ``set_args`` of pyopencl takes. Raises ParamInvalid, naming the argument."""
        values = [self._value(arg) for arg in args]
        for number, value in enumerate(values, 1):
            if isinstance(value, (int, float, str)) and not isinstance(value, np.generic):
                raise ParamInvalid(
                    f"argument {number} of the kernel is {value!r}, and its type in C is unknown; write it as "
                    f"np.int32({value!r}) or the like"
                )
        return [self._constant(value) if isinstance(value, np.ndarray) else value for value in values]

    def release(self) -> None:
        """Give all buffers back, but for a forked child: they are its parent's."""
        self.tensors.release()
        if unavailable() is None:
            for buffer in (*self._constants, *(buffer for _, buffer in self._scratch.values())):
                buffer.release()
        self._constants, self._scratch = [], {}

    def _value(self, arg: Argument) -> Any:
        ctx = self._ctx
        if isinstance(arg, In):
            return _at(self.tensors.inputs, arg, arg.index)
        if isinstance(arg, Out):
            return _at(self.tensors.outputs, arg, arg.index)
        if isinstance(arg, Attr):
            return _number(arg, ctx)
        if isinstance(arg, AttrList):
            return _list(arg, ctx)
        if isinstance(arg, Count):
            return np.int32(_at(ctx.outputs, arg, arg.output).n_elems)
        if isinstance(arg, Local):
            return self._device.cl.LocalMemory(_nbytes(arg, ctx))
        if isinstance(arg, Scratch):
            return self._shared(arg)
        return arg(ctx) if callable(arg) else arg

    def _shared(self, arg: Scratch) -> Any:
        size = _nbytes(arg, self._ctx)
        if arg.name not in self._scratch:
            self._scratch[arg.name] = size, self._filled(np.zeros(size, np.uint8), writable=True)
        there, buffer = self._scratch[arg.name]
        if there != size:
            raise ParamInvalid(
                f"{arg}: {size} bytes, and {there} for another kernel; give both the same count"
            )
        return buffer

    def _constant(self, array: Array) -> Any:
        buffer = self._filled(np.ascontiguousarray(array), writable=False)
        self._constants.append(buffer)
        return buffer

    def _filled(self, array: Array, writable: bool) -> Any:
        """A buffer with these elements; OpenCL has none of zero bytes."""
        flags = self._device.cl.mem_flags
        access = flags.READ_WRITE if writable else flags.READ_ONLY
        data = array if array.nbytes else np.zeros(1, np.uint8)
        return self._device.cl.Buffer(self._device.context, access | flags.COPY_HOST_PTR, hostbuf=data)


def _number(arg: Attr, ctx: OpContext) -> Any:
    value = ctx.attr(arg.name, arg.default)
    if not isinstance(value, (bool, int, float, np.generic)):
        raise ParamInvalid(
            f"{arg}: the attribute is {value!r}, no number; pass AttrList({arg.name!r}, dtype)"
        )
    return np.dtype(arg.dtype).type(value)


def _list(arg: AttrList, ctx: OpContext) -> Array:
    value = ctx.attr(arg.name, arg.default)
    if isinstance(value, str):
        return np.frombuffer(value.encode(), np.uint8)
    try:
        return np.atleast_1d(np.asarray(value, arg.dtype))
    except (TypeError, ValueError):
        raise ParamInvalid(
            f"{arg}: the attribute is {value!r}, no list of numbers; pass a function of the OpContext that makes an "
            "array of it"
        ) from None


def _nbytes(arg: Union[Local, Scratch], ctx: OpContext) -> int:
    count = int(arg.count(ctx) if callable(arg.count) else arg.count)
    if count < 1:
        raise ParamInvalid(f"{arg}: {count} elements; at least 1 is needed")
    return count * int(np.dtype(arg.dtype).itemsize)


def _at(tensors: Sequence[Any], arg: Argument, index: int) -> Any:
    if not 0 <= index < len(tensors):
        raise ParamInvalid(f"{arg} for a node with {len(tensors)} tensors on that side")
    return tensors[index]
