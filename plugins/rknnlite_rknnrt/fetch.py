"""The common path's outputs: ``rknn_outputs_get`` writes straight into numpy arrays, fresh or the caller's."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknnlite.errors import OutputInvalid
from rknnlite.tensor import TensorAttr

from . import abi
from .buffers import Array, address
from .native import call_error

__all__ = ["OutputFetch"]

_FLOAT = np.dtype(np.float32)


class OutputFetch:
    """All outputs of a context for its current shapes, one kind: float32, or the stored elements."""

    def __init__(self, attrs: Sequence[TensorAttr], want_float: bool, count_frames: bool) -> None:
        self._count = len(attrs)
        self._structs = (abi.OutputStruct * self._count)()
        self._extend = abi.OutputExtend() if count_frames else None
        self._extend_ref = ct.byref(self._extend) if self._extend is not None else None
        self._plans: list[tuple[tuple[int, ...], np.dtype[Any], int, abi.OutputStruct]] = []
        self._names = [attr.name for attr in attrs]
        for attr, struct in zip(attrs, self._structs):
            dtype = _FLOAT if want_float else attr.dtype.numpy
            struct.want_float, struct.is_prealloc, struct.index = want_float, 1, attr.index
            self._plans.append((attr.dims, dtype, attr.n_elems * dtype.itemsize, struct))

    @property
    def frame_id(self) -> int | None:
        """The frame that was fetched last, where frames are counted."""
        return None if self._extend is None else int(self._extend.frame_id)

    def fresh(self) -> list[Array]:
        """New arrays of the right shapes, not initialised."""
        return [np.empty(dims, dtype) for dims, dtype, _, _ in self._plans]

    def fits(self, arrays: Sequence[Array]) -> bool:
        """Whether ``into`` can write to these arrays."""
        return len(arrays) == self._count and all(
            array.shape == dims
            and array.dtype == dtype
            and array.flags.c_contiguous
            and array.flags.writeable
            for array, (dims, dtype, _, _) in zip(arrays, self._plans)
        )

    def into(self, get: Any, release: Any, context: int, arrays: Sequence[Array]) -> None:
        """Fetch the outputs of the last run into ``arrays``, which ``fits`` has approved.

        Raises:
            The typed error of ``rknn_outputs_get``; OutputInvalid when it filled less than a whole array.
        """
        structs = self._structs
        for array, (_, _, size, struct) in zip(arrays, self._plans):
            struct.buf = address(array)
            struct.size = size
        code = get(context, self._count, structs, self._extend_ref)
        if code:
            raise call_error("rknn_outputs_get", code)
        code = release(context, self._count, structs)
        for position, (_, _, size, struct) in enumerate(self._plans):
            if struct.size < size:
                raise OutputInvalid(
                    f"rknn_outputs_get filled {struct.size} of {size} bytes of output {self._names[position]}; "
                    "the library does not fit the model, update the runtime"
                )
        if code:
            raise call_error("rknn_outputs_release", code)
