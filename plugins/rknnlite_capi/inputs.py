"""``rknn_input`` as the data of an input: sizes, types and formats as ``rknn_inputs_set`` takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.abi.rknn_api import InputStruct
from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.layout import nhwc_to_nchw_shape
from rknnlite.spi import Context, Input
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = ["input_of"]

Bytes = Callable[[int], NDArray[np.uint8]]


def input_of(opened: Context, struct: InputStruct, data: Bytes, *, lenient: bool = False) -> Input:
    """What the structure says; ``data(size)`` gives its bytes, once its size was found right.

    Args:
        lenient: take the first bytes where it has more than are needed, and NCHW as well as NHWC.

    Raises:
        InputInvalid: no such input, type or format, or more bytes than needed. ParamInvalid: fewer.
    """
    attrs = opened.inputs
    if struct.index >= len(attrs):
        raise InputInvalid(f"there is no input {struct.index}, the model has {len(attrs)}")
    attr = attrs[struct.index]
    if struct.pass_through:
        return _passed(opened.native_inputs[struct.index], struct, data)
    try:
        dtype = DType(struct.type).numpy
    except ValueError:
        raise InputInvalid(
            f"input {attr.name}: type {struct.type} is none; there are 0 to {max(DType)}"
        ) from None
    layout = Layout.UNDEFINED if len(attr.dims) != 4 else Layout.NHWC
    if lenient and layout is Layout.NHWC and struct.fmt == Layout.NCHW:
        layout = Layout.NCHW
    elif layout is Layout.NHWC and struct.fmt != Layout.NHWC:
        raise InputInvalid(
            f"input {attr.name}: fmt is {struct.fmt}, data of rank 4 must be NHWC (1) unless it is passed through"
        )
    need = attr.n_elems * dtype.itemsize
    _check_size(struct, attr, need, lenient)
    dims = nhwc_to_nchw_shape(attr.dims) if layout is Layout.NCHW else attr.dims
    elements: NDArray[Any] = data(need).view(dtype).reshape(dims)
    return Input(attr.index, elements, layout)


def _passed(native: TensorAttr, struct: InputStruct, data: Bytes) -> Input:
    """The native tensor, with the padding of its rows or without; or float32 for float16, by the type that is named.

    librknnrt 2.3.2 counts bytes by that type also where data pass through: what is float16 and not named so is too short.
    """
    if native.dtype is DType.FLOAT16 and struct.type == DType.FLOAT32:
        if struct.size == native.n_elems * 2:
            raise ParamInvalid(
                f"input {native.name}: {struct.size} bytes given, {native.n_elems * 4} are needed: type is FLOAT32 (0), which "
                "counts also where data pass through; set it to FLOAT16 (1)"
            )
        _check_size(struct, native, native.n_elems * 4)
        return Input(struct.index, data(struct.size).view(np.float32), native.layout, pass_through=True)
    if native.layout is not Layout.NHWC or struct.size == native.size:
        _check_size(struct, native, native.size)
        elements = data(struct.size).view(native.dtype.numpy)
    else:
        n, h, w, c = native.dims
        _check_size(struct, native, n * h * native.w_stride * c * native.dtype.bits // 8)
        rows = data(struct.size).view(native.dtype.numpy)
        elements = rows.reshape(n, h, native.w_stride, c)[:, :, :w]
    return Input(struct.index, elements.reshape(native.dims), native.layout, pass_through=True)


def _check_size(struct: InputStruct, attr: TensorAttr, need: int, lenient: bool = False) -> None:
    if struct.size < need or (struct.size > need and not lenient):
        kind = "passed through" if struct.pass_through else DType(struct.type).name
        wrong = ParamInvalid if struct.size < need else InputInvalid  # -5: librknnrt 2.3.2
        raise wrong(f"input {attr.name}: {struct.size} bytes given, {need} are needed ({kind})")
