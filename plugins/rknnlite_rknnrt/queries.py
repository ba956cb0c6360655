"""The part of a context on librknnrt that only asks: fields, attributes, versions, figures."""

from __future__ import annotations

import ctypes as ct
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rknnlite_backend.rknn_calls import text_of
from rknnlite_backend.running import not_collected, not_run

from rknnlite import socs
from rknnlite.errors import ContextInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi import AttrKind, Context, Versions
from rknnlite.tensor import TensorAttr

from . import abi
from .attrs import QUERIES, query_attr
from .diagnose import metadata
from .errors import Native
from .feed import InputFeed
from .fetch import OutputFetch
from .native_context import NativeContext
from .settings import RknnrtSettings

if TYPE_CHECKING:
    from rknnlite_backend.zero_copy import Place

    from rknnlite.spi import CustomOp, MemorySize, PerfTable

    from .c_functions import ContextNumber
    from .customop import Registration
    from .memory import RknnrtMemory


__all__ = ["QueryContext"]

_CURRENT = {
    AttrKind.INPUT: AttrKind.CURRENT_INPUT,
    AttrKind.OUTPUT: AttrKind.CURRENT_OUTPUT,
    AttrKind.NATIVE_INPUT: AttrKind.CURRENT_NATIVE_INPUT,
    AttrKind.NATIVE_OUTPUT: AttrKind.CURRENT_NATIVE_OUTPUT,
}


class QueryContext(Context):
    """A context as far as the library is only asked (``rknn_query``): it holds the C context and all fields.

    ``ZeroCopyContext`` adds memory to it, ``RknnrtContext`` inputs, runs and outputs.
    """

    # What most contexts never set belongs to the class until then. An object with more than 30 attributes of its own
    # is slower in CPython at every access and call, which every frame would pay for.
    _core_mask: int | None = None
    _frame: int | None = None
    _registration: Registration | None = None
    _ops: Sequence[CustomOp] = ()

    def _set_up(
        self, native: NativeContext, file: ModelFile, settings: RknnrtSettings, soc: socs.Soc
    ) -> None:
        """Fields that need no call into the library."""
        self._native_context: NativeContext | None = native
        self._library, self._file, self._settings, self._soc = native.library, file, settings, soc
        self._value = native.value
        self._counts = (0, 0)
        self._inputs: list[TensorAttr] = []
        self._outputs: list[TensorAttr] = []
        self._shapes: list[list[tuple[int, ...]]] = []
        self._feed: InputFeed | None = None
        self._fetch: dict[bool, OutputFetch] = {}
        self._places: list[Place] = []
        self._bound: dict[tuple[bool, int], RknnrtMemory] = {}
        self._memories: weakref.WeakSet[RknnrtMemory] = weakref.WeakSet()
        self._given: dict[str, Native] = {}
        self._failures: list[BaseException] = []
        self._common = self._zero_copy = self._ready = self._ran = False
        self._argument = abi.CONTEXT.from_param(native.value)  # the context, converted once for all calls
        self._rknn_run = self._library.quick("rknn_run")
        self._inputs_set = self._library.quick("rknn_inputs_set")
        self._outputs_get = self._library.quick("rknn_outputs_get")
        self._outputs_release = self._library.quick("rknn_outputs_release")

    def _need(self) -> NativeContext:
        if self._native_context is None:
            raise ContextInvalid(self._closed_reason)
        return self._native_context

    def _abort(self) -> None:
        """Give everything back although somebody (a traceback) may still refer to it."""
        self._closed = True
        native, self._native_context = self._native_context, None
        if native is not None:
            native.release()

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        return "rknnrt"

    @property
    def session(self) -> NativeContext | None:
        """The context of the C API with its owner; None after ``close``. The name is that of older versions."""
        return self._native_context

    @property
    def handle(self) -> ContextNumber:
        """``rknn_context`` as a number for C calls of the program through ``lib``."""
        from rknnlite_rknnrt.c_functions import ContextNumber

        return ContextNumber(self._need().cell)

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
        native, command = self._need(), QUERIES[self._kind(kind)]
        count = self._counts[0 if kind.is_input else 1]
        query = native.library.function("rknn_query")
        return [query_attr(query, native.value, command, index) for index in range(count)]

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
                raise not_collected()
            if not self._ran:
                raise not_run("figures")
            found = abi.PerfDetail()
            self._need().query(abi.Query.PERF_DETAIL, found)
            return text_of(found)

    def perf_table(self) -> PerfTable:
        from rknnlite_backend.perf import PerfTable  # figures are asked for by few programs

        from . import perf

        return PerfTable(perf.parse(self.perf_text()), cores=self.soc.cores)

    def memory(self) -> MemorySize:
        from rknnlite_backend.perf import MemorySize

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


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
