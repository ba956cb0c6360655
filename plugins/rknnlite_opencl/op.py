"""GPU operators without C: OpenCL kernels and the lists of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from numpy.typing import NDArray

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.files.reading import read_text
from rknnlite.log import logger
from rknnlite.spi.custom_op import CustomOp, OpContext, as_custom_op

from .arguments import Argument, NodeArguments
from .device import Device, device, unavailable

__all__ = ["Kernel", "OpenClOp"]

Array = NDArray[Any]
Size = Union[Sequence[int], Callable[[OpContext], Sequence[int]], None]


@dataclass(frozen=True)
class Kernel:
    """One kernel of an operator that has several; the fields are those of ``OpenClOp``."""

    name: str
    args: Sequence[Argument] = ()
    global_size: Size = None
    local_size: Size = None


class OpenClOp(CustomOp):
    """Runs a kernel per node and run, or several one after the other.

    >>> OpenClOp("cstScale", source=Path("scale.cl"), kernel="scale",                # doctest: +SKIP
    ...          args=[In(0), Out(0), Attr("factor")])

    Args:
        op_type: node type in the model.
        source: OpenCL C text, or the Path of a file with it.
        kernel: name of the kernel in it, or a list of ``Kernel``, which run in that order.
        args: its arguments in order: tensors, attributes, memory, numbers, numpy arrays (which become buffers), or
            functions of the OpContext giving a number or an array.
        global_size: work items, or a function of the OpContext; by default one per element of the first output.
        local_size: work items per group, or a function of the OpContext; None leaves it to the driver.
        options: build options.
        fallback: an operator for machines without OpenCL (CustomOp or the PC toolkit's plain class).
    """

    target = "gpu"

    def __init__(
        self,
        op_type: str,
        source: Union[str, Path],
        kernel: Union[str, Sequence[Kernel]],
        args: Sequence[Argument] = (),
        global_size: Size = None,
        local_size: Size = None,
        options: str = "",
        fallback: Any = None,
    ) -> None:
        self.op_type = op_type
        self._source = source
        if isinstance(kernel, str):
            self._kernels = [Kernel(kernel, args, global_size, local_size)]
        else:
            self._kernels = list(kernel)
            if args or global_size or local_size or not self._kernels:
                raise ParamInvalid(
                    f"operator {op_type}: with a list of kernels each Kernel(...) has its own args and sizes"
                )
        self._options = options
        self._fallback = as_custom_op(fallback) if fallback is not None else None

    def describe(self) -> str:
        where = self._source.name if isinstance(self._source, Path) else "OpenCL"
        return f"kernel {', '.join(kernel.name for kernel in self._kernels)} of {where}"

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
        if self._fallback is not None and not isinstance(ctx.state, _Launches):
            return self._fallback.compute(ctx, inputs, outputs)
        return ctx.state.run(inputs, outputs)

    def destroy(self, ctx: OpContext) -> None:
        state = ctx.state
        if isinstance(state, _Launches):
            ctx.state = None
            state.release()
        elif self._fallback is not None:
            self._fallback.destroy(ctx)

    def _prepare(self, opened: Device, ctx: OpContext) -> _Launches:
        source = self._text()
        arguments = NodeArguments(opened, ctx)
        try:
            steps = [self._step(opened, source, kernel, arguments, ctx) for kernel in self._kernels]
        except BaseException:
            arguments.release()
            raise
        return _Launches(opened, arguments, steps)

    def _step(
        self, opened: Device, source: str, kernel: Kernel, arguments: NodeArguments, ctx: OpContext
    ) -> _Step:
        built = opened.build(source, kernel.name, self._options)
        if built.num_args != len(kernel.args):
            raise ParamInvalid(
                f"kernel {kernel.name} takes {built.num_args} arguments, {len(kernel.args)} are given"
            )
        try:
            built.set_args(*arguments.values(kernel.args))
        except opened.cl.Error as error:
            raise ParamInvalid(f"kernel {kernel.name} does not take its arguments: {error}") from None
        items = _size(kernel.global_size, ctx) or (ctx.outputs[0].n_elems,)
        group = _size(kernel.local_size, ctx)
        if group is not None:
            _check_group(opened, built, kernel.name, items, group)
        return _Step(built, items, group)

    def _text(self) -> str:
        if not isinstance(self._source, Path):
            return self._source
        try:
            return read_text(self._source)
        except OSError as error:
            raise ParamInvalid(f"kernel source {self._source}: {error.strerror}") from None


def _size(size: Size, ctx: OpContext) -> Optional[tuple[int, ...]]:
    chosen = size(ctx) if callable(size) else size
    return tuple(int(n) for n in chosen) if chosen else None


def _check_group(
    opened: Device, built: Any, name: str, items: tuple[int, ...], group: tuple[int, ...]
) -> None:
    """Raise ParamInvalid where OpenCL would refuse the launch without saying what is wrong."""
    if len(items) != len(group) or any(g < 1 or n % g for n, g in zip(items, group)):
        raise ParamInvalid(
            f"kernel {name}: global_size {list(items)} is no multiple of local_size {list(group)}; round it up, and let "
            "the kernel skip what lies past Count()"
        )
    count = 1
    for number in group:
        count *= number
    most = built.get_work_group_info(
        opened.cl.kernel_work_group_info.WORK_GROUP_SIZE, opened.context.devices[0]
    )
    if count > most:
        raise ParamInvalid(
            f"kernel {name}: local_size {list(group)} has {count} work items, {opened.name} takes at most {most}"
        )


@dataclass(frozen=True)
class _Step:
    """A kernel with its arguments."""

    kernel: Any
    items: tuple[int, ...]
    group: Optional[tuple[int, ...]]


class _Launches:
    """The kernels of a node with their buffers, ready to run any number of times."""

    def __init__(self, opened: Device, arguments: NodeArguments, steps: Sequence[_Step]) -> None:
        self._device, self._arguments, self._steps = opened, arguments, steps

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Copy in, launch in order, copy out. Raises BackendUnavailable in a forked child."""
        device()
        opened, tensors = self._device, self._arguments.tensors
        with opened.lock:
            tensors.fill(inputs)
            for step in self._steps:
                opened.cl.enqueue_nd_range_kernel(opened.queue, step.kernel, step.items, step.group)
            tensors.fetch(outputs)

    def release(self) -> None:
        """Give the buffers back."""
        self._arguments.release()
