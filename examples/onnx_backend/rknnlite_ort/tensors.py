"""Tensors of onnxruntime as rknnlite has them: NHWC outside and NCHW inside."""

from __future__ import annotations

from typing import Any

import numpy as np
from rknnlite_backend.running import wrong_bytes, wrong_shape

from rknnlite.errors import ModelUnsupported, ParamInvalid
from rknnlite.layout import nhwc_to_nchw_shape
from rknnlite.spi import Input
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = ["attr_of", "fed", "inside"]

_NAMES = {"float": "float32"}  # where ONNX has another word than numpy


def attr_of(declared: Any, index: int, shape: tuple[int, ...], is_input: bool) -> TensorAttr:
    layout = (Layout.NHWC if is_input else Layout.NCHW) if len(shape) == 4 else Layout.UNDEFINED
    kind = declared.type[len("tensor(") : -1]
    try:
        return TensorAttr(
            index, declared.name, tuple(shape), DType.from_numpy(_NAMES.get(kind, kind)), layout
        )
    except ParamInvalid as error:
        raise ModelUnsupported(f"{declared.name}: {error}") from None


def inside(attr: TensorAttr) -> tuple[int, ...]:
    return nhwc_to_nchw_shape(attr.dims) if attr.layout is Layout.NHWC else attr.dims


def fed(item: Input, attr: TensorAttr) -> Any:
    """The array as the network has it, a copy: the caller may write into his own when ``set_inputs`` has returned."""
    if item.pass_through:  # its bytes are the tensor's
        if item.data.nbytes != attr.size:
            raise wrong_bytes(attr, item.data.nbytes, [attr.size])
        return np.frombuffer(item.data.tobytes(), attr.dtype.numpy).reshape(inside(attr))
    if item.nhwc_shape != attr.dims:
        raise wrong_shape(attr, item.nhwc_shape, item.layout)
    data = item.data.transpose(0, 3, 1, 2) if item.layout is Layout.NHWC else item.data
    return np.array(data, attr.dtype.numpy, order="C")
