"""The common path's outputs: ``rknn_outputs_get`` writes straight into numpy arrays, fresh or the caller's."""

from __future__ import annotations

import ctypes as ct
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import address
from rknnlite_backend.crash import calls
from rknnlite_backend.rknn_calls import check_filled, unfit_arrays

from rknnlite.tensor import TensorAttr

from . import abi
from .errors import call_error

__all__ = ["OutputFetch"]

Array = NDArray[Any]
_FLOAT = np.dtype(np.float32)
_empty = np.empty
_from_buffer = ct.c_char.from_buffer  # of a writable array; see ``address``
_addressof = ct.addressof


class _Plan:
    """One output: what an array for it looks like, and its structure."""

    __slots__ = ("dims", "dtype", "name", "size", "struct")

    def __init__(self, attr: TensorAttr, want_float: bool, struct: abi.OutputStruct) -> None:
        self.name, self.dims, self.struct = attr.name, attr.dims, struct
        self.dtype: np.dtype[Any] = _FLOAT if want_float else attr.dtype.numpy
        self.size = attr.n_elems * self.dtype.itemsize
        struct.want_float, struct.is_prealloc, struct.index, struct.size = (
            want_float,
            1,
            attr.index,
            self.size,
        )

    def fits(self, array: Array) -> bool:
        """Whether the library can write to an array."""
        flags = array.flags
        return (
            array.shape == self.dims and array.dtype == self.dtype and flags.c_contiguous and flags.writeable
        )


class OutputFetch:
    """All outputs of a context for its current shapes, one kind: float32, or the stored elements."""

    def __init__(self, attrs: Sequence[TensorAttr], want_float: bool, count_frames: bool) -> None:
        structs = abi.array_of(abi.OutputStruct, len(attrs))()
        self._count = len(attrs)
        self._reference = ct.byref(structs)  # keeps the array alive
        self._bytes = abi.array_of(ct.c_char, ct.sizeof(structs)).from_buffer(structs)
        self._extend = abi.OutputExtend() if count_frames else None
        self._extend_reference = ct.byref(self._extend) if self._extend is not None else None
        self._plans = [_Plan(attr, want_float, struct) for attr, struct in zip(attrs, structs)]
        self._blank = self._bytes.raw  # what the library does to the structures does not last
        self._aimed: list[Array] = []
        self._target = self._blank

    @property
    def frame_id(self) -> int | None:
        """The frame that was fetched last, where frames are counted."""
        return None if self._extend is None else int(self._extend.frame_id)

    def fresh(self) -> list[Array]:
        """New arrays, not initialised; the next ``get`` fills them."""
        arrays = []
        self._bytes.raw = self._blank
        for plan in self._plans:
            array = _empty(plan.dims, plan.dtype)
            plan.struct.buf = _addressof(_from_buffer(array)) if plan.size else None  # type: ignore[arg-type]
            arrays.append(array)
        return arrays

    def aim(self, arrays: Sequence[Array]) -> None:
        """Let the next ``get`` fill the caller's arrays; those of the last time are not looked at again.

        Raises:
            OutputInvalid: shape, element type or layout of an array do not fit.
        """
        aimed = self._aimed
        if not aimed or len(aimed) != len(arrays) or not all(map(operator.is_, aimed, arrays)):
            self._take(arrays)
        self._bytes.raw = self._target

    def _take(self, arrays: Sequence[Array]) -> None:
        """Remember where the arrays are; they are held, so that numpy cannot move their data."""
        self._aimed = []
        if len(arrays) != len(self._plans) or not all(map(_Plan.fits, self._plans, arrays)):
            raise unfit_arrays([plan.dtype for plan in self._plans], [plan.dims for plan in self._plans])
        self._bytes.raw = self._blank
        for plan, array in zip(self._plans, arrays):
            plan.struct.buf = address(array)
        self._target = self._bytes.raw
        self._aimed = list(arrays)

    @calls("backend rknnrt: rknn_outputs_get or rknn_outputs_release")
    def get(self, outputs_get: Any, outputs_release: Any, context: Any) -> None:
        """Fetch the outputs of the last run into the arrays of ``fresh`` or ``aim``.

        Raises:
            The typed error of ``rknn_outputs_get``; OutputInvalid when it filled less than a whole array.
        """
        code = outputs_get(context, self._count, self._reference, self._extend_reference)
        if code:
            raise call_error("rknn_outputs_get", code)
        short = None
        for plan in self._plans:
            if plan.struct.size < plan.size:
                short = plan, plan.struct.size
        code = outputs_release(context, self._count, self._reference)
        if short is not None:
            plan, got = short
            check_filled(plan.name, got, plan.size)
        if code:
            raise call_error("rknn_outputs_release", code)
