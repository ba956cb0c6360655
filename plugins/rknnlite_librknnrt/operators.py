"""Operators of the program: what the CPU reference calls is asked of the program, over a socket of its own.

Tensors of a node lie in memory that both have mapped, a descriptor each; attributes are told once.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_capi import attr_struct, attribute_value

from rknnlite.abi.rknn_op import SKIP_CUSTOM_OP_COMPUTE, Target
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.spi.custom_op import CustomOp, OpContext, UseBuiltin, put
from rknnlite.spi.op_host import on_gpu
from rknnlite.tensor import DType, TensorAttr

from .protocol import MOST_FDS, Callback, Gone, Request, Wire

__all__ = ["ProgramOp", "operators_of"]

Array = NDArray[Any]
_TOLD = struct.Struct("=QQ256s")
_ATTRIBUTE = struct.Struct("=4I")
_numbers = itertools.count(1)
_STEPS = ("prepare", "compute")


def operators_of(request: Request, asks: Wire) -> list[CustomOp]:
    """The operators that a call registers."""
    lock = threading.Lock()
    return [
        ProgramOp(number, name.split(b"\0", 1)[0].decode("utf-8", "replace"), Target(target), asks, lock)
        for number, target, name in _TOLD.iter_unpack(request.payload)
    ]


class ProgramOp(CustomOp):
    """One ``rknn_custom_op`` of the program."""

    def __init__(self, number: int, op_type: str, target: Target, asks: Wire, lock: threading.Lock) -> None:
        self.op_type, self.target = op_type, target.name.lower()
        self._number, self._asks, self._lock = number, asks, lock

    def describe(self) -> str:
        """See ``CustomOp.describe``."""
        return "registered by rknn_register_custom_ops"

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        """Tell the program about the node, and let it begin."""
        tensors = [*ctx.inputs, *ctx.outputs]
        if self.target == "gpu":
            tensors = [on_gpu(attr) for attr in tensors]
        node = _Node(tensors, len(inputs))
        ctx.state = node
        attrs = b"".join(bytes(attr_struct(attr)) for attr in tensors)
        sizes = struct.pack(f"={len(node.arrays)}Q", *(array.nbytes for array in node.arrays))
        told = sizes + attrs + b"".join(_attributes(ctx.attrs))
        args = (node.number, self._number, len(inputs), len(outputs))
        try:
            code, _ = self._ask(Callback.NODE, told, args, node.fds)
        finally:
            node.close_fds()
        if code:
            raise RknnError(f"the program has no memory for a node of {self.op_type} (code {code})")
        node.put(inputs, outputs)
        code, _ = self._ask(Callback.INIT, args=(node.number,))
        if code == SKIP_CUSTOM_OP_COMPUTE:
            raise UseBuiltin(f"init of {self.op_type} answers {code}")
        if code:
            raise RknnError(f"init of {self.op_type} answers {code}")

    def compute(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        """Let the program compute."""
        node: _Node = ctx.state
        node.put(inputs)
        code, (step, *_) = self._ask(Callback.COMPUTE, args=(node.number,))
        if code not in (0, SKIP_CUSTOM_OP_COMPUTE):
            raise RknnError(f"{_STEPS[min(step, 1)]} of {self.op_type} answers {code}")
        node.take(outputs)

    def destroy(self, ctx: OpContext) -> None:
        """Let the program give back what it holds for the node."""
        if ctx.state is not None:
            self._ask(Callback.DESTROY, args=(ctx.state.number,))

    def _ask(
        self, what: Callback, payload: bytes = b"", args: Sequence[int] = (), fds: Sequence[int] = ()
    ) -> tuple[int, tuple[int, ...]]:
        try:
            with self._lock:
                self._asks.ask(what, payload, args, fds)
                return self._asks.result()
        except Gone:
            raise ContextInvalid(f"the program that computes {self.op_type} has ended") from None


class _Node:
    """Tensors of one node in shared memory."""

    def __init__(self, tensors: Sequence[TensorAttr], inputs: int) -> None:
        self.number = next(_numbers)
        self._inputs = inputs
        if len(tensors) > MOST_FDS:
            raise ParamInvalid(f"a node has {len(tensors)} tensors; {MOST_FDS} are the most")
        self.fds: list[int] = []
        self.arrays = [self._shared(attr) for attr in tensors]

    def _shared(self, attr: TensorAttr) -> Array:
        fd = os.memfd_create("rknnlite-tensor")
        self.fds.append(fd)
        size = max(1, attr.size)
        os.ftruncate(fd, size)
        return np.frombuffer(mmap.mmap(fd, size), attr.dtype.numpy, attr.n_elems).reshape(attr.dims)

    def close_fds(self) -> None:
        """The program has its own now."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def put(self, *groups: Sequence[Array]) -> None:
        """What the program is to see."""
        for shared, array in zip(self.arrays, itertools.chain(*groups)):
            shared[...] = array

    def take(self, outputs: Sequence[Array]) -> None:
        """What the program has computed."""
        for array, shared in zip(outputs, self.arrays[self._inputs :]):
            put(array, shared)


def _attributes(attrs: Any) -> Iterator[bytes]:
    for key, value in attrs.items():
        stored, name = attribute_value(value), key.encode()[:255]
        data = stored.tobytes()
        yield _ATTRIBUTE.pack(len(name), DType.from_numpy(stored.dtype), stored.size, len(data)) + name + data
