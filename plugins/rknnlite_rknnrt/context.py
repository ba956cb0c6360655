"""One model on librknnrt."""

from __future__ import annotations

import ctypes as ct
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from rknnlite_backend.crash import calls
from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_backend.rknn_calls import as_nchw, as_nhwc, check_counts
from rknnlite_backend.running import both_paths, check_dup, frame_late, not_prepared, not_run, partly_bound

from rknnlite import socs
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError, RunTimeout
from rknnlite.formats import ModelFile
from rknnlite.spi import AttrKind, Context, Input, OpenOptions, Step
from rknnlite.spi.arguments import explain
from rknnlite.spi.exclusive import AT_WORK, FREE

from . import abi
from .attrs import QUERIES, query_attr, read_ranges, reshaped, to_struct
from .diagnose import metadata
from .errors import call_error, check
from .feed import InputFeed
from .fetch import OutputFetch
from .loader import Library
from .native_context import NativeContext
from .settings import RknnrtSettings
from .zerocopy import ZeroCopyContext

if TYPE_CHECKING:
    from rknnlite.spi import CustomOp

__all__ = ["RknnrtContext"]

Array = NDArray[Any]

_SET, _RUN, _GET = Step  # looked up per frame, and slow to look up in an enum
_HOLLOW = "a context that collects information only takes no inputs"
_UNFLUSHED = (
    "{0}=False leaves the cache to the program: use bind, sync and run, or open the model without {0}"
)


