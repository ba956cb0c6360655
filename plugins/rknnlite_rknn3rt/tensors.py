"""The inputs or outputs of one run: tensors with their memory, as the array that ``rknn3_run`` takes."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.zero_copy import foreign_memory

from rknnlite.errors import InputInvalid, OutputInvalid, ParamInvalid, RknnError
from rknnlite.spi import Memory

from . import memory
from .attrs import Tensor3
from .memory import Rknn3Memory
from .native_context import NativeContext

__all__ = ["TensorSet"]

Array = NDArray[Any]


class TensorSet:
    """Tensors of one side. Memory is created when it is first needed, unless other memory was bound."""

    def __init__(
        self, context: NativeContext, tensors: Sequence[Tensor3], is_input: bool, guard: Any
    ) -> None:
        self.tensors = list(tensors)
        self.array = (context.abi.RKNN3Tensor * len(self.tensors))()
        self.filled = [False] * len(self.tensors)
        self._context, self._is_input, self._guard = context, is_input, guard
        self._mems: list[Rknn3Memory | None] = [None] * len(self.tensors)
        self._mine: list[Rknn3Memory | None] = [None] * len(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def mem(self, index: int) -> Rknn3Memory:
        """The memory of a tensor; bound memory that was closed meanwhile is an error."""
        mem = self._mems[index]
        if mem is None:
            tensor = self.tensors[index]
            mem = memory.allocate(self._context, tensor.size, tensor.core_id, 0, self._guard)
            self._mine[index] = mem
            self._put(index, mem)
        _ = mem.native
        return mem

    def _put(self, index: int, mem: Rknn3Memory) -> None:
        slot = self.array[index]
        slot.mem = mem.pointer
        slot.attr = ct.pointer(self.tensors[index].struct)
        self._mems[index] = mem

    def bind(self, index: int, mem: Memory) -> None:
        """Use the caller's memory for a tensor; raises InputInvalid, OutputInvalid or ParamInvalid."""
        tensor = self.tensors[index]
        if not isinstance(mem, Rknn3Memory):
            raise ParamInvalid(f"{self.label(index)}: this memory belongs to another backend")
        _ = mem.native
        if mem.context is not self._context:
            raise foreign_memory("create it on this one", self.label(index))
        if mem.size < tensor.size or mem.core_id != tensor.core_id:
            error: type[RknnError] = InputInvalid if self._is_input else OutputInvalid
            raise error(
                f"{self.label(index)}: needed are {tensor.size} bytes on core {tensor.core_id}, the memory has "
                f"{mem.size} bytes on core {mem.core_id}"
            )
        self._put(index, mem)
        self._mine[index] = None
        self.filled[index] = True

    def label(self, index: int) -> str:
        """``input image`` or ``output scores``."""
        return f"{'input' if self._is_input else 'output'} {self.tensors[index].native.name}"

    def prepare(self) -> Any:
        """The array for C, every tensor with memory."""
        for index in range(len(self.tensors)):
            self.mem(index)
        return self.array

    def write(self, index: int, data: Array) -> None:
        """Put native elements into the memory and move them to the device."""
        mem = self.mem(index)
        self._view(mem, index)[...] = data
        memory.synchronise(self._context, mem, "to_device")
        self.filled[index] = True

    def read(self, index: int) -> Array:
        """Native elements, fetched from the device; a view that the next run overwrites."""
        mem = self.mem(index)
        memory.synchronise(self._context, mem, "from_device")
        return self._view(mem, index)

    def _view(self, mem: Rknn3Memory, index: int) -> Array:
        tensor = self.tensors[index]
        dtype = tensor.native.dtype.numpy
        view: Array = mem.ndarray[: tensor.nbytes].view(np.dtype(dtype)).reshape(tensor.native.dims)
        return view

    def release(self) -> None:
        """Let go of all memory."""
        for mem in self._mine:
            if mem is not None:
                mem.close()
        self._mine = [None] * len(self.tensors)
        self._mems = [None] * len(self.tensors)
