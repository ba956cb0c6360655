"""The zero-copy path on the CPU reference: the rules of a board, on memory that any program can share.

Memory is read when a run begins and written when it ends, in exactly the type, layout and stride that it was
bound with. Nothing is faster here than on the common path: the point is that a program which is wrong on a
board is wrong here as well, and hears why.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from typing import Any, Optional

import numpy as np

from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError, TargetPlatformUnmatch
from rknnlite.formats import IoTensor, Model
from rknnlite.formats.tensor_attrs import native_input, native_output
from rknnlite.layout import nchw_to_nc1hwc2, nchw_to_nhwc, nchw_to_nhwc_shape
from rknnlite.spi import AttrKind, Context, Input, Memory, zero_copy
from rknnlite.spi.exclusive import Unchanged, debugging
from rknnlite.spi.zero_copy import MIXED, Place
from rknnlite.tensor import Layout, TensorAttr

from .cache_coherence import CacheCoherence
from .frame import Frame
from .memory import CpuMemory, allocate, from_fd
from .node_view import Array

__all__ = ["ZeroCopyContext", "lender"]

_DIRECTIONS = ("to_device", "from_device", "both")
_NATIVE_NHWC = {AttrKind.NATIVE_NHWC_INPUT: True, AttrKind.NATIVE_NHWC_OUTPUT: False}


class ZeroCopyContext(Context):
    """Creates, imports and binds memory; a subclass says what the current inputs and outputs are."""

    _outside: Optional[str] = None
    _coherence: CacheCoherence
    _inputs: list[TensorAttr]
    _outputs: list[TensorAttr]

    def __init__(self) -> None:
        super().__init__()
        self._bound: dict[tuple[bool, int], tuple[CpuMemory, TensorAttr]] = {}
        self._memories: weakref.WeakSet[CpuMemory] = weakref.WeakSet()
        self._given: dict[str, CpuMemory] = {}
        self._common = False
        self._unchanged: Optional[Unchanged] = None

    @property
    def lent(self) -> Model:
        """The model that lends its weights."""
        raise NotImplementedError

    def _io_tensors(self) -> tuple[list[IoTensor], list[IoTensor]]:
        """Inputs and outputs of the current shapes as the file has them."""
        raise NotImplementedError

    # -- attributes ---------------------------------------------------------------------------------------

    @property
    def native_inputs(self) -> list[TensorAttr]:
        ins, _ = self._io_tensors()
        return [native_input(i, io, self.batch, self.soc) for i, io in enumerate(ins)]

    @property
    def native_outputs(self) -> list[TensorAttr]:
        if self._has_post:
            return self._outputs
        _, outs = self._io_tensors()
        return [native_output(i, io, self.batch, self.soc) for i, io in enumerate(outs)]

    @property
    def _has_post(self) -> bool:
        return False

    def attrs(self, kind: AttrKind) -> list[TensorAttr]:
        if kind not in _NATIVE_NHWC:
            return super().attrs(kind)
        is_input = _NATIVE_NHWC[kind]
        natives = self.native_inputs if is_input else self.native_outputs
        plain = self._inputs if is_input else self._outputs
        return [_as_nhwc(attr, other, is_input) for attr, other in zip(natives, plain)]

    # -- memory -------------------------------------------------------------------------------------------

    def create_mem(self, size: int, flags: int = 0) -> CpuMemory:
        """``flags``: 1 cacheable (the default), 2 not cacheable, 4 in SRAM if possible; no difference here."""
        with self.exclusive():
            return self._own(allocate(size, flags))

    def import_mem(self, handle: int, size: int, offset: int = 0) -> CpuMemory:
        with self.exclusive():
            return self._own(from_fd(handle, size, offset))

    def import_phys(self, address: int, size: int, virtual: int = 0) -> Memory:
        raise ParamInvalid(
            "the CPU reference has no physical addresses; import memory by its file descriptor"
        )

    def _own(self, mem: CpuMemory) -> CpuMemory:
        self._memories.add(mem)
        me = weakref.ref(self)
        mem.on_close = lambda closed: _unbind(me(), closed)
        return mem

    def _forget(self, mem: Memory) -> None:
        """A memory is closed: what it was bound to needs another before the next run."""
        for key in [key for key, (bound, _) in self._bound.items() if bound is mem]:
            del self._bound[key]

    def _mine(self, mem: Memory) -> CpuMemory:
        if not isinstance(mem, CpuMemory) or mem not in self._memories:
            raise ParamInvalid(
                "this memory belongs to another context; share it by its file descriptor: import_mem(mem.fd, ...)"
            )
        if mem.closed:
            raise ContextInvalid("this memory is closed; create it again")
        return mem

    def sync(self, mem: Memory, direction: str) -> None:
        if direction not in _DIRECTIONS:
            raise ParamInvalid(f"direction {direction!r} is not one of {', '.join(_DIRECTIONS)}")
        with self.exclusive():
            self._coherence.sync(self._mine(mem), direction)

    # -- binding ------------------------------------------------------------------------------------------

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        with self.exclusive():
            if self._common:
                raise ContextInvalid(MIXED)
            if self._has_post:
                raise ParamInvalid("a context with a post-process plugin has no zero-copy path")
            mine = self._mine(mem)
            place = zero_copy.place_of(attr, self._places())
            zero_copy.check_binding(place, attr, mine.size, mine.offset)
            self._bound[place.is_input, place.index] = (mine, attr)

    def _places(self) -> list[Place]:
        found = []
        for is_input, kinds in (
            (True, (AttrKind.NATIVE_INPUT, AttrKind.NATIVE_NHWC_INPUT, AttrKind.INPUT)),
            (False, (AttrKind.NATIVE_OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT, AttrKind.OUTPUT)),
        ):
            rows = zip(*(self.attrs(kind) for kind in kinds))
            found += [Place(is_input, i, zero_copy.forms(*attrs)) for i, attrs in enumerate(rows)]
        return found

    def _bound_inputs(self) -> list[Input]:
        """The data in the memory bound to the inputs; raises ContextInvalid where something is missing."""
        missing = [p.label for p in self._places() if (p.is_input, p.index) not in self._bound]
        if missing:
            raise ContextInvalid(
                f"memory is bound to some tensors only; bind {', '.join(missing)} before running"
            )
        ins, _ = self._io_tensors()
        natives = self.native_inputs
        found = []
        for i, io in enumerate(ins):
            mem, attr = self._bound[True, i]
            data = self._coherence.read(mem, f"input {io.name}")
            found.append(_read(data, attr, natives[i]))
        if debugging():
            self._unchanged = Unchanged([self._bound[True, i][0].ndarray for i in range(len(ins))])
        return found

    def _write_bound(self, frame: Frame) -> None:
        """Put the results into the memory bound to the outputs; raises InputInvalid, see ``Unchanged``."""
        unchanged, self._unchanged = self._unchanged, None
        if unchanged is not None:
            unchanged.check()
        stored: Optional[list[Array]] = None
        real: Optional[list[Array]] = None
        for index, native in enumerate(self.native_outputs):
            mem, attr = self._bound[False, index]
            if attr.dtype is native.dtype:
                stored = stored or frame.elements()
                value = stored[index]
            else:
                real = real or frame.floats()
                value = real[index].astype(attr.dtype.numpy)
            if attr.layout is Layout.NC1HWC2:
                value = _packed(value, attr.dims)
            elif attr.layout is Layout.NHWC:
                value = nchw_to_nhwc(value)
            self._coherence.write(mem, np.ascontiguousarray(value).reshape(-1).view(np.uint8))

    # -- weights and internal tensors ------------------------------------------------------------------------

    def set_weight_mem(self, mem: Memory) -> None:
        self._give("weights", mem, self.memory().weight)

    def set_internal_mem(self, mem: Memory) -> None:
        self._give("internal tensors", mem, self.memory().internal)

    def _give(self, what: str, mem: Memory, need: int) -> None:
        with self.exclusive():
            mine = self._mine(mem)
            if mine.size < need:
                raise ParamInvalid(f"the memory has {mine.size} bytes, {what} need {need}")
            self._given[what] = mine

    def _hold_internal(self) -> _Held:
        """Hold the internal memory during a run; refused while another context runs on it."""
        wanted = self._outside
        needs = {"all": ("weights", "internal tensors"), "internal": ("internal tensors",)}.get(
            wanted or "", ()
        )
        missing = [what for what in needs if what not in self._given or self._given[what].closed]
        if missing:
            raise RknnError(
                f"memory for {' and '.join(missing)} is missing: the context was opened with outside={wanted!r}, "
                "give it with set_weight_mem and set_internal_mem before running"
            )
        mem = self._given.get("internal tensors")
        return _Held(None if mem is None else mem.place)

    def _check_dup(self, label: str) -> None:
        """Raise what the runtime answers where a context cannot be duplicated."""
        if self.shapes:
            raise ParamInvalid(f"{label} has dynamic shapes: such contexts cannot be duplicated")
        if self.soc.zero_copy_only:
            raise TargetPlatformUnmatch(f"{self.soc.name} has no rknn_dup_context; open the model again")


class _Held:
    """Internal memory in use by one run."""

    _lock = threading.Lock()
    _places: set[tuple[int, int, int]] = set()  # noqa: RUF012  shared on purpose

    def __init__(self, place: Optional[tuple[int, int, int]]) -> None:
        self._place = place

    def __enter__(self) -> None:
        if self._place is None:
            return
        with self._lock:
            if self._place in self._places:
                raise ContextInvalid(
                    "another context is running on the same internal memory; contexts that share it run in turn"
                )
            self._places.add(self._place)

    def __exit__(self, *exc: Any) -> None:
        if self._place is not None:
            with self._lock:
                self._places.discard(self._place)


def lender(label: str, master: Any, dynamic: bool) -> Optional[Model]:
    """The model of the context whose weights a model without weights shares; None without a context.

    Raises:
        ParamInvalid: it is no open context of this backend, or the model has dynamic shapes.
    """
    if master is None:
        return None
    if dynamic:
        raise ParamInvalid(f"{label} has dynamic shapes: such a model cannot share the weights of another")
    if not isinstance(master, ZeroCopyContext) or master.closed:
        raise ParamInvalid("master must be an open context of backend cpu")
    return master.lent


def _unbind(context: Optional[ZeroCopyContext], mem: Memory) -> None:
    if context is not None:
        context._forget(mem)


def _as_nhwc(native: TensorAttr, plain: TensorAttr, is_input: bool) -> TensorAttr:
    """The NHWC form of a native attribute; the native one itself where the tensor has none."""
    if native.layout is not Layout.NC1HWC2 and (is_input or len(plain.dims) != 4):
        return native
    dims = plain.dims if is_input else nchw_to_nhwc_shape(plain.dims)
    nhwc = replace(native, dims=dims, layout=Layout.NHWC, w_stride=0, size_with_stride=0)
    return replace(nhwc, w_stride=dims[2], size_with_stride=nhwc.size)


def _packed(value: Array, dims: tuple[int, ...]) -> Array:
    """[N, C, H, W] -> NC1HWC2 of ``dims``, which may have more groups, rows and columns than the values fill."""
    packed = nchw_to_nc1hwc2(value, dims[-1])
    if packed.shape == dims:
        return packed
    out = np.zeros(dims, packed.dtype)
    _, groups, height, width, _ = packed.shape
    out[:, :groups, :height, :width] = packed
    return out


def _elements(data: Array, attr: TensorAttr, count: int) -> Array:
    return data[: count * attr.dtype.numpy.itemsize].view(attr.dtype.numpy)


def _read(memory: Array, attr: TensorAttr, native: TensorAttr) -> Input:
    """What the common path would be given for the bytes of ``memory``, which lie as ``attr`` says."""
    stored = attr.dtype is native.dtype and attr.layout is not Layout.NCHW
    if attr.layout is not Layout.NHWC:
        layout = Layout.NCHW if attr.layout is Layout.NCHW else Layout.UNDEFINED
        data = _elements(memory, attr, attr.n_elems).reshape(attr.dims)
        return Input(attr.index, data, layout, pass_through=stored)
    n, h, w, c = attr.dims
    padded = attr.dtype.bits == native.dtype.bits and native.layout is Layout.NHWC
    columns, rows = (native.w_stride if padded else w) or w, attr.h_stride or h
    flat = _elements(memory, attr, n * rows * columns * c)
    data = flat.reshape(n, rows, columns, c)[:, :h, :w]
    if stored and native.layout is Layout.NC1HWC2:
        data = nchw_to_nc1hwc2(data.transpose(0, 3, 1, 2), native.dims[-1])
    return Input(native.index, data, Layout.NHWC, pass_through=stored)