class RknnrtContext(ZeroCopyContext):
    """See ``rknnlite.spi.Context``. ``handle`` and ``lib`` serve programs that call C functions themselves."""

    def __init__(
        self, library: Library, file: ModelFile, settings: RknnrtSettings, options: OpenOptions, soc: socs.Soc
    ) -> None:
        super().__init__()
        native = NativeContext.open(library, file, settings, soc, self._owner)
        self._set_up(native, file, settings, soc)
        abandon_after_fork(self)
        try:
            if not settings.info_only:
                self._prepare(options.core_mask, options.custom_ops)
        except BaseException:
            self._abort()
            raise

    def _prepare(self, core_mask: int | None, ops: Sequence[CustomOp]) -> None:
        if core_mask:
            self.set_core_mask(core_mask)
        number = abi.InputOutputNum()
        self._need().query(abi.Query.IN_OUT_NUM, number)
        check_counts(number.n_input, number.n_output)
        self._counts = (number.n_input, number.n_output)
        model = metadata(self._file)
        if model is None or model.dynamic:  # asking a static model makes the library complain in its log
            query = self._library.function("rknn_query")
            self._shapes = read_ranges(query, self._value, number.n_input, known=model is not None)
        self._read_attrs()
        if ops:
            from .customop import needed

            wanted = needed(self._file, ops)
            if wanted:
                self.register_ops(wanted)

    def _read_attrs(self) -> None:
        """Attributes for the current shapes, and what is prepared from them."""
        self._inputs = [as_nhwc(attr) for attr in self._attrs(AttrKind.INPUT)]
        outputs = self._attrs(AttrKind.OUTPUT)
        self._outputs = [as_nchw(attr) for attr in outputs] if self._shape_chosen else outputs
        command = QUERIES[self._kind(AttrKind.NATIVE_INPUT)]
        query = self._library.function("rknn_query")
        if self._settings.flush_inputs:
            self._feed = InputFeed(self._inputs, functools.partial(query_attr, query, self._value, command))
        self._fetch = {}
        self._places = []
        self._bound.clear()
        self._ready = self._ran = False

    # -- settings -----------------------------------------------------------------------------------------

    def set_core_mask(self, mask: int) -> None:
        with self.exclusive():
            if not 0 <= mask <= abi.CoreMask.ALL:  # ctypes would cut it to 32 bits and hand over another one
                self._soc.check_core_mask(mask)
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
            if not 0 < count <= self._soc.cores:
                raise ParamInvalid(f"{count} cores: the {self._soc.name} has 1 to {self._soc.cores}")
            code = self._library.function("rknn_set_batch_core_num")(self._value, count)
            check("rknn_set_batch_core_num", code)

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        from rknnlite_backend.running import find_shapes  # most models are static

        with self.step():
            from rknnlite_backend.running import find_shapes

            wanted = self._shapes[find_shapes(self._file.label, shapes, self._shapes, self._inputs)]
            structs = abi.array_of(abi.TensorAttrStruct, len(wanted))(
                *(to_struct(reshaped(attr, dims)) for attr, dims in zip(self._inputs, wanted))
            )
            code = self._library.function("rknn_set_input_shapes")(self._value, len(wanted), structs)
            check("rknn_set_input_shapes", code)
            self._shape_chosen = True
            self._read_attrs()

    def register_ops(self, ops: Sequence[CustomOp]) -> None:
        """Register operators; those registered before stay (the C call alone would replace them)."""
        from .customop import Registration

        with self.step():
            from .customop import Registration, stored

            known = {op.op_type: op for op in (*self._ops, *ops)}
            registration = Registration(self._library, list(known.values()), lambda: self._file.once(stored))
            self._need().keep.append(registration)
            function = self._library.function("rknn_register_custom_ops")
            code = function(self._value, registration.structs, registration.count)
            registration.raise_failure()
            check(
                "rknn_register_custom_ops",
                code,
                f"operators {', '.join(known)} do not fit {self._file.label}",
            )
            self._ops, self._registration = list(known.values()), registration
            self._failures = registration.failures

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        outer = self.begin_step()
        try:
            self._set(inputs)
        finally:
            self.end_step(outer)

    @calls("backend rknnrt: rknn_inputs_set")
    def _set(self, inputs: Sequence[Input]) -> None:
        if self._zero_copy:
            raise both_paths()
        if self._shapes:
            self.follow_shapes(inputs)
        feed = self._feed
        if feed is None:
            raise ContextInvalid(_HOLLOW if self._settings.info_only else _UNFLUSHED.format("flush_inputs"))
        held = feed.put(inputs)
        code = self._inputs_set(self._argument, feed.count, feed.reference)
        del held  # the library has its copy
        if code:
            self._ready = False
            only = f"the {self._soc.name} has the zero-copy path only: use bind and run"
            raise call_error("rknn_inputs_set", code, only if self._soc.zero_copy_only else "")
        self._common = self._ready = True
        self._ran = False

    def run(self) -> None:
        outer = self.begin_step()
        try:
            self._run(None)
        finally:
            self.end_step(outer)

    @calls("backend rknnrt: rknn_run")
    def _run(self, extend: Any) -> None:
        if not self._ready:
            raise self._not_ready()
        self._ran = False
        code = self._rknn_run(self._argument, extend)
        if code or self._failures:
            if self._registration is not None:
                self._registration.raise_failure()
            from .customop import missing

            raise call_error("rknn_run", code, missing(self._file, self._ops, self._library))
        self._ran = True

    def _not_ready(self) -> RknnError:
        if not self._bound:
            return not_prepared("set inputs (or bind memory)")
        missing = [place.label for place in self._places if (place.is_input, place.index) not in self._bound]
        return partly_bound(missing)

    def start(self, timeout_ms: int = 0) -> int:
        with self.step():
            extend = abi.RunExtend(non_block=1, timeout_ms=timeout_ms, fence_fd=-1)
            self._run(ct.byref(extend))
            return int(extend.frame_id)

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        with self.step():
            extend = abi.RunExtend(frame_id=frame_id, timeout_ms=timeout_ms, fence_fd=-1)
            code = self._library.function("rknn_wait")(self._value, ct.byref(extend))
            check("rknn_wait", code, frame_late(frame_id, timeout_ms) if code == RunTimeout.code else "")

    @property
    def frame_id(self) -> int | None:
        return self._frame

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        outer = self.begin_step()
        try:
            fetch = self._fetch.get(want_float) or self._new_fetch(want_float)
            arrays = fetch.fresh()
            self._get(fetch)
            return arrays
        finally:
            self.end_step(outer)

    def get_outputs_into(self, arrays: Sequence[Array], want_float: bool = True) -> None:
        outer = self.begin_step()
        try:
            fetch = self._fetch.get(want_float) or self._new_fetch(want_float)
            fetch.aim(arrays)
            self._get(fetch)
        finally:
            self.end_step(outer)

    def frame(self, inputs: Sequence[Input], into: Callable[[], list[Array]] | None = None) -> list[Array]:
        if self._work:
            raise ContextInvalid(self._again_reason)
        self._work = AT_WORK
        step = _SET
        try:
            self._set(inputs)  # one step in all: it is not begun again for each part
            step = _RUN
            self._run(None)
            step = _GET
            fetch = self._fetch.get(True) or self._new_fetch(True)
            if into is None:
                arrays = fetch.fresh()
            else:
                arrays = into()
                fetch.aim(arrays)
            fetch.get(self._outputs_get, self._outputs_release, self._argument)
        except Exception as error:
            step.mark(error)
            explain(error, Context.frame, (self, inputs, into), {})
        finally:
            self._work = FREE
        if self._settings.async_mode:
            self._frame = fetch.frame_id
        return arrays

    def _new_fetch(self, want_float: bool) -> OutputFetch:
        if not self._settings.flush_outputs:
            raise ContextInvalid(_UNFLUSHED.format("flush_outputs"))
        fetch = OutputFetch(self._outputs, want_float, self._settings.async_mode)
        self._fetch[want_float] = fetch
        return fetch

    def _get(self, fetch: OutputFetch) -> None:
        if self._zero_copy:
            raise both_paths()
        if not self._ran:
            raise not_run()
        fetch.get(self._outputs_get, self._outputs_release, self._argument)
        if self._settings.async_mode:
            self._frame = fetch.frame_id

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> RknnrtContext:
        with self.exclusive():
            check_dup(self._file.label, bool(self._shapes))
            twin = RknnrtContext.__new__(RknnrtContext)
            Context.__init__(twin)
            twin._set_up(self._need().duplicate(twin._owner), self._file, self._settings, self._soc)
            abandon_after_fork(twin)
            try:
                twin._prepare(self._core_mask, self._ops)
            except BaseException:
                twin._abort()
                raise
            return twin

    def _release(self) -> None:
        """Memory first, then the context; numpy views that are still alive delay both until they are gone."""
        self._bound.clear()
        self._given.clear()
        for mem in list(self._memories):
            mem.close()
        self._feed = None
        self._fetch = {}
        native, self._native_context = self._native_context, None
        if native is not None:
            native.retire()
        self._ops, self._registration = [], None

    def abandon(self) -> None:
        super().abandon()
        native, self._native_context = self._native_context, None
        if native is not None:
            native.disown()
