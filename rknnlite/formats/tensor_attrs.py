"""Tensor attributes as the real runtime reports them for a SoC (RKNN user guide, sections 5.1 and 5.2.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from ..socs import Soc
from ..tensor import DType, Layout, TensorAttr
from . import IoTensor

__all__ = ["default_attr", "native_input", "native_output"]


_PICTURES = (1, 3, 4)  # channels of inputs that stay NHWC on the NPU


def default_attr(
    index: int, io: IoTensor, batch: int, is_input: bool, soc: Optional[Soc] = None
) -> TensorAttr:
    """What RKNN_QUERY_INPUT_ATTR and OUTPUT_ATTR answer: rank 4 inputs NHWC, outputs in the model's order.

    Inputs of rank 4 come with the rows of their native form. Outputs that the NPU leaves in feature layout come
    with the bytes of that, rows padded as well, and no ``w_stride`` (seen in public logs of RK3588 and RK3576).
    Without a SoC rows are not padded.
    """
    shape = (io.shape[0] * batch, *io.shape[1:]) if io.shape else io.shape
    if len(shape) != 4:
        return TensorAttr(index, io.name, shape, io.dtype, Layout.UNDEFINED, io.quant)
    n, c, h, w = shape
    row = _aligned(w, soc.align) if soc else w
    if is_input:
        row = row if c in _PICTURES else w
        attr = TensorAttr(index, io.name, (n, h, w, c), io.dtype, Layout.NHWC, io.quant, w_stride=row)
        return replace(attr, size_with_stride=attr.size // w * row if w else 0)
    attr = TensorAttr(index, io.name, shape, io.dtype, Layout.NCHW, io.quant)
    if soc is None or len(io.native_shape) != 5:
        return attr
    _, blocks, rows, _, lanes = io.native_shape
    return replace(attr, size_with_stride=n * blocks * rows * row * lanes * io.dtype.bits // 8)


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align


def native_input(index: int, io: IoTensor, batch: int, soc: Soc) -> TensorAttr:
    """NHWC with padded rows for 1, 3, 4 channels; NC1HWC2 for other rank 4 inputs; else the model's order."""
    attr = default_attr(index, io, batch, is_input=True)
    if len(io.shape) != 4:
        size = _aligned(attr.size, soc.align)
        return TensorAttr(
            index, io.name, attr.dims, attr.dtype, attr.layout, attr.quant, size_with_stride=size
        )
    n, h, w, c = attr.dims
    if io.dtype in (DType.BOOL, DType.INT64):
        return TensorAttr(
            index, io.name, (n, c, h, w), io.dtype, Layout.NCHW, io.quant, size_with_stride=attr.size
        )
    if c in _PICTURES:
        stride = _aligned(w, soc.align)
        size = n * h * stride * c * io.dtype.bits // 8
        return TensorAttr(
            index, io.name, attr.dims, io.dtype, Layout.NHWC, io.quant, w_stride=stride, size_with_stride=size
        )
    return _nc1hwc2(index, io, (n, c, h, w), soc)


def native_output(index: int, io: IoTensor, batch: int, soc: Soc) -> TensorAttr:
    """NC1HWC2 where the file keeps the output in feature layout, else as by default.

    Groups are those of the file, and with them the padding that the NPU writes: an RK3588 reports [1, 6, 80, 80, 16]
    for 80 channels of int8 (seen in public logs of the vendor's YOLOv8 demo), one group more than table 5-1 asks for.
    """
    attr = default_attr(index, io, batch, is_input=False)
    if len(io.shape) != 4 or len(io.native_shape) != 5:
        return TensorAttr(
            index, io.name, attr.dims, attr.dtype, attr.layout, attr.quant, size_with_stride=attr.size
        )
    packed = _nc1hwc2(index, io, attr.dims, soc)
    _, groups, height, width, lanes = io.native_shape
    wide_enough = all(ours >= need for ours, need in zip(io.native_shape[1:], packed.dims[1:]))
    dims = (attr.dims[0], groups, height, width, lanes) if wide_enough else packed.dims
    native = replace(packed, dims=dims, w_stride=0)
    return replace(native, size_with_stride=native.size)


def _nc1hwc2(index: int, io: IoTensor, nchw: tuple[int, ...], soc: Soc) -> TensorAttr:
    n, c, h, w = nchw
    lanes = soc.lanes(io.dtype)
    dims = (n, -(-c // lanes), h, w, lanes)
    attr = TensorAttr(index, io.name, dims, io.dtype, Layout.NC1HWC2, io.quant, w_stride=w)
    return replace(attr, size_with_stride=attr.size)
