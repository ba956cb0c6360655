"""A compiled operator as a ``CustomOp``: in this process, or in a worker of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.crash import caller

from rknnlite import plugins
from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid, RknnError, error_from_code
from rknnlite.files.reading import read_bytes
from rknnlite.native.forks import Owner
from rknnlite.spi import GpuKernel
from rknnlite.spi.custom_op import CustomOp, OpContext, UseBuiltin, put
from rknnlite.spi.op_host import on_gpu
from rknnlite.tensor import TensorAttr

from .library import Library, name_runtime, symbols
from .node import Buffer, NativeNode, describe_attrs, overwritten

__all__ = ["CompiledOp", "NodeBuffers", "check_code"]

Array = NDArray[Any]


@dataclass
class NodeBuffers:
    """Shared memory of one node and arrays that look into it.

    A forked child would write into the memory of its parent: there they refuse.
    """

    inputs: list[Buffer]
    outputs: list[Buffer]
    attrs: Sequence[TensorAttr]
    in_views: list[Array] = field(repr=False, default_factory=list)
    out_views: list[Array] = field(repr=False, default_factory=list)
    owner: Owner = field(default_factory=Owner)

    @classmethod
    def of(cls, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> NodeBuffers:
        """Memory for the tensors of a node, as the operator gets them."""
        ins, outs = ([Buffer.create(attr.size) for attr in attrs] for attrs in (inputs, outputs))
        return cls(ins, outs, outputs, _views(ins, inputs), _views(outs, outputs))

    @property
    def ours(self) -> bool:
        """False in a forked child."""
        return self.owner.is_here

    def fill(self, inputs: Sequence[Array]) -> None:
        """Copy the operator's inputs in, converted to what it gets; raises ContextInvalid in a forked child."""
        self.owner.check("the model")
        for view, array in zip(self.in_views, inputs):
            view[...] = array

    def fetch(self, outputs: Sequence[Array]) -> None:
        """Copy the outputs out, converted; raises RknnError when the operator wrote past the end of one."""
        damage = overwritten(self.outputs, self.attrs)
        if damage:
            raise RknnError(f"the plugin {damage}; memory behind it is damaged")
        for array, view in zip(outputs, self.out_views):
            put(array, view)

    def close(self) -> None:
        """Give the memory back; calling it again does nothing."""
        self.in_views, self.out_views = [], []
        for buffer in (*self.inputs, *self.outputs):
            buffer.close()


def _views(buffers: Sequence[Buffer], attrs: Sequence[TensorAttr]) -> list[Array]:
    return [
        np.frombuffer(buffer.map, attr.dtype.numpy, attr.n_elems).reshape(attr.dims)
        for buffer, attr in zip(buffers, attrs)
    ]


def check_code(code: int, step: str, ctx: OpContext) -> None:
    """Raise what a plugin's return code means; 0 is success."""
    if code == 0:
        return
    if step == "init" and code == abi.SKIP_CUSTOM_OP_COMPUTE:
        raise UseBuiltin(f"{ctx.node.label()}: init answers -14")
    raise error_from_code(
        code, f"{step} of the plugin answers {code}; attributes: {describe_attrs(ctx.attrs)}"
    )


@dataclass
class _State:
    buffers: NodeBuffers
    node: NativeNode
    kernel: GpuKernel | None


class CompiledOp(CustomOp):
    """An operator of a loaded library, called in this process."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.op_type = library.op_type
        self.target = library.target.name.lower()
        self.native = library.struct

    def describe(self) -> str:
        return self.library.path.name

    def registering(self, runtime: Any) -> None:
        name_runtime(runtime)

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        kernel = self._kernel()
        gpu = (kernel.context, kernel.queue, kernel.kernel) if kernel else None
        ins, outs = (
            [on_gpu(attr) for attr in attrs] if kernel else attrs for attrs in (ctx.inputs, ctx.outputs)
        )
        buffers = NodeBuffers.of(ins, outs)
        try:
            buffers.fill(inputs)
            node = NativeNode(
                self.library.struct,
                ctx.attrs,
                list(zip(ins, buffers.inputs)),
                list(zip(outs, buffers.outputs)),
                symbols(self.library),
                gpu,
                caller(f"plugin {self.library.path}", f'operator {self.op_type} at node "{ctx.node.name}"'),
            )
            check_code(node.init(), "init", ctx)
        except BaseException:
            buffers.close()
            raise
        ctx.state = _State(buffers, node, kernel)

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        state: _State = ctx.state
        state.buffers.fill(inputs)
        code = state.node.compute()
        if code:
            check_code(code, "compute", ctx)
        state.buffers.fetch(outputs)

    def destroy(self, ctx: OpContext) -> None:
        state, ctx.state = ctx.state, None
        if state is None or not state.buffers.ours:
            return
        try:
            check_code(state.node.destroy(), "destroy", ctx)
        finally:
            if state.kernel is not None:
                for buffer in (*state.buffers.inputs, *state.buffers.outputs):
                    plugins.gpu_services().forget(buffer.fd)
            state.buffers.close()

    def _kernel(self) -> GpuKernel | None:
        """The built OpenCL kernel of a GPU operator."""
        if self.library.target is not abi.Target.GPU:
            return None
        return plugins.gpu_services().build(*kernel_source(self.library))


def kernel_source(library: Library) -> tuple[str, str, str]:
    """Source text, kernel name and build options of a GPU operator."""
    struct = library.struct
    given = struct.cl_kernel_source
    if not given:
        raise ParamInvalid(f"{library.path}: operator {library.op_type} has no cl_kernel_source")
    if struct.cl_source_size:
        source = given[: struct.cl_source_size].decode("utf-8", "replace")
    else:
        source = _read_source(library, os.fsdecode(given))
    return source, struct.cl_kernel_name.decode(), struct.cl_build_options.decode()


def _read_source(library: Library, name: str) -> str:
    """A kernel source file: beside the library, else where C would look, in the working directory."""
    beside = library.path.resolve().parent / name
    file = beside if beside.is_file() else Path(name)
    try:
        return read_bytes(file).decode("utf-8", "replace")
    except OSError as error:
        raise ParamInvalid(f"{library.path}: kernel source {beside}: {error.strerror}") from None
