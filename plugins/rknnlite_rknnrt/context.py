"""One model on librknnrt."""

from __future__ import annotations

import ctypes as ct
import dataclasses
import functools
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from rknnlite import socs
from rknnlite.errors import ContextInvalid, InputInvalid, OutputInvalid, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import (
    AttrKind,
    Context,
    CustomOp,
    Input,
    Memory,
    MemorySize,
    OpenOptions,
    PerfRow,
    Versions,
)
from rknnlite.tensor import Layout, TensorAttr

from . import abi, binding, memory, perf
from .attrs import QUERIES, from_struct, read_ranges, read_struct, reshaped, to_struct
from .buffers import Array
from .customop import Registration
from .diagnose import metadata
from .feed import InputFeed
from .fetch import OutputFetch
from .loader import Library
from .memory import RknnrtMemory
from .native import call_error, check
from .session import Session
from .settings import Settings

__all__ = ["RknnrtContext"]

_SYNC = {
    "to_device": abi.MemSync.TO_DEVICE,
    "from_device": abi.MemSync.FROM_DEVICE,
    "both": abi.MemSync.BIDIRECTIONAL,
}
_CURRENT = {
    AttrKind.INPUT: AttrKind.CURRENT_INPUT,
    AttrKind.OUTPUT: AttrKind.CURRENT_OUTPUT,
    AttrKind.NATIVE_INPUT: AttrKind.CURRENT_NATIVE_INPUT,
    AttrKind.NATIVE_OUTPUT: AttrKind.CURRENT_NATIVE_OUTPUT,
}
_MIXED = (
    "the common path (set_inputs, get_outputs) and the zero-copy path (bind) must not be mixed on one context; "
    "open a second one"
)


