"""The common path's outputs: ``rknn_outputs_get`` writes straight into numpy arrays, fresh or the caller's."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.rknn_calls import check_filled, unfit_arrays

from rknnlite.tensor import TensorAttr

from . import abi
from .errors import call_error
from .loader import Library

__all__ = ["OutputFetch", "discard"]

Array = NDArray[Any]
_FLOAT = np.dtype(np.float32)


class OutputFetch:
    """All outputs of a context, of one kind: float32, or the stored elements."""

    def __init__(self, attrs: Sequence[TensorAttr], want_float: bool) -> None:
        self._attrs = attrs
        self._want_float = want_float
        self._dtypes: list[np.dtype[Any]] = [_FLOAT if want_float else attr.dtype.numpy for attr in attrs]
        self._structs = abi.array_of(abi.OutputStruct, len(attrs))()

    def fresh(self) -> list[Array]:
        """New arrays, not initialised."""
        return [np.empty(attr.dims, dtype) for attr, dtype in zip(self._attrs, self._dtypes)]

    def check(self, arrays: Sequence[Array]) -> None:
        """Raise OutputInvalid when shape, element type or layout of the caller's arrays do not fit."""
        if len(arrays) != len(self._attrs) or not all(map(_fits, arrays, self._attrs, self._dtypes)):
            raise unfit_arrays(self._dtypes, [attr.dims for attr in self._attrs])

    def get(self, library: Library, context: int, arrays: Sequence[Array]) -> int:
        """Wait for a frame and fill ``arrays``; returns the frame's number.

        Raises:
            The typed error of ``rknn_outputs_get``; OutputInvalid when it filled less than a whole array.
        """
        for attr, struct, array in zip(self._attrs, self._structs, arrays):
            struct.want_float, struct.is_prealloc, struct.index = self._want_float, 1, attr.index
            struct.buf, struct.size = ct.c_void_p(array.ctypes.data), array.nbytes
        frame = _get(library, context, len(self._attrs), self._structs)
        sizes = [int(struct.size) for struct in self._structs]
        _release(library, context, len(self._attrs), self._structs)
        for attr, size, array in zip(self._attrs, sizes, arrays):
            check_filled(attr.name, size, array.nbytes)
        return frame


def discard(library: Library, context: int, attrs: Sequence[TensorAttr]) -> None:
    """Take a frame that nobody asked for out of the library's queue."""
    structs = abi.array_of(abi.OutputStruct, len(attrs))()
    for attr, struct in zip(attrs, structs):
        struct.index = attr.index
    _get(library, context, len(attrs), structs)
    _release(library, context, len(attrs), structs)


def _get(library: Library, context: int, count: int, structs: Any) -> int:
    extend = abi.OutputExtend()
    code = library.function("rknn_outputs_get")(context, count, structs, ct.byref(extend))
    if code:
        raise call_error("rknn_outputs_get", code)
    return int(extend.frame_id)


def _release(library: Library, context: int, count: int, structs: Any) -> None:
    code = library.function("rknn_outputs_release")(context, count, structs)
    if code:
        raise call_error("rknn_outputs_release", code)


def _fits(array: Array, attr: TensorAttr, dtype: np.dtype[Any]) -> bool:
    flags = array.flags
    return array.shape == attr.dims and array.dtype == dtype and flags.c_contiguous and flags.writeable
