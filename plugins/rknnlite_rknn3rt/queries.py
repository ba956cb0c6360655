"""The part of a context on librknn3_api that only asks: fields, tensors, attributes, figures."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any

from rknnlite import socs
from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.abi.rknn3_types import RKNN3CustomString
from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi import Context, CoreMemory, MemorySize
from rknnlite.tensor import TensorAttr

from .attrs import tensors
from .device_memory import DeviceModel
from .native_context import NativeContext, text
from .settings import Rknn3rtSettings
from .shapes import ShapeTable
from .tensors import TensorSet

__all__ = ["QueryContext"]

_SOC = "rk1820"  # an RK1828 has the same cores and more memory


class QueryContext(DeviceModel, Context):
    """A context as far as the library is only asked (``rknn3_query``): it holds the C context and all fields.

    ``Rknn3Context`` adds inputs, runs and outputs to it, ``DeviceModel`` memory.
    """

    def _set_up(self, native: NativeContext, label: str, settings: Rknn3rtSettings) -> None:
        """Fields that need no call into the library."""
        self._native_context: NativeContext | None = native
        self._label, self._settings = label, settings
        self._kept: dict[str, list[Any]] = {}
        self._core_mask = 0
        self._soc_name = _SOC
        self._post = False
        self._in: TensorSet | None = None
        self._out: TensorSet | None = None
        self._shape_table = ShapeTable()
        self._shape_chosen = True  # the library chooses the first one itself
        self._ran = self._running = False
        self._frames = 0
        self._us = 0

    def _read_tensors(self) -> None:
        """Tensors for the current shapes; io memory has to be made anew for them."""
        native = self._need()
        n_in, n_out = native.in_out_num()
        command: int = Query.RKNN3_QUERY_OUTPUT_ATTR
        if self._post:
            _, n_out = native.in_out_num(Query.RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM)
            command = Query.RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR
        inputs = tensors(native, Query.RKNN3_QUERY_INPUT_ATTR, n_in, True)
        outputs = tensors(native, command, n_out, False)
        self._drop_tensors()
        self._in = TensorSet(native, inputs, True, self._owner)
        self._out = TensorSet(native, outputs, False, self._owner)
        self._ran = False

    def _drop_tensors(self) -> None:
        for tensor_set in (self._in, self._out):
            if tensor_set is not None:
                tensor_set.release()
        self._in = self._out = None

    def _need(self) -> NativeContext:
        if self._native_context is None:
            raise ContextInvalid(self._closed_reason)
        return self._native_context

    def _sets(self) -> tuple[TensorSet, TensorSet]:
        if self._in is None or self._out is None:
            raise ContextInvalid(self._closed_reason)
        return self._in, self._out

    def _held(self) -> AbstractContextManager[None]:
        return self.exclusive()

    @property
    def _guard(self) -> Any:
        return self._owner

    @property
    def _given(self) -> dict[str, list[Any]]:
        return self._kept

    # -- what it is ---------------------------------------------------------------------------------------

    @property
    def user_internal(self) -> bool:
        return self._settings.user_internal

    @property
    def inputs(self) -> list[TensorAttr]:
        return [tensor.logical for tensor in self._sets()[0].tensors]

    @property
    def outputs(self) -> list[TensorAttr]:
        return [tensor.logical for tensor in self._sets()[1].tensors]

    @property
    def native_inputs(self) -> list[TensorAttr]:
        """What the runtime takes; ``size_with_stride`` bytes have to be allocated on core ``core_ids``."""
        return [tensor.native for tensor in self._sets()[0].tensors]

    @property
    def native_outputs(self) -> list[TensorAttr]:
        return [tensor.native for tensor in self._sets()[1].tensors]

    @property
    def core_ids(self) -> tuple[list[int], list[int]]:
        """The core in whose memory each input and each output lies."""
        inputs, outputs = self._sets()
        return [t.core_id for t in inputs.tensors], [t.core_id for t in outputs.tensors]

    @property
    def structs(self) -> tuple[list[Any], list[Any]]:
        """The attributes of inputs and outputs as the library's own structures."""
        inputs, outputs = self._sets()
        return [t.struct for t in inputs.tensors], [t.struct for t in outputs.tensors]

    @property
    def soc(self) -> socs.Soc:
        return socs.get(self._soc_name)

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return self._shape_table.shapes

    @property
    def custom_string(self) -> str:
        """Runtimes before 1.0.4 do not hand it out: empty."""
        found = RKNN3CustomString()
        with self.exclusive(), suppress(ParamInvalid):
            self._need().query(Query.RKNN3_QUERY_CUSTOM_STRING, found)
        return text(found.string)

    # -- figures ------------------------------------------------------------------------------------------

    @property
    def last_run_us(self) -> int:
        return self._us

    def memory(self) -> MemorySize:
        cores = tuple(CoreMemory(c.core_id, c.weight_size, c.internal_size) for c in self.core_memory())
        weight, internal = sum(c.weight for c in cores), sum(c.internal for c in cores)
        return MemorySize(weight, internal, weight + internal, 0, 0, cores=cores)
