"""The part of a context on librknn_api that only asks: fields, attributes, versions, figures."""

from __future__ import annotations

import ctypes as ct
from typing import TYPE_CHECKING

from rknnlite_backend.rknn_calls import as_nhwc, check_counts, text_of
from rknnlite_backend.running import not_collected

from rknnlite import socs
from rknnlite.errors import ContextInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import Context, Versions
from rknnlite.tensor import TensorAttr

from . import abi
from .attrs import from_struct, query_struct
from .native_context import NativeContext
from .settings import Rknn1rtSettings

if TYPE_CHECKING:
    from rknnlite.spi import MemorySize, PerfTable

__all__ = ["QueryContext"]


class QueryContext(Context):
    """A context as far as the library is only asked (``rknn_query``)."""

    def _set_up(
        self, native: NativeContext, file: ModelFile, settings: Rknn1rtSettings, soc: socs.Soc
    ) -> None:
        self._native_context: NativeContext | None = native
        self._library, self._value = native.library, native.value
        self._file, self._settings, self._soc = file, settings, soc
        self._done = False  # a frame has been waited for: its figures can be asked for

    def _read_attrs(self) -> None:
        number = abi.InputOutputNum()
        self._need().query(abi.Query.IN_OUT_NUM, number)
        check_counts(number.n_input, number.n_output)
        query = self._library.function("rknn_query")
        self._structs = {
            True: [query_struct(query, self._value, abi.Query.INPUT_ATTR, i) for i in range(number.n_input)],
            False: [
                query_struct(query, self._value, abi.Query.OUTPUT_ATTR, i) for i in range(number.n_output)
            ],
        }
        self._native_attrs = {
            side: [from_struct(s) for s in structs] for side, structs in self._structs.items()
        }
        self._inputs = [as_nhwc(attr) for attr in self._native_attrs[True]]
        self._outputs = self._native_attrs[False]

    def _need(self) -> NativeContext:
        if self._native_context is None:
            raise ContextInvalid(self._closed_reason)
        return self._native_context

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def backend_name(self) -> str:
        return "rknn1rt"

    @property
    def inputs(self) -> list[TensorAttr]:
        return self._inputs

    @property
    def outputs(self) -> list[TensorAttr]:
        """Attributes as the library reports them; data lies in this order."""
        return self._outputs

    @property
    def native_inputs(self) -> list[TensorAttr]:
        """As the library reports them: what ``bind`` takes, and data that is passed through."""
        return self._native_attrs[True]

    @property
    def native_outputs(self) -> list[TensorAttr]:
        return self._native_attrs[False]

    @property
    def versions(self) -> Versions:
        found = abi.SdkVersion()
        with self.exclusive():
            self._need().query(abi.Query.SDK_VERSION, found)
        api, driver = (text.decode("utf-8", "replace") for text in (found.api_version, found.drv_version))
        return Versions(api, driver, self._library.name)

    @property
    def soc(self) -> socs.Soc:
        return self._soc

    def precompiled(self) -> bytes:
        """The model as this driver pre-compiled it; open with ``precompile=True``. A full driver on a board has it."""
        with self.exclusive():
            if not self._settings.init_flags & abi.InitFlag.PRECOMPILE:
                raise RknnError(
                    "the pre-compiled model is kept on request: open the model with precompile=True"
                )
            found = abi.PreCompile()
            self._need().query(abi.Query.PRE_COMPILE, found)
            if not found.model_data or not found.data_len:
                raise RknnError("the library answers an empty pre-compiled model; a mini driver has none")
            return ct.string_at(found.model_data, found.data_len)

    # -- figures ------------------------------------------------------------------------------------------

    @property
    def last_run_us(self) -> int:
        """Duration of the frame whose outputs were fetched last: the library knows it only then."""
        with self.exclusive():
            if not self._done:
                return 0
            found = abi.PerfRun()
            self._need().query(abi.Query.PERF_RUN, found)
            return int(found.run_duration)

    def perf_text(self) -> str:
        """The runtime's own table of the frame that was fetched last; needs ``collect_perf`` (or ``verbose``)."""
        with self.exclusive():
            if not self._settings.init_flags & abi.InitFlag.COLLECT_PERF:
                raise not_collected()
            if not self._done:
                raise ContextInvalid("run the model and fetch its outputs before asking for figures")
            found = abi.PerfDetail()
            self._need().query(abi.Query.PERF_DETAIL, found)
            return text_of(found)

    def perf_table(self) -> PerfTable:
        from rknnlite_backend.perf import PerfTable  # figures are asked for by few programs

        from . import perf

        text = self.perf_text()
        rows = perf.parse(text)
        if text.strip() and not rows:
            raise RknnError(
                f"the library's table of layers has a form that is not known here; perf_text() has it: {text[:80]!r}"
            )
        return PerfTable(rows, cores=1)

    def memory(self) -> MemorySize:
        """Always an error: librknn_api has no such question."""
        raise RknnError(
            "librknn_api answers no memory sizes (query 6 is another one there); look at /proc/meminfo before and after"
        )