class RknnrtContext(Context):
    """See ``rknnlite.spi.Context``. ``handle`` and ``lib`` serve programs that call C functions themselves."""

    def __init__(
        self, library: Library, file: ModelFile, settings: Settings, options: OpenOptions, soc: socs.Soc
    ) -> None:
        super().__init__()
        session = Session.open(library, file, settings, soc, self._owner)
        self._set_up(session, file, settings, soc)
        try:
            if not settings.info_only:
                self._prepare(options.core_mask, options.custom_ops)
        except BaseException:
            self._abort()
            raise

    def _set_up(self, session: Session, file: ModelFile, settings: Settings, soc: socs.Soc) -> None:
        """Fields that need no call into the library."""
        self._session: Session | None = session
        self._library, self._file, self._settings, self._soc = session.library, file, settings, soc
        self._value = session.value
        self._label = file.label
        self._inputs: list[TensorAttr] = []
        self._outputs: list[TensorAttr] = []
        self._shapes: list[list[tuple[int, ...]]] = []
        self._shape_chosen = False
        self._feed: InputFeed | None = None
        self._fetch: dict[bool, OutputFetch] = {}
        self._places: list[binding.Place] = []
        self._bound: dict[tuple[bool, int], RknnrtMemory] = {}
        self._memories: weakref.WeakSet[RknnrtMemory] = weakref.WeakSet()
        self._given: list[RknnrtMemory] = []
        self._ops: list[CustomOp] = []
        self._failures: list[BaseException] = []
        self._registration: Registration | None = None
        self._core_mask: int | None = None
        self._common = self._ready = self._ran = self._running = False
        self._frame: int | None = None
        self._run_c = self._library.function("rknn_run")
        self._inputs_set = self._library.optional("rknn_inputs_set")
        self._outputs_get = self._library.optional("rknn_outputs_get")
        self._outputs_release = self._library.optional("rknn_outputs_release")
        _contexts.add(self)

    def _prepare(self, core_mask: int | None, ops: Sequence[CustomOp]) -> None:
        if core_mask:
            self.set_core_mask(core_mask)
        number = abi.InputOutputNum()
        self._need().query(abi.Query.IN_OUT_NUM, number)
        if not 0 < number.n_input <= 4096 or not 0 < number.n_output <= 4096:
            raise RknnError(f"the library answers {number.n_input} inputs and {number.n_output} outputs")
        self._counts = (number.n_input, number.n_output)
        model = metadata(self._file)
        if model is None or model.dynamic:  # asking a static model makes the library complain in its log
            query = self._library.function("rknn_query")
            self._shapes = read_ranges(query, self._value, number.n_input) or []
        self._read_attrs()
        if ops:
            self.register_ops(ops)

    def _read_attrs(self) -> None:
        """Attributes for the current shapes, and what is prepared from them."""
        self._inputs = [_nhwc(attr) for attr in self._attrs(AttrKind.INPUT)]
        outputs = self._attrs(AttrKind.OUTPUT)
        self._outputs = [_nchw(attr) for attr in outputs] if self._shape_chosen else outputs
        command = QUERIES[self._kind(AttrKind.NATIVE_INPUT)]
        query = self._library.function("rknn_query")
        self._feed = InputFeed(self._inputs, functools.partial(_attr, query, self._value, command))
        self._fetch = {}
        self._places = []
        self._bound.clear()
        self._ready = self._ran = False

    def _need(self) -> Session:
        if self._session is None:
            raise ContextInvalid(self._closed_reason)
        return self._session

    def _abort(self) -> None:
        """Give everything back although somebody (a traceback) may still refer to it."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            session.native.release()

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        return "rknnrt"

    @property
    def session(self) -> Session | None:
        """The context of the C API with its owner; None after ``close``."""
        return self._session

    @property
    def handle(self) -> Any:
        """``rknn_context`` as a ctypes object for C calls of the program; its value is 0 after ``close``."""
        return self._need().cell

    @property
    def lib(self) -> ct.CDLL:
        """The library for C calls of the program."""
        return self._library.public

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        return self._outputs

    @property
    def native_inputs(self) -> list[TensorAttr]:
        return self.attrs(AttrKind.NATIVE_INPUT)

    @property
    def native_outputs(self) -> list[TensorAttr]:
        return self.attrs(AttrKind.NATIVE_OUTPUT)

    @property
    def versions(self) -> Versions:
        found = abi.SdkVersion()
        with self.exclusive():
            self._need().query(abi.Query.SDK_VERSION, found)
        return Versions(_text(found.api_version), _text(found.drv_version), self._library.name)

    @property
    def soc(self) -> socs.Soc:
        return self._soc

    @property
    def batch(self) -> int:
        model = metadata(self._file)
        return 1 if model is None else model.batch

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return self._shapes

    @property
    def custom_string(self) -> str:
        found = abi.CustomString()
        with self.exclusive():
            self._need().query(abi.Query.CUSTOM_STRING, found)
        return _text(found.string)

    def attrs(self, kind: AttrKind) -> list[TensorAttr]:
        """Asked from the library every time; native ones are those of the current shapes."""
        with self.exclusive():
            return self._attrs(kind)

    def _kind(self, kind: AttrKind) -> AttrKind:
        return _CURRENT.get(kind, kind) if self._shape_chosen else kind

    def _attrs(self, kind: AttrKind) -> list[TensorAttr]:
        session, command = self._need(), QUERIES[self._kind(kind)]
        count = self._counts[0 if kind.value.endswith("input") else 1]
        query = session.library.function("rknn_query")
        return [_attr(query, session.value, command, index) for index in range(count)]

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            code = self._library.function("rknn_set_core_mask")(self._value, mask)
            if code:
                try:
                    self._soc.check_core_mask(mask)
                    detail = f"the library refuses core mask {mask:#x} for this model"
                except RknnError as error:
                    detail = str(error)
                raise call_error("rknn_set_core_mask", code, detail)
            self._core_mask = mask

    def set_batch_core_num(self, count: int) -> None:
        with self.exclusive():
            code = self._library.function("rknn_set_batch_core_num")(self._value, count)
            check("rknn_set_batch_core_num", code)

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        with self.exclusive():
            wanted = [tuple(int(dim) for dim in shape) for shape in shapes]
            if not self._shapes:
                raise ParamInvalid(f"{self._label} has static shapes: {[list(a.dims) for a in self._inputs]}")
            if wanted not in self._shapes:
                legal = "; ".join(str([list(shape) for shape in entry]) for entry in self._shapes)
                raise ParamInvalid(
                    f"{self._label}: input shapes {[list(s) for s in wanted]} are not among the model's: {legal}"
                )
            structs = (abi.TensorAttrStruct * len(wanted))(
                *(to_struct(reshaped(attr, dims)) for attr, dims in zip(self._inputs, wanted))
            )
            code = self._library.function("rknn_set_input_shapes")(self._value, len(wanted), structs)
            check("rknn_set_input_shapes", code)
            self._shape_chosen = True
            self._read_attrs()

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        """Register operators; those registered before stay (the C call alone would replace them)."""
        with self.exclusive():
            known = {op.op_type: op for op in (*self._ops, *ops)}
            registration = Registration(self._library, list(known.values()))
            self._need().keep.append(registration)
            function = self._library.function("rknn_register_custom_ops")
            code = function(self._value, registration.structs, registration.count)
            registration.raise_failure()
            check("rknn_register_custom_ops", code, f"operators {', '.join(known)} do not fit {self._label}")
            self._ops, self._registration = list(known.values()), registration
            self._failures = registration.failures

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        self._take()
        try:
            if self._bound:
                raise ContextInvalid(_MIXED)
            if self._shapes:
                self._follow_shapes(inputs)
            feed = self._feed
            if feed is None:
                raise ContextInvalid("a context that collects information only takes no inputs")
            held = feed.put(inputs)
            code = self._inputs_set(self._value, feed.count, feed.pointer)
            del held  # the library has its copy
            if code:
                self._ready = False
                raise call_error("rknn_inputs_set", code)
            self._common = self._ready = True
            self._ran = False
        finally:
            self._owner.release()

    def _follow_shapes(self, inputs: Sequence[Input]) -> None:
        """Choose the shapes that the arrays of a dynamic model have."""
        given = [_nhwc_shape(item) for item in sorted(inputs, key=lambda item: item.index)]
        if self._shape_chosen and given == [attr.dims for attr in self._inputs]:
            return
        if any(item.pass_through for item in inputs):
            if self._shape_chosen:
                return
            raise InputInvalid("choose the shape of a dynamic model before passing data through")
        try:
            self.set_shapes(given)
        except ParamInvalid as error:
            raise InputInvalid(str(error)) from None

    def run(self) -> None:
        self._take()
        try:
            self._run(None)
        finally:
            self._owner.release()

    def _run(self, extend: Any) -> None:
        if self._running or not self._ready:
            raise self._not_ready()
        self._ran = False
        self._running = True
        try:
            code = self._run_c(self._value, extend)
        finally:
            self._running = False
        if code or self._failures:
            if self._registration is not None:
                self._registration.raise_failure()
            raise call_error("rknn_run", code)
        self._ran = True

    def _not_ready(self) -> RknnError:
        if self._running:
            return ContextInvalid("run was called from inside a custom operator of the same context")
        if not self._bound:
            return ContextInvalid("set inputs (or bind memory) before running")
        missing = [place.label for place in self._places if (place.is_input, place.index) not in self._bound]
        return ContextInvalid(f"memory is bound to some tensors only; bind {', '.join(missing)} before running")

    def start(self, timeout_ms: int = 0) -> int:
        with self.exclusive():
            extend = abi.RunExtend(non_block=1, timeout_ms=timeout_ms, fence_fd=-1)
            self._run(ct.byref(extend))
            return int(extend.frame_id)

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        with self.exclusive():
            extend = abi.RunExtend(frame_id=frame_id, timeout_ms=timeout_ms, fence_fd=-1)
            code = self._library.function("rknn_wait")(self._value, ct.byref(extend))
            check("rknn_wait", code, f"frame {frame_id} was not done in {timeout_ms} ms" if code == -2 else "")

    @property
    def frame_id(self) -> int | None:
        return self._frame

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        self._take()
        try:
            fetch = self._fetch.get(want_float) or self._new_fetch(want_float)
            arrays = fetch.fresh()
            self._fill(fetch, arrays)
            return arrays
        finally:
            self._owner.release()

    def get_outputs_into(self, arrays: Sequence[Array]) -> None:
        self._take()
        try:
            fetch = self._fetch.get(True) or self._new_fetch(True)
            if not fetch.fits(arrays):
                shapes = [list(attr.dims) for attr in self._outputs]
                raise OutputInvalid(f"C-contiguous, writable float32 arrays of shapes {shapes} are needed")
            self._fill(fetch, arrays)
        finally:
            self._owner.release()

    def _new_fetch(self, want_float: bool) -> OutputFetch:
        fetch = OutputFetch(self._outputs, want_float, self._settings.async_mode)
        self._fetch[want_float] = fetch
        return fetch

    def _fill(self, fetch: OutputFetch, arrays: Sequence[Array]) -> None:
        if self._bound:
            raise ContextInvalid(_MIXED)
        if not self._ran:
            raise ContextInvalid("run the model before asking for outputs")
        fetch.into(self._outputs_get, self._outputs_release, self._value, arrays)
        self._frame = fetch.frame_id

    # -- zero-copy path -----------------------------------------------------------------------------------

    def create_mem(self, size: int, flags: int = 0) -> RknnrtMemory:
        """``flags`` are ``abi.MemAlloc`` bits (cacheable by default)."""
        with self.exclusive():
            session = self._need()
            mem = memory.allocate(self._library, self._value, size, flags, (session.native,), self._owner)
            return self._own(mem)

    def import_mem(self, handle: int, size: int, offset: int = 0) -> RknnrtMemory:
        with self.exclusive():
            parents = (self._need().native,)
            return self._own(
                memory.from_fd(self._library, self._value, handle, size, offset, parents, self._owner)
            )

    def import_phys(self, address: int, size: int, virtual: int = 0) -> RknnrtMemory:
        with self.exclusive():
            parents = (self._need().native,)
            return self._own(
                memory.from_phys(self._library, self._value, address, virtual, size, parents, self._owner)
            )

    def _own(self, mem: RknnrtMemory) -> RknnrtMemory:
        self._memories.add(mem)
        return mem

    def bind(self, attr: TensorAttr, mem: Memory) -> None:
        with self.exclusive():
            if self._common:
                raise ContextInvalid(_MIXED)
            pointer = self._pointer(mem)
            place = binding.place_of(attr, self._all_places())
            binding.check_binding(place, attr, mem.size)
            struct = to_struct(attr)
            code = self._library.function("rknn_set_io_mem")(self._value, pointer, ct.byref(struct))
            check("rknn_set_io_mem", code, f"{place.label} does not take {attr}" if code == -5 else "")
            assert isinstance(mem, RknnrtMemory)
            self._bound[place.is_input, place.index] = mem
            self._ready = len(self._bound) == len(self._places)

    def _pointer(self, mem: Memory) -> Any:
        if not isinstance(mem, RknnrtMemory) or mem not in self._memories:
            raise ParamInvalid(
                "this memory belongs to another context; share it by its file descriptor: import_mem(mem.fd, ...)"
            )
        return mem.require()

    def _all_places(self) -> list[binding.Place]:
        if not self._places:
            self._places = [*self._places_of(True), *self._places_of(False)]
        return self._places

    def _places_of(self, is_input: bool) -> list[binding.Place]:
        native = self._attrs(AttrKind.NATIVE_INPUT if is_input else AttrKind.NATIVE_OUTPUT)
        kind = AttrKind.NATIVE_NHWC_INPUT if is_input else AttrKind.NATIVE_NHWC_OUTPUT
        try:
            nhwc = self._attrs(kind)
        except RknnError:  # a library that does not know this form
            nhwc = native
        plain = self._inputs if is_input else self._outputs
        return [
            binding.Place(is_input, index, binding.forms(*attrs))
            for index, attrs in enumerate(zip(native, nhwc, plain))
        ]

    def set_weight_mem(self, mem: Memory) -> None:
        self._give("rknn_set_weight_mem", mem, "weights", self.memory().weight)

    def set_internal_mem(self, mem: Memory) -> None:
        self._give("rknn_set_internal_mem", mem, "internal tensors", self.memory().internal)

    def _give(self, function: str, mem: Memory, what: str, need: int) -> None:
        with self.exclusive():
            pointer = self._pointer(mem)
            if mem.size < need:
                raise ParamInvalid(f"the memory has {mem.size} bytes, {what} need {need}")
            check(function, self._library.function(function)(self._value, pointer))
            assert isinstance(mem, RknnrtMemory)
            self._given.append(mem)

    def sync(self, mem: Memory, direction: str) -> None:
        if direction not in _SYNC:
            raise ParamInvalid(f"direction {direction!r} is not one of {', '.join(_SYNC)}")
        with self.exclusive():
            code = self._library.function("rknn_mem_sync")(self._value, self._pointer(mem), _SYNC[direction])
            check("rknn_mem_sync", code)

    # -- figures ------------------------------------------------------------------------------------------

    @property
    def last_run_us(self) -> int:
        with self.exclusive():
            if not self._ran:
                return 0
            found = abi.PerfRun()
            self._need().query(abi.Query.PERF_RUN, found)
            return int(found.run_duration)

    def perf_text(self) -> str:
        """The runtime's own table of the last run; needs ``collect_perf`` (or ``verbose``) at ``open``."""
        with self.exclusive():
            if not self._settings.init_flags & abi.InitFlag.COLLECT_PERF:
                raise RknnError("figures per layer are collected on request: open the model with collect_perf=True")
            if not self._ran:
                raise ContextInvalid("run the model before asking for figures")
            found = abi.PerfDetail()
            self._need().query(abi.Query.PERF_DETAIL, found)
            if not found.perf_data:
                return ""
            return ct.string_at(found.perf_data, found.data_len).rstrip(b"\0").decode("utf-8", "replace")

    def perf_table(self) -> list[PerfRow]:
        return perf.parse(self.perf_text())

    def memory(self) -> MemorySize:
        found = abi.MemSize()
        with self.exclusive():
            self._need().query(abi.Query.MEM_SIZE, found)
        return MemorySize(
            found.total_weight_size,
            found.total_internal_size,
            found.total_dma_allocated_size,
            found.total_sram_size,
            found.free_sram_size,
        )

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> RknnrtContext:
        with self.exclusive():
            if self._shapes:
                raise ParamInvalid(f"{self._label} has dynamic shapes: such contexts cannot be duplicated")
            twin = RknnrtContext.__new__(RknnrtContext)
            Context.__init__(twin)
            twin._set_up(self._need().duplicate(twin._owner), self._file, self._settings, self._soc)
            try:
                twin._prepare(self._core_mask, self._ops)
            except BaseException:
                twin._abort()
                raise
            return twin

    def close(self) -> None:
        if self._running and not self._closed and self._owner.acquire(False):
            self._owner.release()  # we hold it ourselves: a custom operator closes the context that runs it
            raise ContextInvalid("close was called from inside a custom operator of the same context")
        super().close()

    def _release(self) -> None:
        """Memory first, then the context; numpy views that are still alive delay both until they are gone."""
        self._bound.clear()
        self._given.clear()
        for mem in list(self._memories):
            mem.close()
        self._feed = None
        self._fetch = {}
        self._session = None

    def _abandon(self) -> None:
        """After a fork, in the child: the parent owns the context."""
        self._owner = threading.RLock()
        self._closed = True
        self._closed_reason = (
            "this context was opened before a fork and belongs to the parent process; open the model in the child"
        )
        session, self._session = self._session, None
        if session is not None:
            session.disown()


