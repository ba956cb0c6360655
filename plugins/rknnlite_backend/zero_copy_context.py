"""The zero-copy path of contexts that compute in this process: the rules of a board, on memory that any program can share.

Nothing is faster here than on the common path: the point is that a program which is wrong on a board is wrong here
as well, and hears why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

from rknnlite.errors import ParamInvalid
from rknnlite.formats import Model
from rknnlite.layout import nchw_to_nhwc_shape
from rknnlite.spi import AttrKind, Context, Memory
from rknnlite.tensor import Layout, TensorAttr

from . import zero_copy
from .bindings import INTERNAL, WEIGHTS, Bindings
from .host_memory import HostMemory
from .running import both_paths
from .zero_copy import Place

__all__ = ["ZeroCopyContext", "lender"]

_NATIVE_NHWC = {AttrKind.NATIVE_NHWC_INPUT: True, AttrKind.NATIVE_NHWC_OUTPUT: False}


class ZeroCopyContext(Context):
    """Creates, imports and binds memory; a subclass says what the current inputs and outputs are.

    A context keeps to one path: who has set inputs binds no memory, and who has bound memory sets no inputs. Unless
    ``mixed_paths`` says so: then what came last counts for an input, and all outputs are to be had on both.
    """

    def __init__(self, bindings: Bindings) -> None:
        super().__init__()
        self._bindings = bindings
        self._common = False  # inputs were set

    @property
    def lent(self) -> Model:
        """The model that lends its weights."""
        raise NotImplementedError

    @property
    def _has_post(self) -> bool:
        """Whether a post-process plugin replaces the outputs."""
        raise NotImplementedError

    def attrs(self, kind: AttrKind) -> list[TensorAttr]:
        if kind not in _NATIVE_NHWC:
            return super().attrs(kind)
        is_input = _NATIVE_NHWC[kind]
        natives = self.native_inputs if is_input else self.native_outputs
        plain = self.inputs if is_input else self.outputs
        return [_as_nhwc(attr, other, is_input) for attr, other in zip(natives, plain)]

    # -- memory -------------------------------------------------------------------------------------------

    def create_mem(self, size: int, flags: int = 0) -> HostMemory:
        """``flags``: 1 cacheable (the default), 2 not cacheable, 4 in SRAM if possible; no difference here."""
        with self.exclusive():
            return self._bindings.own(self._allocate(size, flags))

    def import_mem(self, handle: int, size: int, offset: int = 0) -> HostMemory:
        with self.exclusive():
            return self._bindings.own(self._import(handle, size, offset))

    def _allocate(self, size: int, flags: int) -> HostMemory:
        return HostMemory.allocate(size, flags)

    def _import(self, fd: int, size: int, offset: int) -> HostMemory:
        return HostMemory.from_fd(fd, size, offset)

    def import_phys(self, address: int, size: int, virtual: int = 0) -> HostMemory:
        """``virtual`` is where the bytes are for the CPU; they stay the caller's, who frees them after ``close``."""
        if not virtual:
            raise ParamInvalid(
                "the CPU reference has no physical addresses; give the virtual one, or import memory by its file "
                "descriptor"
            )
        with self.exclusive():
            return self._bindings.own(HostMemory.from_address(virtual, size, address))

    def sync(self, mem: Memory, direction: str) -> None:
        zero_copy.check_direction(direction)
        with self.exclusive():
            self._bindings.sync(mem, direction)

    # -- binding ------------------------------------------------------------------------------------------

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        with self.step():
            if self._common and not self.mixed_paths:
                raise both_paths()
            if self._has_post:
                raise ParamInvalid("a context with a post-process plugin has no zero-copy path")
            mine = self._bindings.mine(mem)
            place = zero_copy.place_of(attr, self._places())
            attr = zero_copy.check_binding(place, attr, mine.size, mine.offset)
            self._bindings.bind(place, attr, mine)

    def _places(self) -> list[Place]:
        found = []
        for is_input, kinds in (
            (True, (AttrKind.NATIVE_INPUT, AttrKind.NATIVE_NHWC_INPUT, AttrKind.INPUT)),
            (False, (AttrKind.NATIVE_OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT, AttrKind.OUTPUT)),
        ):
            rows = zip(*(self.attrs(kind) for kind in kinds))
            found += [Place(is_input, i, zero_copy.forms(*attrs)) for i, attrs in enumerate(rows)]
        return found

    # -- weights and internal tensors ------------------------------------------------------------------------

    def set_weight_mem(self, mem: Memory) -> None:
        need = self.memory().weight
        with self.exclusive():
            self._bindings.give(WEIGHTS, mem, need)

    def set_internal_mem(self, mem: Memory) -> None:
        need = self.memory().internal
        with self.exclusive():
            self._bindings.give(INTERNAL, mem, need)


def lender(label: str, master: Any, dynamic: bool, backend: str = "cpu") -> Optional[Model]:
    """The model of the context whose weights a model without weights shares; None without a context.

    Raises:
        ParamInvalid: it is no open context of this backend, or the model has dynamic shapes.
    """
    if master is None:
        return None
    if dynamic:
        raise ParamInvalid(f"{label} has dynamic shapes: such a model cannot share the weights of another")
    if not isinstance(master, ZeroCopyContext) or master.closed or master.backend_name != backend:
        raise ParamInvalid(f"master must be an open context of backend {backend}")
    return master.lent


def _as_nhwc(native: TensorAttr, plain: TensorAttr, is_input: bool) -> TensorAttr:
    """The NHWC form of a native attribute; the native one itself where the tensor has none."""
    if native.layout is not Layout.NC1HWC2 and (is_input or len(plain.dims) != 4):
        return native
    dims = plain.dims if is_input else nchw_to_nhwc_shape(plain.dims)
    nhwc = replace(native, dims=dims, layout=Layout.NHWC, w_stride=0, size_with_stride=0)
    return replace(nhwc, w_stride=dims[2] if is_input else 0, size_with_stride=nhwc.size)
