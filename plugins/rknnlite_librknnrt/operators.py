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

from rknnlite.abi.rknn_op import SKIP_CUSTOM_OP_COMPUTE
from rknnlite.capi import attr_struct, attribute_value
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.spi.custom_op import CustomOp, OpContext, UseBuiltin
from rknnlite.tensor import DType

from .protocol import MOST_FDS, Callback, Gone, Request, Wire

__all__ = ["ProgramOp", "operators_of"]

Array = NDArray[Any]
_TOLD = struct.Struct("=Q256s")
_ATTRIBUTE = struct.Struct("=4I")
_numbers = itertools.count(1)
_STEPS = ("prepare", "compute")


def operators_of(request: Request, asks: Wire) -> list[CustomOp]:
    """The operators that a call registers."""
    lock = threading.Lock()
    return [
        ProgramOp(number, name.split(b"\0", 1)[0].decode("utf-8", "replace"), asks, lock)
        for number, name in _TOLD.iter_unpack(request.payload)
    ]


class ProgramOp(CustomOp):
    """One ``rknn_custom_op`` of the program."""

    def __init__(self, number: int, op_type: str, asks: Wire, lock: threading.Lock) -> None:
        self.op_type = op_type
        self._number, self._asks, self._lock = number, asks, lock

    def describe(self) -> str:
        """See ``CustomOp.describe``."""
        return "registered by rknn_register_custom_ops"

    def init(self, ctx: OpContext, inputs: list[Array], outputs: list[Array]) -> None:
        """Tell the program about the node, and let it begin."""
        node = _Node(inputs, outputs)
        ctx.state = node
        attrs = b"".join(bytes(attr_struct(attr)) for attr in (*ctx.inputs, *ctx.outputs))
        sizes = struct.pack(f"={len(node.arrays)}Q", *(array.nbytes for array in node.arrays))
        told = sizes + attrs + b"".join(_attributes(ctx.attrs))
        args = (node.number, self._number, len(inputs), len(outputs))
        code, _ = self._ask(Callback.NODE, told, args, node.fds)
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

    def __init__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.number = next(_numbers)
        self._inputs = len(inputs)
        if len(inputs) + len(outputs) > MOST_FDS:
            raise ParamInvalid(f"a node has {len(inputs) + len(outputs)} tensors; {MOST_FDS} are the most")
        self.fds: list[int] = []
        self.arrays = [self._shared(array) for array in (*inputs, *outputs)]

    def _shared(self, like: Array) -> Array:
        fd = os.memfd_create("rknnlite-tensor")
        self.fds.append(fd)
        os.ftruncate(fd, max(1, like.nbytes))
        view = np.frombuffer(mmap.mmap(fd, max(1, like.nbytes)), like.dtype, like.size)
        return view.reshape(like.shape)

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
            array[...] = shared


def _attributes(attrs: Any) -> Iterator[bytes]:
    for key, value in attrs.items():
        stored, name = attribute_value(value), key.encode()[:255]
        data = stored.tobytes()
        yield _ATTRIBUTE.pack(len(name), DType.from_numpy(stored.dtype), stored.size, len(data)) + name + data
