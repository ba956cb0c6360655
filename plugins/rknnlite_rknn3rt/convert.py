"""Between the arrays of a program and the bytes of a tensor: the runtime itself converts nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, RknnError
from rknnlite.layout import (
    nc1hwc2_to_nchw,
    nchw_to_nc1hwc2,
    nchw_to_nhwc,
    nhwc_to_nchw,
    nhwc_to_nchw_shape,
)
from rknnlite.quant import RANGES, dequantise, quantise
from rknnlite.spi import Input
from rknnlite.tensor import DType, Layout

from .attrs import Tensor3

__all__ = ["from_native", "to_native"]

Array = NDArray[Any]


def to_native(item: Input, tensor: Tensor3) -> Array:
    """The elements as the runtime wants them, native dims and type, C-contiguous; raises InputInvalid.

    Elements of the tensor's own type are taken as they are; others are real values.
    """
    data, native = item.data, tensor.native
    fits = data.size == native.n_elems and (item.pass_through or data.shape == native.dims)
    if data.dtype == native.dtype.numpy and fits and _same_order(item, tensor):
        return np.ascontiguousarray(data).reshape(native.dims)
    if item.pass_through:
        raise InputInvalid(
            f"input {native.name}: with pass_through needed are {native.dtype.name} {list(native.dims)} in "
            f"{native.layout.name}, not {data.dtype} {list(data.shape)}"
        )
    return np.ascontiguousarray(_laid_out(_values(_logical(item, tensor), tensor), tensor))


def _same_order(item: Input, tensor: Tensor3) -> bool:
    layout = tensor.native.layout
    return item.pass_through or layout in (Layout.UNDEFINED, Layout.NC1HWC2) or item.layout is layout


def _logical(item: Input, tensor: Tensor3) -> Array:
    """Rank 4 as NCHW view, others as they are; raises InputInvalid when the shape is not the tensor's."""
    data, logical = item.data, tensor.logical
    if logical.layout is Layout.UNDEFINED:
        if data.shape != logical.dims:
            raise _shape_error(data, tensor, f"{list(logical.dims)}")
        return data
    nchw = item.layout is Layout.NCHW
    wanted = nhwc_to_nchw_shape(logical.dims) if nchw else logical.dims
    if data.shape != wanted:
        raise _shape_error(data, tensor, f"{list(wanted)} ({'NCHW' if nchw else 'NHWC'})")
    return data if nchw else nhwc_to_nchw(data)


def _shape_error(data: Array, tensor: Tensor3, wanted: str) -> InputInvalid:
    return InputInvalid(f"input {tensor.native.name}: needed is shape {wanted}, not {list(data.shape)}")


def _values(data: Array, tensor: Tensor3) -> Array:
    """Elements of the tensor's type; raises InputInvalid when they cannot be had without loss of meaning."""
    native, target = tensor.native, tensor.native.dtype.numpy
    if data.dtype == target:
        return data
    if data.dtype.kind not in "biuf":
        raise InputInvalid(f"input {native.name}: element type {data.dtype} is no number")
    if native.quant is not None and native.dtype in RANGES:
        return quantise(data, native.quant, native.dtype)
    if not tensor.readable:
        raise InputInvalid(
            f"input {native.name} is quantised per channel: give {native.dtype.name} elements ready-made"
        )
    if native.dtype is DType.BFLOAT16:
        raise InputInvalid(f"input {native.name} is bfloat16: give uint16 elements ready-made")
    if native.dtype.is_float or native.dtype is DType.BOOL:
        return data.astype(target)
    return _integers(data, native.name, target)


def _integers(data: Array, name: str, target: Any) -> Array:
    """Whole numbers in another width; raises InputInvalid for fractions and for what does not fit."""
    if data.dtype.kind == "f":
        raise InputInvalid(
            f"input {name} holds {target} numbers, {data.dtype} were given; convert them first"
        )
    info = np.iinfo(target)
    if data.size and (int(data.min()) < info.min or int(data.max()) > info.max):
        raise InputInvalid(
            f"input {name}: values {int(data.min())} to {int(data.max())} do not fit {target} ({info.min}..{info.max})"
        )
    return data.astype(target)


def _laid_out(data: Array, tensor: Tensor3) -> Array:
    """NCHW (or an array of another rank) in the native layout."""
    native = tensor.native
    if native.layout is Layout.NHWC:
        return nchw_to_nhwc(data)
    if native.layout is Layout.NC1HWC2:
        return nchw_to_nc1hwc2(data, native.dims[4], native.quant.zero_point if native.quant else 0)
    return data


def from_native(data: Array, tensor: Tensor3, want_float: bool) -> Array:
    """An output in logical order, always a copy: float32, or the stored elements; ``data`` has native dims."""
    native = tensor.native
    if native.layout is Layout.NHWC:
        data = nhwc_to_nchw(data)
    elif native.layout is Layout.NC1HWC2:
        data = nc1hwc2_to_nchw(data, tensor.logical.dims[1])
    if not want_float:
        raw: Array = data.copy()
        return raw
    if not tensor.readable:
        raise RknnError(
            f"output {native.name} is quantised per channel and no query tells the parameters; ask for raw outputs"
        )
    if native.quant is not None:
        return np.ascontiguousarray(dequantise(data, native.quant))
    if native.dtype is DType.BFLOAT16:
        wide: Array = (data.astype(np.uint32) << 16).view(np.float32)
        return wide
    return np.array(data, np.float32)
