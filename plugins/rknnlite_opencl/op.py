"""GPU operators without C: an OpenCL kernel and the list of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger
from rknnlite.spi.custom_op import CustomOp, OpContext, as_custom_op

from .buffers import TensorBuffers
from .device import Device, device, unavailable

__all__ = ["Attr", "Count", "In", "OpenClOp", "Out"]

Array = NDArray[Any]


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
class Count:
    """The number of elements of an output, ``int``."""

    output: int = 0


Argument = Union[In, Out, Attr, Count, np.generic, Callable[[OpContext], np.generic]]
Size = Union[Sequence[int], Callable[[OpContext], Sequence[int]], None]


class OpenClOp(CustomOp):
    """Runs one kernel per node and run.

    >>> OpenClOp("cstScale", source=Path("scale.cl"), kernel="scale",                # doctest: +SKIP
    ...          args=[In(0), Out(0), Attr("factor")])

    Args:
        op_type: node type in the model.
        source: OpenCL C text, or the Path of a file with it.
        kernel: name of the kernel in it.
        args: its arguments in order: tensors, attributes, numbers, or functions of the OpContext giving a number.
        global_size: work items, or a function of the OpContext; by default one per element of the first output.
        local_size: work items per group; None leaves it to the driver.
        options: build options.
        fallback: an operator for machines without OpenCL (CustomOp or the PC toolkit's plain class).
    """

    target = "gpu"

    def __init__(
        self,
        op_type: str,
        source: Union[str, Path],
        kernel: str,
        args: Sequence[Argument],
        global_size: Size = None,
        local_size: Optional[Sequence[int]] = None,
        options: str = "",
        fallback: Any = None,
    ) -> None:
        self.op_type = op_type
        self._source = source
        self._kernel = kernel
        self._args = list(args)
        self._global_size = global_size
        self._local_size = tuple(local_size) if local_size else None
        self._options = options
        self._fallback = as_custom_op(fallback) if fallback is not None else None

    def describe(self) -> str:
        where = self._source.name if isinstance(self._source, Path) else "OpenCL"
        return f"kernel {self._kernel} of {where}"

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        reason = unavailable()
        if reason is None:
            ctx.state = self._prepare(device(), ctx)
        elif self._fallback is None:
            raise BackendUnavailable(f"no GPU: {reason}; the operator offers no fallback for the CPU")
        else:
            logger.warning("custom operator %s computes on the CPU: %s", self.op_type, reason)
            self._fallback.init(ctx, inputs, outputs)

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> Any:
        if self._fallback is not None and not isinstance(ctx.state, _Launch):
            return self._fallback.compute(ctx, inputs, outputs)
        return ctx.state.run(inputs, outputs)

    def destroy(self, ctx: OpContext) -> None:
        state = ctx.state
        if isinstance(state, _Launch):
            ctx.state = None
            state.release()
        elif self._fallback is not None:
            self._fallback.destroy(ctx)

    def _prepare(self, opened: Device, ctx: OpContext) -> _Launch:
        kernel = opened.build(self._text(), self._kernel, self._options)
        wanted = kernel.num_args
        if wanted != len(self._args):
            raise ParamInvalid(f"kernel {self._kernel} takes {wanted} arguments, {len(self._args)} are given")
        return _Launch(opened, kernel, ctx, self._args, self._size(ctx), self._local_size)

    def _text(self) -> str:
        if not isinstance(self._source, Path):
            return self._source
        try:
            return self._source.read_text(encoding="utf-8")
        except OSError as error:
            raise ParamInvalid(f"kernel source {self._source}: {error.strerror}") from None

    def _size(self, ctx: OpContext) -> tuple[int, ...]:
        size = self._global_size
        chosen = size(ctx) if callable(size) else size or (ctx.outputs[0].n_elems,)
        return tuple(int(n) for n in chosen)


class _Launch:
    """A kernel with its buffers, ready to run any number of times."""

    def __init__(
        self,
        opened: Device,
        kernel: Any,
        ctx: OpContext,
        args: Sequence[Argument],
        global_size: tuple[int, ...],
        local_size: Optional[tuple[int, ...]],
    ) -> None:
        cl = opened.cl
        self._device, self._kernel = opened, kernel
        self._sizes = global_size, local_size
        self._buffers = TensorBuffers(opened, ctx.inputs, ctx.outputs)
        values = [self._value(arg, ctx) for arg in args]
        for number, value in enumerate(values, 1):
            if isinstance(value, (int, float, str)) and not isinstance(value, np.generic):
                raise ParamInvalid(
                    f"argument {number} of the kernel is {value!r}, and its type in C is unknown; write it as "
                    f"np.int32({value!r}) or the like"
                )
        try:
            kernel.set_args(*values)
        except cl.Error as error:
            raise ParamInvalid(f"the kernel does not take its arguments: {error}") from None

    def _value(self, arg: Argument, ctx: OpContext) -> Any:
        if isinstance(arg, In):
            return _at(self._buffers.inputs, arg, arg.index)
        if isinstance(arg, Out):
            return _at(self._buffers.outputs, arg, arg.index)
        if isinstance(arg, Attr):
            return np.dtype(arg.dtype).type(ctx.attr(arg.name, arg.default))
        if isinstance(arg, Count):
            return np.int32(_at(ctx.outputs, arg, arg.output).n_elems)
        return arg(ctx) if callable(arg) else arg

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Copy in, launch, copy out. Raises BackendUnavailable in a forked child."""
        device()
        opened = self._device
        with opened.lock:
            self._buffers.fill(inputs)
            opened.cl.enqueue_nd_range_kernel(opened.queue, self._kernel, *self._sizes)
            self._buffers.fetch(outputs)

    def release(self) -> None:
        """Give the buffers back."""
        self._buffers.release()


def _at(tensors: Sequence[Any], arg: Argument, index: int) -> Any:
    if not 0 <= index < len(tensors):
        raise ParamInvalid(f"{arg} for a node with {len(tensors)} tensors on that side")
    return tensors[index]
