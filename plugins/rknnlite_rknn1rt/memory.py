"""Memory that NPU and program share: mapped by the library for all inputs or outputs at once, or created one by one.

It is given back when ``close`` was called (or the context closed, or nobody holds it any more) *and* the last numpy
view of it is gone: a view never points to memory that was given back.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import view
from rknnlite_backend.zero_copy import closed_memory

from rknnlite.errors import OutOfMemory, ParamInvalid
from rknnlite.spi import Memory
from rknnlite.tensor import TensorAttr

from . import abi
from .errors import Native, check
from .loader import Library

__all__ = ["Rknn1Memory", "allocate", "map_side"]

Array = NDArray[Any]


class _Held:
    """The library's object behind one memory, or behind all that were mapped together; None after ``close``."""

    __slots__ = ("native",)

    def __init__(self, native: Native) -> None:
        self.native: Native | None = native


class Rknn1Memory(Memory):
    """One ``rknn_tensor_mem``; see ``rknnlite.spi.Memory``. ``mapped``: closed together with those mapped with it."""

    def __init__(self, held: _Held, struct: abi.TensorMem, context: Any, mapped: bool) -> None:
        self._held = held
        self._user = weakref.ref(context)
        self._where = int(struct.logical_addr or 0)
        self.mapped = mapped
        self.size = int(struct.size)
        self.fd = int(struct.fd)
        self.phys = int(struct.physical_addr)

    @property
    def closed(self) -> bool:
        """Whether the memory has been closed."""
        native = self._held.native
        return native is None or not native.alive

    @property
    def native(self) -> Native:
        """The object behind it; raises ContextInvalid after ``close``."""
        native = self._held.native
        if native is None or not native.alive:
            raise closed_memory("create or map it again")
        return native

    @property
    def ndarray(self) -> Array:
        return view(self._where, (self.size,), np.uint8, self.native)

    def close(self) -> None:
        native, self._held.native = self._held.native, None  # ours goes at the end: C may use it until then
        context = self._user()
        if native is not None and context is not None:
            context.unbind(self)  # waits for a run in another thread

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes, fd {self.fd}"
        return f"<Rknn1Memory {state}>"


def allocate(
    library: Library, context: Any, number: int, size: int, parent: Native, guard: Any
) -> Rknn1Memory:
    """``rknn_create_mem``."""
    if size <= 0:
        raise ParamInvalid(f"memory of {size} bytes was asked for; give the tensor's size")
    pointer = library.function("rknn_create_mem")(number, size)
    if not pointer:
        raise OutOfMemory(f"rknn_create_mem gave no memory for {size} bytes; close other contexts")
    native = Native(pointer, library.function("rknn_destroy_mem"), (number, pointer), (parent,), guard)
    struct = pointer.contents
    _check(native, struct, size, "rknn_create_mem")
    return Rknn1Memory(_Held(native), struct, context, mapped=False)


def map_side(
    library: Library,
    context: Any,
    number: int,
    word: str,
    attrs: list[TensorAttr],
    parent: Native,
    guard: Any,
) -> list[Rknn1Memory]:
    """``rknn_inputs_map`` or ``rknn_outputs_map`` (``word`` is ``inputs`` or ``outputs``): one memory per tensor."""
    mems = abi.array_of(abi.TensorMem, len(attrs))()
    map_, unmap = library.function(f"rknn_{word}_map"), library.function(f"rknn_{word}_unmap")
    check(f"rknn_{word}_map", map_(number, len(attrs), mems))
    native = Native(mems, unmap, (number, len(attrs), mems), (parent,), guard)
    for attr, struct in zip(attrs, mems):
        _check(native, struct, attr.size_with_stride, f"rknn_{word}_map")
    held = _Held(native)
    return [Rknn1Memory(held, struct, context, mapped=True) for struct in mems]


def _check(native: Native, struct: abi.TensorMem, size: int, call: str) -> None:
    if struct.size < size or not struct.logical_addr:
        got, where = struct.size, struct.logical_addr or 0
        native.release()
        raise OutOfMemory(f"{call} gave {got} of {size} bytes at address {where:#x}; close other contexts")
