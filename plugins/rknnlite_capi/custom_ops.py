"""Operators that a program registers by ``lib.rknn_register_custom_ops`` where no vendor library computes.

The program fills ``rknn_custom_op`` itself and keeps its callbacks alive; they are called as librknnrt calls them.
"""

from __future__ import annotations

import ctypes as ct
import itertools
import weakref
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi.custom_op import CustomOp, OpContext, UseBuiltin
from rknnlite.tensor import DType, TensorAttr

from .attrs import attr_struct, attribute_value

__all__ = ["StructOp", "read_attr"]

Array = NDArray[Any]
_numbers = itertools.count(1)


class StructOp(CustomOp):
    """One ``rknn_custom_op`` of the program."""

    def __init__(self, struct: abi.CustomOpStruct) -> None:
        self._struct = abi.CustomOpStruct.from_buffer_copy(struct)
        self.op_type = struct.op_type.decode("utf-8", "replace")
        if not self.op_type or not struct.compute:
            raise ParamInvalid("an operator needs op_type and compute")
        if struct.target != abi.Target.CPU:
            raise ParamInvalid(
                f"operator {self.op_type} is made for the GPU; register its library with reg_custom_op(path)"
            )

    def describe(self) -> str:
        return "registered by rknn_register_custom_ops"

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        ctx.state = _Node(ctx)
        if ctx.state.call(self._struct.init, "init", inputs, outputs) == abi.SKIP_CUSTOM_OP_COMPUTE:
            raise UseBuiltin(f"init of {self.op_type} answers -14")

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        ctx.state.call(self._struct.prepare, "prepare", inputs, outputs)
        ctx.state.call(self._struct.compute, "compute", inputs, outputs)

    def destroy(self, ctx: OpContext) -> None:
        if self._struct.destroy:
            self._struct.destroy(ct.byref(ctx.state.context))


class _Node:
    """One node as callbacks see it: a context with a number of its own, and the tensors."""

    def __init__(self, ctx: OpContext) -> None:
        self.attrs = ctx.attrs
        self.kept: dict[str, Array] = {}  # values that a callback may look at until the node goes
        self.context = abi.CustomOpContext(target=abi.Target.CPU, internal_ctx=next(_numbers))
        self._inputs, self._outputs = _tensors(ctx.inputs), _tensors(ctx.outputs)
        _nodes[self.context.internal_ctx] = self

    def call(self, callback: Any, step: str, inputs: Sequence[Array], outputs: Sequence[Array]) -> int:
        """Call ``callback`` (NULL: 0) on the arrays; raises RknnError for a code other than 0 and -14."""
        if not callback:
            return 0
        for tensor, array in zip((*self._inputs, *self._outputs), (*inputs, *outputs)):
            tensor.mem.virt_addr, tensor.mem.size = array.ctypes.data, array.nbytes
        tensors = (self._inputs, len(inputs), self._outputs, len(outputs))
        code = int(callback(ct.byref(self.context), *tensors))
        if code not in (0, abi.SKIP_CUSTOM_OP_COMPUTE):
            raise RknnError(f"{step} answers {code}")
        return code


_nodes: weakref.WeakValueDictionary[int, _Node] = weakref.WeakValueDictionary()


def read_attr(op_ctx: Any, name: bytes, answer: Any) -> None:
    """``rknn_custom_op_get_op_attr``: ``n_elems`` is 0 for an attribute that the node does not have."""
    context = ct.cast(op_ctx, ct.POINTER(abi.CustomOpContext)).contents
    found = ct.cast(answer, ct.POINTER(abi.CustomOpAttr)).contents
    node, key = _nodes.get(context.internal_ctx), bytes(name).decode()
    found.name, found.n_elems, found.data = key.encode(), 0, None
    if node is not None and key in node.attrs:
        value = node.kept.setdefault(key, attribute_value(node.attrs[key]))
        found.dtype, found.n_elems, found.data = (
            DType.from_numpy(value.dtype),
            value.size,
            value.ctypes.data,
        )


def _tensors(attrs: Sequence[TensorAttr]) -> Any:
    array = (abi.CustomOpTensor * len(attrs))()
    for tensor, attr in zip(array, attrs):
        tensor.attr, tensor.mem.fd = attr_struct(attr), -1
    return array
