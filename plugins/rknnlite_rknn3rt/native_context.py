"""``rknn3_init`` to ``rknn3_model_init``: a context of the C API with an owner, and its questions."""

from __future__ import annotations

import ctypes as ct
import os
from typing import Any

import numpy as np
from rknnlite_backend.abi import rknn3
from rknnlite_backend.rknn_calls import check_counts

from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.abi.rknn3_types import (
    RKNN3AllocationInfo,
    RKNN3CoreMemSize,
    RKNN3DevMemInfo,
    RKNN3InitExtend,
    RKNN3InputOutputNum,
    RKNN3SDKVersion,
    rknn3_context,
)
from rknnlite.errors import ContextInvalid, ModelInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi.exclusive import CLOSED

from .errors import Native, call_error, check, check_or_warn
from .loader import Api, Library
from .settings import Rknn3rtSettings

__all__ = ["NativeContext", "text"]

_MAX_CORES = 64


class NativeContext:
    """One ``rknn3_context``. ``api`` are the functions that fit the version of the runtime behind it.

    ``native`` is the object that destroys it, which whatever lives inside the context has for a parent.
    """

    def __init__(self, library: Library, value: int, guard: Any, api: Api | None = None) -> None:
        """Take over a context that C has made; raises ModelUnsupported when its version is unknown."""
        self.library = library
        self.value = value
        destroy = library.start.function("rknn3_destroy")
        self.native = Native(value, destroy, (value,), (), guard)
        self._guard = guard
        self.driver = ""
        try:
            self.api = api or self._choose()
        except BaseException:
            self.native.release()
            raise

    @classmethod
    def open(cls, library: Library, settings: Rknn3rtSettings, guard: Any) -> NativeContext:
        """``rknn3_init`` on the device that the settings name; no model yet."""
        cell = rknn3_context(0)
        extend = None
        if settings.device_id is not None:
            extend = ct.byref(RKNN3InitExtend(device_id=os.fsencode(settings.device_id)))
        code = library.start.function("rknn3_init")(ct.byref(cell), extend)
        if code:
            which = f"device {settings.device_id}" if settings.device_id else "the only device"
            raise call_error("rknn3_init", code, f"{which} cannot be used" if code == -10 else "")
        return cls(library, cell.value, guard)

    def _choose(self) -> Api:
        """The functions for the version that the runtime behind this context says it has."""
        found = RKNN3SDKVersion()
        function = self.library.start.function("rknn3_query")
        code = function(self.value, Query.RKNN3_QUERY_SDK_VERSION, ct.byref(found), ct.sizeof(found))
        if code:
            raise call_error(
                "rknn3_query(SDK_VERSION)", code, "the structures of the runtime cannot be chosen"
            )
        self.driver = text(found.drv_version)
        return self.library.api(text(found.api_version))

    def duplicate(self, guard: Any) -> NativeContext:
        """``rknn3_dup_context``: the same weights, memory of its own; removed in later runtimes."""
        cell = rknn3_context(0)
        check("rknn3_dup_context", self.call("rknn3_dup_context", ct.byref(cell)))
        twin = NativeContext(self.library, cell.value, guard, self.api)
        twin.driver = self.driver
        return twin

    @property
    def abi(self) -> rknn3.Revision:
        """The structures of this runtime."""
        return self.api.abi

    def need(self) -> int:
        """The number for a call into C; raises ContextInvalid when the context is gone."""
        if not self.native.alive:
            raise ContextInvalid(CLOSED)
        return self.value

    def call(self, name: str, *args: Any) -> int:
        """A function whose first argument is the context; its code."""
        code: int = self.api.function(name)(self.need(), *args)
        return code

    def release(self) -> None:
        """Destroy the context now, whoever still holds it."""
        self.native.release()

    def adopt(self, other: Any) -> None:
        """Keep ``other``, which C uses through this context, until the context is destroyed."""
        self.native.adopt(other)

    # -- loading ------------------------------------------------------------------------------------------

    def load(
        self, model: ModelFile, weights: ModelFile | None, settings: Rknn3rtSettings, core_mask: int | None
    ) -> None:
        """Load both files and make the model runnable; C needs the bytes until then."""
        self._set_key(settings)
        keep = self._load(model, weights)
        config = settings.config(core_mask)
        code = self.call("rknn3_model_init", ct.byref(config))
        del keep
        detail = (
            f"core mask {core_mask or 0:#x} does not fit {model.label}, {self._cores()}" if code == -2 else ""
        )
        check_or_warn("rknn3_model_init", code, detail)

    def _cores(self) -> str:
        try:
            return f"which was converted for {self.core_number()} cores; name as many"
        except RknnError:
            return "whose number of cores is unknown"

    def _set_key(self, settings: Rknn3rtSettings) -> None:
        if settings.decrypt_key is not None:
            key = settings.decrypt_key
            code = self.call("rknn3_set_decrypt_key_from_data", key, len(key))
            check("rknn3_set_decrypt_key_from_data", code)
        elif settings.decrypt_key_path is not None:
            code = self.call("rknn3_set_decrypt_key_from_path", os.fsencode(settings.decrypt_key_path))
            check("rknn3_set_decrypt_key_from_path", code)

    def _load(self, model: ModelFile, weights: ModelFile | None) -> Any:
        """Load by path when both are files, else from memory; returns what has to stay until ``model_init``."""
        if model.path is not None and (weights is None or weights.path is not None):
            where = os.fsencode(weights.path) if weights is not None and weights.path is not None else None
            code = self.call("rknn3_load_model_from_path", os.fsencode(model.path), where)
            check("rknn3_load_model_from_path", code, _load_detail(code, model, weights))
            return None
        content = np.frombuffer(model.data, np.uint8)
        if not content.size:
            raise ModelInvalid(f"{model.label} is empty; copy it again")
        weight = np.frombuffer(weights.data if weights is not None else b"", np.uint8)
        address = weight.ctypes.data if weight.size else None
        code = self.call(
            "rknn3_load_model_from_data", content.ctypes.data, content.size, address, weight.size
        )
        check("rknn3_load_model_from_data", code, _load_detail(code, model, weights))
        return content, weight

    # -- questions ----------------------------------------------------------------------------------------

    def query(self, command: int, struct: Any, detail: str = "") -> None:
        """``rknn3_query`` into a structure or array of structures; raises the typed error naming the command."""
        code = self.call("rknn3_query", command, ct.byref(struct), ct.sizeof(struct))
        check(f"rknn3_query({_name(command)})", code, detail)

    def in_out_num(self, command: int = Query.RKNN3_QUERY_IN_OUT_NUM) -> tuple[int, int]:
        """Number of inputs and of outputs; raises RknnError for numbers that cannot be."""
        number = RKNN3InputOutputNum()
        self.query(command, number)
        check_counts(number.n_input, number.n_output)
        return number.n_input, number.n_output

    def core_number(self) -> int:
        """Cores that the model was converted for."""
        number = ct.c_uint32()
        self.query(Query.RKNN3_QUERY_CORE_NUMBER, number)
        if not 0 < number.value <= _MAX_CORES:
            raise RknnError(f"the library answers that the model has {number.value} cores")
        return number.value

    def core_memory(self) -> list[RKNN3CoreMemSize]:
        """Bytes of weights and of internal tensors, per core."""
        found = (RKNN3CoreMemSize * self.core_number())()
        self.query(Query.RKNN3_QUERY_CORE_MEM_SIZE, found)
        return list(found)

    def allocation(self) -> list[RKNN3AllocationInfo]:
        """The memory that the context holds on each core."""
        found = (RKNN3AllocationInfo * self.core_number())()
        self.query(Query.RKNN3_QUERY_ALLOCATION_INFO, found)
        return list(found)

    def device_memory(self) -> RKNN3DevMemInfo:
        """Memory of the device, as a whole and per node."""
        found = RKNN3DevMemInfo()
        self.query(Query.RKNN3_QUERY_DEVICE_MEM_INFO, found)
        return found


def _name(command: int) -> str:
    try:
        return Query(command).name.replace("RKNN3_QUERY_", "")
    except ValueError:
        return str(command)


def _load_detail(code: int, model: ModelFile, weights: ModelFile | None) -> str:
    if code != -3:
        return ""
    beside = f"weights {weights.label}" if weights is not None else "no weight file"
    return f"{model.label} with {beside}: damaged, not a pair, or converted for another runtime"


def text(raw: bytes | None) -> str:
    """A C string as text."""
    return (raw or b"").decode("utf-8", "replace")
