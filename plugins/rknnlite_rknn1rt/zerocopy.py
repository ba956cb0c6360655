"""The zero-copy path: memory that program and NPU share, mapped (drivers to 1.7.3) or created and bound (1.7.5)."""

from __future__ import annotations

import ctypes as ct
import weakref
from typing import Any

from rknnlite_backend.running import partly_bound
from rknnlite_backend.zero_copy import check_direction, foreign_memory

from rknnlite.errors import ContextInvalid, InputInvalid, OutputInvalid, ParamInvalid
from rknnlite.spi import Memory
from rknnlite.tensor import TensorAttr

from . import abi, memory
from .errors import Native, check
from .memory import Rknn1Memory
from .queries import QueryContext

__all__ = ["ZeroCopyContext"]

_WORDS = {True: "inputs", False: "outputs"}
_DIRECTIONS = {"to_device": (True,), "from_device": (False,), "both": (True, False)}


class ZeroCopyContext(QueryContext):
    """Maps, creates and binds memory. A side (inputs, outputs) is on this path when all its tensors have memory."""

    def _set_up_memory(self) -> None:
        self._memories: weakref.WeakSet[Rknn1Memory] = weakref.WeakSet()
        self._bound: dict[tuple[bool, int], Rknn1Memory] = {}
        self._mappings: dict[bool, weakref.ref[Native]] = {}

    def map_inputs(self) -> list[Rknn1Memory]:
        """The library's own memory of all inputs, in the form of ``native_inputs``; ``run`` reads it."""
        return self._map(True)

    def map_outputs(self) -> list[Rknn1Memory]:
        """The library's own memory of all outputs, in the form of ``native_outputs``; ``run`` writes it."""
        return self._map(False)

    def _map(self, is_input: bool) -> list[Rknn1Memory]:
        with self.exclusive():
            word = _WORDS[is_input]
            earlier = self._mappings.get(is_input, lambda: None)()
            if self._on_side(is_input) or (earlier is not None and earlier.alive):
                raise ContextInvalid(
                    f"the {word} have memory already, or arrays of it are still alive; close that first"
                )
            parent, attrs = self._need().native, self._native_attrs[is_input]
            mems = memory.map_side(self._library, self, self._value, word, attrs, parent, self._owner)
            self._mappings[is_input] = weakref.ref(mems[0].native)
            self._bound.update({(is_input, index): mem for index, mem in enumerate(mems)})
            self._memories.update(mems)
            return mems

    def create_mem(self, size: int, flags: int = 0) -> Rknn1Memory:
        """``rknn_create_mem`` (drivers 1.7.5 and newer); ``flags`` are of librknnrt and must be 0."""
        with self.exclusive():
            if flags:
                raise ParamInvalid(f"flags {flags:#x}: rknn_create_mem of librknn_api takes none")
            mem = memory.allocate(self._library, self, self._value, size, self._need().native, self._owner)
            self._memories.add(mem)
            return mem

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        with self.step():
            if not isinstance(mem, Rknn1Memory) or mem not in self._memories:
                raise foreign_memory("create it in this one")
            self._need()
            is_input, index = self._place(attr)
            if mem.mapped:
                raise ParamInvalid("mapped memory is bound already, to the tensor it was mapped for")
            if mem.size < attr.size_with_stride:
                error = InputInvalid if is_input else OutputInvalid
                raise error(
                    f"tensor {attr.name}: the memory has {mem.size} bytes, {attr.size_with_stride} are needed"
                )
            struct = self._structs[is_input][index]
            code = self._library.function("rknn_set_io_mem")(self._value, mem.native.value, ct.byref(struct))
            check("rknn_set_io_mem", code, f"the library does not take {attr}" if code == -5 else "")
            self._bound[is_input, index] = mem

    def _place(self, attr: TensorAttr) -> tuple[bool, int]:
        """Which tensor an attribute is of; it must be as it was reported, the library converts nothing here."""
        for is_input, attrs in self._native_attrs.items():
            if attr in attrs:
                return is_input, attrs.index(attr)
        legal = "; ".join(str(known) for attrs in self._native_attrs.values() for known in attrs)
        raise ParamInvalid(
            f"bind takes one of native_inputs and native_outputs as it is, not {attr}; there are: {legal}"
        )

    def unbind(self, mem: Memory) -> None:
        """Run on ``mem`` no more; ``mem.close`` calls it. What was mapped with it goes with it."""
        with self._owner:
            for key in [key for key, bound in self._bound.items() if bound is mem or bound.closed]:
                del self._bound[key]

    def sync(self, mem: Memory, direction: str) -> None:
        """``rknn_inputs_sync`` for all inputs, where ``mem`` is one; ``run`` does so itself, for outputs as well."""
        check_direction(direction)
        with self.exclusive():
            self._need()
            side = next((key[0] for key, bound in self._bound.items() if bound is mem), None)
            if side is None:
                raise ParamInvalid(
                    "this memory is bound to no tensor: librknn_api syncs inputs and outputs only"
                )
            if side and side in _DIRECTIONS[direction]:
                self._sync_side(side)
            elif not side and side in _DIRECTIONS[direction]:
                self._outputs_awaited()

    def _outputs_awaited(self) -> None:
        """Wait for frames that write to memory of the program's, where any is under way."""
        raise NotImplementedError

    def _on_side(self, is_input: bool) -> bool:
        """Whether any tensor of a side has memory."""
        return any(key[0] is is_input for key in self._bound)

    def _check_side(self, is_input: bool) -> None:
        missing = [
            a.name for i, a in enumerate(self._native_attrs[is_input]) if (is_input, i) not in self._bound
        ]
        if missing:
            raise partly_bound(missing, _WORDS[is_input])

    def _sync_side(self, is_input: bool) -> None:
        self._check_side(is_input)
        mems = [self._bound[is_input, index] for index in range(len(self._native_attrs[is_input]))]
        name = f"rknn_{_WORDS[is_input]}_sync"
        check(name, self._library.function(name)(self._value, len(mems), _array(mems)))


def _array(mems: list[Rknn1Memory]) -> Any:
    """What ``sync`` takes: the very array that was mapped, or copies of the structures that were created."""
    if mems[0].mapped:
        return mems[0].native.value
    return abi.array_of(abi.TensorMem, len(mems))(*(mem.native.value.contents for mem in mems))
