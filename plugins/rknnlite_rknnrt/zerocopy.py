"""The zero-copy path: memory that program and NPU share, bound to inputs and outputs.

Most programs never come here: ``memory`` and the rules of binding are imported when some memory is made.
"""

from __future__ import annotations

import ctypes as ct
from typing import TYPE_CHECKING

from rknnlite_backend.crash import calls
from rknnlite_backend.running import both_paths

from rknnlite.errors import ParamInvalid
from rknnlite.spi import AttrKind, Memory
from rknnlite.tensor import TensorAttr

from . import abi
from .attrs import to_struct
from .errors import check
from .queries import QueryContext

if TYPE_CHECKING:
    from rknnlite_backend.zero_copy import Place

    from .memory import RknnrtMemory

__all__ = ["ZeroCopyContext"]

_SYNC = {
    "to_device": abi.MemSync.TO_DEVICE,
    "from_device": abi.MemSync.FROM_DEVICE,
    "both": abi.MemSync.BIDIRECTIONAL,
}


class ZeroCopyContext(QueryContext):
    """Creates, imports and binds memory."""

    def create_mem(self, size: int, flags: int = 0) -> RknnrtMemory:
        """``flags`` are ``abi.MemAlloc`` bits (cacheable by default)."""
        from . import memory

        with self.exclusive():
            parents = (self._need().native,)
            return self._own(memory.allocate(self._library, self._value, size, flags, parents, self._owner))

    def import_mem(self, handle: int, size: int, offset: int = 0) -> RknnrtMemory:
        from . import memory

        with self.exclusive():
            parents = (self._need().native,)
            return self._own(
                memory.from_fd(self._library, self._value, handle, size, offset, parents, self._owner)
            )

    def import_phys(self, address: int, size: int, virtual: int = 0) -> RknnrtMemory:
        from . import memory

        with self.exclusive():
            parents = (self._need().native,)
            return self._own(
                memory.from_phys(self._library, self._value, address, virtual, size, parents, self._owner)
            )

    def _own(self, mem: RknnrtMemory) -> RknnrtMemory:
        self._memories.add(mem)
        mem.belongs_to(self)
        return mem

    def unbind(self, mem: Memory) -> None:
        """Run on ``mem`` no more: what it was bound to needs other memory first. ``mem.close`` calls it."""
        with self._owner:
            for key in [key for key, bound in self._bound.items() if bound is mem]:
                del self._bound[key]
                self._ready = False

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        from rknnlite_backend import zero_copy

        with self.step():
            if self._common:
                raise both_paths()
            mine = self._mine(mem)
            pointer = mine.require()
            place = zero_copy.place_of(attr, self._all_places())
            attr = zero_copy.check_binding(place, attr, mem.size, mem.offset)
            struct = to_struct(attr)
            code = self._library.function("rknn_set_io_mem")(self._value, pointer, ct.byref(struct))
            check("rknn_set_io_mem", code, f"{place.label} does not take {attr}" if code == -5 else "")
            self._zero_copy = True
            self._bound[place.is_input, place.index] = mine
            self._ready = len(self._bound) == len(self._places)

    def _mine(self, mem: Memory) -> RknnrtMemory:
        """The memory, which belongs to this context; raises ParamInvalid, ContextInvalid."""
        from rknnlite_backend import zero_copy

        from .memory import RknnrtMemory

        if not isinstance(mem, RknnrtMemory) or mem not in self._memories:
            raise zero_copy.foreign_memory()
        mem.require()
        return mem

    def _all_places(self) -> list[Place]:
        if not self._places:
            self._places = [*self._places_of(True), *self._places_of(False)]
        return self._places

    def _places_of(self, is_input: bool) -> list[Place]:
        from rknnlite_backend import zero_copy

        native = self._attrs(AttrKind.NATIVE_INPUT if is_input else AttrKind.NATIVE_OUTPUT)
        kind = AttrKind.NATIVE_NHWC_INPUT if is_input else AttrKind.NATIVE_NHWC_OUTPUT
        try:
            nhwc = self._attrs(kind)
        except ParamInvalid:  # a library that does not know this form
            nhwc = native
        plain = self._inputs if is_input else self._outputs
        return [
            zero_copy.Place(is_input, index, zero_copy.forms(*attrs))
            for index, attrs in enumerate(zip(native, nhwc, plain))
        ]

    def set_weight_mem(self, mem: Memory) -> None:
        self._give("rknn_set_weight_mem", mem, "weights", self.memory().weight)

    def set_internal_mem(self, mem: Memory) -> None:
        self._give("rknn_set_internal_mem", mem, "internal tensors", self.memory().internal)

    def _give(self, function: str, mem: Memory, what: str, need: int) -> None:
        with self.exclusive():
            mine = self._mine(mem)
            if mem.size < need:
                raise ParamInvalid(f"the memory has {mem.size} bytes, {what} need {need}")
            check(function, self._library.function(function)(self._value, mine.require()))
            self._given[function] = mine.native  # stays as long as C may use it, whoever closes the memory

    @calls("backend rknnrt: rknn_mem_sync")
    def sync(self, mem: Memory, direction: str) -> None:
        from rknnlite_backend import zero_copy

        zero_copy.check_direction(direction)
        with self.exclusive():
            code = self._library.bare("rknn_mem_sync")(
                self._value, self._mine(mem).require(), _SYNC[direction]
            )
            check("rknn_mem_sync", code)
