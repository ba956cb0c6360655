"""``rknn_tensor_attr`` of an attribute, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.abi.rknn_api import QNT_AFFINE, QNT_NONE
from rknnlite.abi.rknn_op import MAX_DIMS, MAX_NAME, TensorAttrStruct
from rknnlite.errors import ParamInvalid
from rknnlite.spi import Context
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = ["attr_of", "attr_struct", "attribute_value", "shapes_of", "shapes_with"]


def attr_struct(attr: TensorAttr) -> TensorAttrStruct:
    """The structure that a query fills."""
    quant = attr.quant
    struct = TensorAttrStruct(
        index=attr.index,
        n_dims=len(attr.dims),
        name=attr.name.encode()[: MAX_NAME - 1],
        n_elems=attr.n_elems,
        size=attr.size,
        fmt=attr.layout,
        type=attr.dtype,
        qnt_type=QNT_AFFINE if quant else QNT_NONE,
        zp=quant.zero_point if quant else 0,
        scale=quant.scale if quant else 1.0,
        w_stride=attr.w_stride,
        size_with_stride=attr.size_with_stride or attr.size,
        pass_through=attr.pass_through,
        h_stride=attr.h_stride,
    )
    struct.dims[: len(attr.dims)] = attr.dims
    return struct


def attr_of(struct: TensorAttrStruct) -> TensorAttr:
    """What a program says of a tensor; raises ParamInvalid for numbers that mean nothing."""
    name = struct.name.decode("utf-8", "replace")
    if not 0 < struct.n_dims <= MAX_DIMS:
        raise ParamInvalid(f"tensor {name!r} has {struct.n_dims} dims; there are 1 to {MAX_DIMS}")
    try:
        dtype, layout = DType(struct.type), Layout(struct.fmt)
    except ValueError:
        raise ParamInvalid(
            f"tensor {name!r} has type {struct.type} and fmt {struct.fmt}; types are 0 to {max(DType)}, "
            f"formats 0 to {max(Layout)}"
        ) from None
    return TensorAttr(
        index=struct.index,
        name=name,
        dims=tuple(struct.dims[: struct.n_dims]),
        dtype=dtype,
        layout=layout,
        w_stride=struct.w_stride,
        h_stride=struct.h_stride,
        size_with_stride=struct.size_with_stride,
        pass_through=bool(struct.pass_through),
    )


def shapes_of(structs: Sequence[TensorAttrStruct], opened: Context) -> list[tuple[int, ...]]:
    """What ``rknn_set_input_shapes`` chooses, one shape per input in their order; raises ParamInvalid."""
    count = len(structs)
    if count != len(opened.inputs):
        raise ParamInvalid(f"{count} shapes given, the model has {len(opened.inputs)} inputs")
    given = {struct.index: attr_of(struct) for struct in structs}
    if sorted(given) != list(range(count)):
        raise ParamInvalid(f"shapes are given for inputs {sorted(given)}, must be 0 to {count - 1}")
    return [given[index].dims for index in range(count)]


def shapes_with(
    struct: TensorAttrStruct, opened: Context, chosen: dict[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """What the old ``rknn_set_input_shape`` chooses, which names one input: shapes of all that the model has together.

    Programs call it for one input after the other, or only for the one whose shape changes.

    Args:
        chosen: shapes that inputs were given so far, the last one at the end; this one is added. Of the shapes that
            fit, those count that agree with the last ones.

    Raises:
        ParamInvalid: there is no such input.
    """
    attr, count = attr_of(struct), len(opened.inputs)
    if attr.index >= count:
        raise ParamInvalid(f"a shape is given for input {attr.index}, the model has {count}")
    chosen.pop(attr.index, None)
    fits = [shapes for shapes in opened.shapes if shapes[attr.index] == attr.dims]
    if not fits:  # the context says which there are
        return [attr.dims if i == attr.index else known.dims for i, known in enumerate(opened.inputs)]
    latest = list(reversed(chosen.items()))
    chosen[attr.index] = attr.dims
    return max(fits, key=lambda shapes: [shapes[index] == dims for index, dims in latest])


def attribute_value(value: Any) -> NDArray[Any]:
    """An attribute as the runtime shows it: int64, float32, bool, or the bytes of a text."""
    if isinstance(value, str):
        return np.frombuffer(value.encode(), np.uint8)
    array = np.atleast_1d(np.asarray(value))
    kinds = {"i": np.int64, "f": np.float32, "b": np.bool_}
    return array.astype(kinds.get(array.dtype.kind, np.float32))
