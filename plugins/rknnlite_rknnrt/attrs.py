"""Tensor attributes between C structures and ``TensorAttr``."""

from __future__ import annotations

import ctypes as ct
import dataclasses
from typing import Any

from rknnlite_backend.rknn_calls import quantisation

from rknnlite.errors import RknnError
from rknnlite.spi import AttrKind
from rknnlite.tensor import DType, Layout, TensorAttr

from . import abi
from .errors import check

__all__ = [
    "QUERIES",
    "from_struct",
    "query_attr",
    "read_ranges",
    "reshaped",
    "to_struct",
]

QUERIES = {
    AttrKind.INPUT: abi.Query.INPUT_ATTR,
    AttrKind.OUTPUT: abi.Query.OUTPUT_ATTR,
    AttrKind.NATIVE_INPUT: abi.Query.NATIVE_INPUT_ATTR,
    AttrKind.NATIVE_OUTPUT: abi.Query.NATIVE_OUTPUT_ATTR,
    AttrKind.NATIVE_NHWC_INPUT: abi.Query.NATIVE_NHWC_INPUT_ATTR,
    AttrKind.NATIVE_NHWC_OUTPUT: abi.Query.NATIVE_NHWC_OUTPUT_ATTR,
    AttrKind.CURRENT_INPUT: abi.Query.CURRENT_INPUT_ATTR,
    AttrKind.CURRENT_OUTPUT: abi.Query.CURRENT_OUTPUT_ATTR,
    AttrKind.CURRENT_NATIVE_INPUT: abi.Query.CURRENT_NATIVE_INPUT_ATTR,
    AttrKind.CURRENT_NATIVE_OUTPUT: abi.Query.CURRENT_NATIVE_OUTPUT_ATTR,
}


def from_struct(struct: abi.TensorAttrStruct) -> TensorAttr:
    """Translate what the library answered; raises RknnError for numbers that no version defines."""
    name = struct.name.decode("utf-8", "replace")
    rank = struct.n_dims
    if rank > abi.MAX_DIMS or not struct.n_elems:
        raise RknnError(
            f"the library answers rank {rank} and {struct.n_elems} elements for tensor {name!r}; "
            f"rank 1 to {abi.MAX_DIMS} is possible: the library does not fit the model, update the runtime"
        )
    try:
        dtype, layout = DType(struct.type), Layout(struct.fmt)
    except ValueError as error:
        raise RknnError(f"the library answers an unknown type or layout for tensor {name}: {error}") from None
    return TensorAttr(
        index=struct.index,
        name=name,
        dims=tuple(struct.dims[:rank]),
        dtype=dtype,
        layout=layout,
        quant=quantisation(struct),
        w_stride=struct.w_stride,
        h_stride=struct.h_stride,
        size_with_stride=struct.size_with_stride,
        pass_through=bool(struct.pass_through),
    )


def to_struct(attr: TensorAttr) -> abi.TensorAttrStruct:
    """The structure for a call; ``size`` follows dims and dtype, which the caller may have edited."""
    struct = abi.TensorAttrStruct(
        index=attr.index,
        n_dims=len(attr.dims),
        name=attr.name.encode()[: abi.MAX_NAME - 1],
        n_elems=attr.n_elems,
        size=attr.size,
        fmt=attr.layout,
        type=attr.dtype,
        w_stride=attr.w_stride,
        h_stride=attr.h_stride,
        size_with_stride=max(attr.size_with_stride, attr.size),
        pass_through=attr.pass_through,
        scale=1.0,
    )
    struct.dims[: len(attr.dims)] = attr.dims
    if attr.quant is not None:
        struct.qnt_type = abi.QntType.AFFINE_ASYMMETRIC
        struct.scale, struct.zp = attr.quant.scale, attr.quant.zero_point
    return struct


def read_struct(query: Any, context: int, command: abi.Query, struct: ct.Structure) -> None:
    """``rknn_query`` into a structure; raises the typed error naming the command."""
    code = query(context, command, ct.byref(struct), ct.sizeof(struct))
    check(f"rknn_query({command.name})", code)


def query_attr(query: Any, context: int, command: abi.Query, index: int) -> TensorAttr:
    """One attribute by its index; raises the typed error naming the query."""
    struct = abi.TensorAttrStruct(index=index)
    read_struct(query, context, command, struct)
    return from_struct(struct)


def read_ranges(query: Any, context: int, count: int, known: bool) -> list[list[tuple[int, ...]]]:
    """Legal shapes of a dynamic model, one list with a shape per input each; empty for a static model.

    Versions answer the question about a static model with different codes, so that the first one only says
    so, unless the model is known to be dynamic.
    """
    per_input: list[list[tuple[int, ...]]] = []
    for index in range(count):
        found = abi.InputRange(index=index)
        try:
            read_struct(query, context, abi.Query.INPUT_DYNAMIC_RANGE, found)
        except RknnError:
            if known or per_input:
                raise
            return []
        number, rank = found.shape_number, found.n_dims
        if number > abi.MAX_DYNAMIC_SHAPES or rank > abi.MAX_DIMS:
            raise RknnError(f"the library answers {number} shapes of rank {rank} for input {index}")
        per_input.append([tuple(found.dyn_range[k][:rank]) for k in range(number)])
    return [list(shapes) for shapes in zip(*per_input)]


def reshaped(attr: TensorAttr, dims: tuple[int, ...]) -> TensorAttr:
    """The attribute with other dims, for ``rknn_set_input_shapes``."""
    layout = Layout.NHWC if len(dims) == 4 else Layout.UNDEFINED
    return dataclasses.replace(attr, dims=dims, layout=layout, w_stride=0, size_with_stride=0)