_contexts: weakref.WeakSet[RknnrtContext] = weakref.WeakSet()


def _abandon_all() -> None:
    for context in list(_contexts):
        context._abandon()


os.register_at_fork(after_in_child=_abandon_all)


def _attr(query: Any, context: int, command: abi.Query, index: int) -> TensorAttr:
    struct = abi.TensorAttrStruct(index=index)
    read_struct(query, context, command, struct)
    return from_struct(struct)


def _nhwc(attr: TensorAttr) -> TensorAttr:
    """An input as the common path takes it: rank 4 is NHWC whatever the tensor is."""
    if len(attr.dims) != 4 or attr.layout is not Layout.NCHW:
        return attr
    n, c, h, w = attr.dims
    return dataclasses.replace(attr, dims=(n, h, w, c), layout=Layout.NHWC)


def _nchw(attr: TensorAttr) -> TensorAttr:
    """An output as the common path delivers it; current attributes of dynamic models say NHWC."""
    if len(attr.dims) != 4 or attr.layout is not Layout.NHWC:
        return attr
    n, h, w, c = attr.dims
    return dataclasses.replace(attr, dims=(n, c, h, w), layout=Layout.NCHW)


def _nhwc_shape(item: Input) -> tuple[int, ...]:
    shape = tuple(item.data.shape)
    if item.layout is Layout.NCHW and len(shape) == 4:
        return (shape[0], shape[2], shape[3], shape[1])
    return shape


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
