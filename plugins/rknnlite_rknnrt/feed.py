"""The common path's inputs: from checked arrays to one ``rknn_input`` per model input, copying only where needed.

The library copies the data inside ``rknn_inputs_set``, so an array of the right layout is handed over where it
lies; one that has to be turned from NCHW to NHWC, or that has gaps, is copied once into a buffer that is kept. The
library itself does not turn NCHW data of rank 4: "Meet unsupported src layout for normalize: NCHW, only support NHWC
src layout!" (2.3.0), and the manual says NHWC.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.addresses import address
from rknnlite_backend.running import in_order, wrong_bytes, wrong_rank, wrong_shape

from rknnlite.errors import InputInvalid
from rknnlite.layout import copy_pixels
from rknnlite.spi import Input
from rknnlite.tensor import DType, Layout, TensorAttr

from . import abi

__all__ = ["InputFeed"]

Array = NDArray[Any]
_NCHW = Layout.NCHW  # looked up per frame, and slow to look up in an enum
NativeQuery = Callable[[int], TensorAttr]
"""Index of an input -> its native attribute; asked only when data are passed through."""
_from_buffer = ct.c_char.from_buffer  # see ``address``
_addressof = ct.addressof
_CARRIERS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.uint64): np.dtype(np.int64),
}
"""Element types that the C API lacks -> the type that carries them."""


class _Slot:
    """One input: its structure, and what stays the same from frame to frame."""

    def __init__(self, attr: TensorAttr, native: NativeQuery, struct: abi.InputStruct) -> None:
        self._attr, self._native, self._struct = attr, native, struct
        self._shape = attr.dims
        # element type of the arrays that the structure is set up for
        self._given: np.dtype[Any] | None = None
        # what they are handed over as; the same object if unchanged
        self._carrier: np.dtype[Any] | None = None
        self._scratch: Array | None = None
        struct.index = attr.index
        struct.fmt = Layout.NHWC if len(attr.dims) == 4 else Layout.UNDEFINED

    def put(self, item: Input) -> Array:
        """Point the structure at the data, which is returned; raises InputInvalid naming the numbers."""
        data = item.data
        if item.pass_through:
            return self._pass_through(data)
        if item.layout is _NCHW and len(self._shape) == 4:
            if data.ndim != 4:
                raise wrong_rank(self._attr, data.shape)
            data = data.transpose(0, 2, 3, 1)
        if data.shape != self._shape:
            raise wrong_shape(self._attr, data.shape, item.layout)
        if data.dtype is not self._given:  # comparing with None would say that float64 is meant
            self._retype(data.dtype)
        if self._carrier is self._given:
            try:
                self._struct.buf = _addressof(_from_buffer(data))  # type: ignore[arg-type]
                return data
            except (TypeError, ValueError):  # it has gaps, is read-only or empty
                pass
        if self._carrier is not self._given or not data.flags.c_contiguous:
            data = self._copy(data)
        self._struct.buf = address(data)
        return data

    def _retype(self, dtype: np.dtype[Any]) -> None:
        """Set the structure up for arrays of ``dtype``."""
        carrier: np.dtype[Any] = dtype if dtype.isnative else dtype.newbyteorder("=")
        carrier = _CARRIERS.get(carrier, carrier)
        if carrier.kind == "b" and self._attr.dtype is not DType.BOOL:
            carrier = np.dtype(np.uint8)
        try:
            kind = DType.from_numpy(carrier)
        except Exception:
            raise InputInvalid(
                f"input {self._attr.name}: element type {dtype} cannot be handed to the runtime; use uint8, int8, "
                "float16, float32 or the model's own type"
            ) from None
        struct = self._struct
        struct.type, struct.pass_through = kind, 0
        struct.fmt = Layout.NHWC if len(self._shape) == 4 else Layout.UNDEFINED
        struct.size = self._attr.n_elems * carrier.itemsize
        self._given, self._carrier = dtype, carrier

    def _copy(self, data: Array) -> Array:
        """One strided copy into the kept buffer, converting the element type on the way where it must be."""
        scratch = self._scratch
        if scratch is None or scratch.dtype != self._carrier:
            scratch = self._scratch = np.empty(self._shape, self._carrier)
        if data.ndim == 4:
            copy_pixels(data, scratch)
        else:
            np.copyto(scratch, data, casting="unsafe")
        return scratch

    def _pass_through(self, data: Array) -> Array:
        native = self._native(self._attr.index)
        legal = {self._attr.size, native.size, native.size_with_stride or native.size}
        # the library counts bytes by the type that is named, also where data pass through (librknnrt 2.3.2)
        halved = (
            native.dtype is DType.FLOAT16 and data.dtype == np.float32 and data.size == self._attr.n_elems
        )
        if data.nbytes not in legal and not halved:
            raise wrong_bytes(self._attr, data.nbytes, sorted(legal))
        struct, held = self._struct, np.ascontiguousarray(data)
        struct.type, struct.fmt, struct.pass_through = (
            DType.FLOAT32 if halved else native.dtype,
            native.layout,
            1,
        )
        struct.size = held.nbytes
        struct.buf = address(held)
        self._given = None
        return held


class InputFeed:
    """All inputs of a context for its current shapes. ``count`` and ``reference`` go to ``rknn_inputs_set``."""

    def __init__(self, attrs: Sequence[TensorAttr], native: NativeQuery) -> None:
        structs = abi.array_of(abi.InputStruct, len(attrs))()
        self.count = len(attrs)
        self.reference = ct.byref(structs)  # keeps the array alive
        self._attrs = attrs
        self._slots = [_Slot(attr, native, struct) for attr, struct in zip(attrs, structs)]

    def put(self, inputs: Sequence[Input]) -> list[Array]:
        """Take all inputs of the next run; keep what is returned until the library has its copy.

        Raises:
            InputInvalid: number, shape, element type or (passed through) bytes do not fit.
        """
        if len(inputs) != self.count:
            in_order(inputs, self._attrs)  # raises
        held: list[Array] = []
        for item in inputs:
            index = item.index
            if index != len(held):
                return self.put(in_order(inputs, self._attrs))
            held.append(self._slots[index].put(item))
        return held
