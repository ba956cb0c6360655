"""Memory that one context holds: what it created or imported, what is bound to which tensor, what it was given.

Memory is read when a run begins and written when it ends, in exactly the type, layout and stride that it was
bound with.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.layout import nchw_to_nc1hwc2, nchw_to_nhwc
from rknnlite.log import logger
from rknnlite.spi import Input, Memory
from rknnlite.spi.exclusive import Unchanged, debugging
from rknnlite.tensor import Layout, TensorAttr

from .host_memory import HostMemory
from .running import partly_bound
from .zero_copy import Place, closed_meanwhile, closed_memory, foreign_memory

if TYPE_CHECKING:
    from .cache_coherence import CacheCoherence

__all__ = ["INTERNAL", "WEIGHTS", "Bindings", "BoundFrame", "FrameOutputs"]

Array = NDArray[Any]

WEIGHTS, INTERNAL = "weights", "internal tensors"
_OUTSIDE = {"all": (WEIGHTS, INTERNAL), "internal": (INTERNAL,)}
"""What the caller gives, by the option ``outside``."""


class FrameOutputs(Protocol):
    """Results of a frame in logical order, batch items behind each other."""

    def elements(self) -> list[Array]:
        """The outputs as the file stores them."""

    def floats(self) -> list[Array]:
        """The outputs in float32."""


class Bindings:
    """The memory of one context; a duplicate begins with none."""

    def __init__(self, coherence: Callable[[], CacheCoherence], outside: Optional[str]) -> None:
        """``coherence`` is asked once there is memory; most contexts never have any."""
        self._new_coherence = coherence
        self._outside = outside
        self._memories: weakref.WeakSet[HostMemory] = weakref.WeakSet()
        self._bound: dict[tuple[bool, int], tuple[HostMemory, TensorAttr]] = {}
        self._given: dict[str, HostMemory] = {}
        self._warned: set[int] = set()
        self.changes = 0
        """How often something was bound or let go; who has looked at it may look again when this has grown."""

    @property
    def bound(self) -> bool:
        """Whether memory is bound to any tensor."""
        return bool(self._bound)

    @functools.cached_property
    def _coherence(self) -> CacheCoherence:
        return self._new_coherence()

    # -- memory -------------------------------------------------------------------------------------------

    def own(self, mem: HostMemory) -> HostMemory:
        """Take memory that was just made; it is closed with the context or earlier."""
        self._memories.add(mem)
        self._coherence.own(mem)
        me = weakref.ref(self)
        mem.on_close = lambda closed: _unbind(me(), closed)
        return mem

    def mine(self, mem: Memory) -> HostMemory:
        """The memory, if it belongs here and is open; else ParamInvalid, ContextInvalid."""
        if not isinstance(mem, HostMemory) or mem not in self._memories:
            raise foreign_memory()
        if mem.closed:
            raise closed_memory()
        return mem

    def sync(self, mem: Memory, direction: str) -> None:
        """``to_device``, ``from_device`` or ``both``."""
        self._coherence.sync(self.mine(mem), direction)

    def close(self) -> None:
        """Close all memory."""
        self.clear()
        self._given.clear()
        for mem in list(self._memories):
            mem.close()

    # -- binding ------------------------------------------------------------------------------------------

    def bind(self, place: Place, attr: TensorAttr, mem: HostMemory) -> None:
        """Use ``mem`` for a tensor until it is bound anew."""
        self._bound[place.is_input, place.index] = (mem, attr)
        self.changes += 1
        if (
            place.is_input
            and place.index not in self._warned
            and _seems_padded(attr, place.forms[0], mem.size)
        ):
            self._warned.add(place.index)
            logger.warning(
                "%s: rows of %s are taken without padding, %d pixels each, as the user guide has it for %s networks (10.9), "
                "though w_stride is %d; write them so, and give w_stride 0",
                place.label,
                attr.dtype.name,
                attr.dims[2],
                place.forms[0].dtype.name,
                attr.w_stride,
            )

    def memory_of(self, is_input: bool, index: int) -> Optional[tuple[HostMemory, TensorAttr]]:
        """What is bound to a tensor, and as what."""
        return self._bound.get((is_input, index))

    def clear(self) -> None:
        """The shape has changed: everything is to be bound again."""
        self._bound.clear()
        self.changes += 1

    def clear_inputs(self) -> None:
        """Inputs are given otherwise from now on."""
        for key in [key for key in self._bound if key[0]]:
            del self._bound[key]
        self.changes += 1

    def unbind(self, mem: Memory) -> None:
        """A memory is closed: what it was bound to needs another before the next run."""
        for key in [key for key, (bound, _) in self._bound.items() if bound is mem]:
            del self._bound[key]
        self.changes += 1

    def begin(
        self, places: Sequence[Place], natives: Sequence[TensorAttr], partly: bool = False
    ) -> BoundFrame:
        """What a frame that begins now reads and writes; raises ContextInvalid where something is missing.

        Args:
            partly: tensors without memory are the caller's business.
        """
        missing = [p.label for p in places if (p.is_input, p.index) not in self._bound]
        if missing and not partly:
            raise partly_bound(missing)
        return BoundFrame(self._coherence, dict(self._bound), natives)

    # -- weights and internal tensors ----------------------------------------------------------------------

    def give(self, what: str, mem: Memory, need: int) -> None:
        """Memory for ``WEIGHTS`` or ``INTERNAL`` from the caller; raises ParamInvalid when it is too small."""
        mine = self.mine(mem)
        if mine.size < need:
            raise ParamInvalid(f"the memory has {mine.size} bytes, {what} need {need}")
        self._given[what] = mine

    def hold_internal(self) -> _Held:
        """Hold the internal memory during a run; refused while another context runs on it."""
        if not self._outside and not self._given:
            return _NOTHING_HELD
        needs = _OUTSIDE.get(self._outside or "", ())
        missing = [what for what in needs if what not in self._given or self._given[what].closed]
        if missing:
            raise RknnError(
                f"memory for {' and '.join(missing)} is missing: the context was opened with "
                f"outside={self._outside!r}, give it with set_weight_mem and set_internal_mem before running"
            )
        mem = self._given.get(INTERNAL)
        return _Held(None if mem is None else mem.place)


class BoundFrame:
    """The memory of one frame, as it was bound when the frame began. Data is read then, and written when it ends."""

    def __init__(
        self,
        coherence: CacheCoherence,
        bound: dict[tuple[bool, int], tuple[HostMemory, TensorAttr]],
        natives: Sequence[TensorAttr],
    ) -> None:
        self._coherence, self._bound = coherence, bound
        self.inputs = {i: self._input(i, native) for i, native in enumerate(natives) if (True, i) in bound}
        """What the common path would be given, by the index of the input."""
        memories = [bound[True, i][0].ndarray for i in self.inputs]
        self._unchanged = Unchanged(memories) if debugging() else None

    def _input(self, index: int, native: TensorAttr) -> Input:
        mem, attr = self._bound[True, index]
        return _read(self._coherence.read(mem, f"input {native.name}"), attr, native)

    def write(
        self, frame: FrameOutputs, natives: Sequence[TensorAttr], written: Collection[int] = ()
    ) -> None:
        """Put the results into the memory of the outputs; those that are ``written`` are there already.

        Raises:
            InputInvalid: see ``Unchanged``.
            ContextInvalid: the memory of an output was closed while the frame ran.
        """
        if self._unchanged is not None:
            self._unchanged.check()
        stored: Optional[list[Array]] = None
        real: Optional[list[Array]] = None
        for index, native in enumerate(natives):
            if (False, index) not in self._bound or index in written:
                continue
            mem, attr = self._bound[False, index]
            if mem.closed:
                raise closed_meanwhile(f"output {native.name}")
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


def _unbind(bindings: Optional[Bindings], mem: Memory) -> None:
    if bindings is not None:
        bindings.unbind(mem)


class _Held:
    """Internal memory in use by one run."""

    _places: dict[tuple[int, int, int], _Held] = {}  # noqa: RUF012  shared on purpose, and without a lock: see ``__enter__``

    def __init__(self, place: Optional[tuple[int, int, int]]) -> None:
        self._place = place

    def __enter__(self) -> None:
        if self._place is None:
            return
        # One step for threads and for a signal handler, which may wait for another context in the middle of this one's.
        if self._places.setdefault(self._place, self) is not self:
            raise ContextInvalid(
                "another context is running on the same internal memory; contexts that share it run in turn"
            )

    def __exit__(self, *exc: Any) -> None:
        if self._place is not None:
            self._places.pop(self._place, None)


_NOTHING_HELD = _Held(None)


def _packed(value: Array, dims: tuple[int, ...]) -> Array:
    """[N, C, H, W] -> NC1HWC2 of ``dims``, which may have more groups, rows and columns than the values fill.

    One row in ``dims`` holds the rows of the values one behind the other (``tensor_attrs.native_output``).
    """
    packed = nchw_to_nc1hwc2(value, dims[-1])
    if packed.shape == dims:
        return packed
    n, groups, height, width, lanes = packed.shape
    if dims[2] == 1:
        packed = packed.reshape(n, groups, 1, height * width, lanes)
        height, width = 1, height * width
    out = np.zeros(dims, packed.dtype)
    out[:, :groups, :height, :width] = packed
    return out


def _elements(data: Array, attr: TensorAttr, count: int) -> Array:
    return data[: count * attr.dtype.numpy.itemsize].view(attr.dtype.numpy)


def _seems_padded(attr: TensorAttr, native: TensorAttr, size: int) -> bool:
    """Whether rows may have been written ``w_stride`` apart though only elements as wide as the network's have padding.

    The vendor's programs go by the ``w_stride`` that they were told, of whichever type they write.
    """
    if len(attr.dims) != 4 or attr.layout is not Layout.NHWC or attr.dtype.bits == native.dtype.bits:
        return False
    n, h, w, c = attr.dims
    return w < attr.w_stride and n * (attr.h_stride or h) * attr.w_stride * c * attr.dtype.bits // 8 <= size


def _read(memory: Array, attr: TensorAttr, native: TensorAttr) -> Input:
    """What the common path would be given for the bytes of ``memory``, which lie as ``attr`` says."""
    stored = attr.dtype is native.dtype and (attr.layout is not Layout.NCHW or attr.pass_through)
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
