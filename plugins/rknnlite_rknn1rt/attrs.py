"""Tensor attributes from C structures to ``TensorAttr``: the C API counts dims from the innermost."""

from __future__ import annotations

import ctypes as ct
import dataclasses
from typing import Any

from rknnlite_backend.rknn_calls import quantisation

from rknnlite.errors import RknnError
from rknnlite.tensor import DType, Layout, TensorAttr

from . import abi
from .errors import check

__all__ = ["from_struct", "query_struct"]

_TYPES = (DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.UINT8, DType.INT16)
_LARGEST = 1 << 31


def query_struct(query: Any, context: int, command: abi.Query, index: int) -> abi.TensorAttrStruct:
    """One attribute by its index; raises the typed error naming the query."""
    struct = abi.TensorAttrStruct(index=index)
    code = query(context, command, ct.byref(struct), ct.sizeof(struct))
    check(f"rknn_query({command.name})", code)
    return struct


def from_struct(struct: abi.TensorAttrStruct) -> TensorAttr:
    """Translate what the library answered; raises RknnError for numbers that contradict each other or nobody defines."""
    name = struct.name.decode("utf-8", "replace")
    rank = struct.n_dims
    if rank > abi.MAX_DIMS:
        raise RknnError(_misfit(name, f"rank {rank}, at most {abi.MAX_DIMS} is possible"))
    if not 0 <= struct.type < len(_TYPES) or struct.fmt not in (Layout.NCHW, Layout.NHWC):
        raise RknnError(_misfit(name, f"element type {struct.type} and layout {struct.fmt}"))
    attr = TensorAttr(
        index=struct.index,
        name=name,
        dims=tuple(reversed(struct.dims[:rank])),
        dtype=_TYPES[struct.type],
        layout=Layout(struct.fmt) if rank == 4 else Layout.UNDEFINED,
        quant=quantisation(struct),
    )
    if not 0 < attr.n_elems < _LARGEST or attr.n_elems != struct.n_elems:
        raise RknnError(_misfit(name, f"dims {list(attr.dims)} and {struct.n_elems} elements"))
    return dataclasses.replace(attr, size_with_stride=max(struct.size, attr.size))


def _misfit(name: str, what: str) -> str:
    return f"the library answers {what} for tensor {name!r}: it is no librknn_api that is known here; update the runtime"
