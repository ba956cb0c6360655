"""The common path's inputs: from checked arrays to one ``rknn_input`` per model input.

The library copies the data inside ``rknn_inputs_set`` and turns NHWC to the order inside of the NPU; an array of the
right layout is handed over where it lies.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.running import in_order, wrong_bytes, wrong_rank, wrong_shape

from rknnlite.errors import InputInvalid
from rknnlite.spi import Input
from rknnlite.tensor import DType, Layout, TensorAttr

from . import abi

__all__ = ["InputFeed"]

Array = NDArray[Any]
_TYPES = {
    np.dtype(np.float32): DType.FLOAT32,
    np.dtype(np.float16): DType.FLOAT16,
    np.dtype(np.int8): DType.INT8,
    np.dtype(np.uint8): DType.UINT8,
    np.dtype(np.int16): DType.INT16,
}
"""All element types that this C API has."""
_CARRIERS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.bool_): np.dtype(np.uint8),
}


class InputFeed:
    """All inputs of a context. ``count`` and ``structs`` go to ``rknn_inputs_set``.

    Args:
        attrs: inputs as programs see them (rank 4: NHWC).
        native: the same as the library reports them, for data that is passed through.
    """

    def __init__(self, attrs: Sequence[TensorAttr], native: Sequence[TensorAttr]) -> None:
        self.structs = abi.array_of(abi.InputStruct, len(attrs))()
        self.count = len(attrs)
        self._attrs, self._native = attrs, native

    def put(self, inputs: Sequence[Input]) -> list[Array]:
        """Take all inputs of the next run; keep what is returned until the library has its copy.

        Raises:
            InputInvalid: number, shape, element type or (passed through) bytes do not fit.
        """
        return [self._put(index, item) for index, item in enumerate(in_order(inputs, self._attrs))]

    def _put(self, index: int, item: Input) -> Array:
        attr, struct, data = self._attrs[index], self.structs[index], item.data
        if item.pass_through:
            native = self._native[index]
            if data.nbytes != native.size:
                raise wrong_bytes(native, data.nbytes, [native.size])
            held, kind, layout = np.ascontiguousarray(data), native.dtype, native.layout
        else:
            held = _plain(attr, item)
            kind, layout = (
                _TYPES[held.dtype],
                Layout.NHWC if len(attr.dims) == 4 else self._native[index].layout,
            )
        struct.index, struct.pass_through = attr.index, item.pass_through
        struct.type, struct.fmt = kind, layout if layout in (Layout.NCHW, Layout.NHWC) else Layout.NCHW
        struct.buf, struct.size = ct.c_void_p(held.ctypes.data), held.nbytes
        return held


def _plain(attr: TensorAttr, item: Input) -> Array:
    """The data as a contiguous array of a type that the C API has; raises InputInvalid."""
    data = item.data
    if item.layout is Layout.NCHW and len(attr.dims) == 4:
        if data.ndim != 4:
            raise wrong_rank(attr, data.shape)
        data = data.transpose(0, 2, 3, 1)
    if data.shape != attr.dims:
        raise wrong_shape(attr, data.shape, item.layout)
    kind = data.dtype.newbyteorder("=")
    kind = _CARRIERS.get(kind, kind)
    if kind not in _TYPES:
        raise InputInvalid(
            f"input {attr.name}: librknn_api takes no {data.dtype} data; give uint8, int8, int16, float16 or float32"
        )
    return np.ascontiguousarray(data, kind)
