"""Tensor attributes as the real runtime reports them for a SoC (RKNN user guide, sections 5.1 and 5.2.3).

Where the guide is silent, as librknnrt 1.6.0 and librknnmrt 2.3.2 answered; docs/librknnrt.md says where they differ
from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from ..socs import Soc
from ..tensor import DType, Layout, QuantParams, TensorAttr
from . import IoTensor

__all__ = ["default_attr", "native_input", "native_output"]


_UNQUANTISED = QuantParams(1.0, 0)
_PICTURES = (1, 3, 4)  # channels of inputs that stay NHWC on the NPU


def default_attr(
    index: int, io: IoTensor, batch: int, is_input: bool, soc: Optional[Soc] = None
) -> TensorAttr:
    """What RKNN_QUERY_INPUT_ATTR and OUTPUT_ATTR answer: rank 4 inputs NHWC, outputs in the model's order.

    Inputs of rank 4 come with the rows of their native form. Outputs that the NPU leaves in feature layout come
    with the bytes of whole groups of channels, rows padded as well, and no ``w_stride`` (255 channels of 40 x 40 on
    RK3588: 256 * 40 * 48; public logs); SoCs of the mini format report their plain size. Without a SoC rows are not
    padded.
    """
    shape = (io.shape[0] * batch, *io.shape[1:]) if io.shape else io.shape
    quant = _quant(io, soc)
    if len(shape) != 4:
        return TensorAttr(index, io.name, shape, io.dtype, Layout.UNDEFINED, quant)
    n, c, h, w = shape
    row = _row(w, io.dtype, soc) if soc else w
    if is_input:
        row = row if c in _PICTURES else w
        attr = TensorAttr(index, io.name, (n, h, w, c), io.dtype, Layout.NHWC, quant, w_stride=row)
        return replace(attr, size_with_stride=attr.size // w * row if w else 0)
    attr = TensorAttr(index, io.name, shape, io.dtype, Layout.NCHW, quant)
    if soc is None or len(io.native_shape) != 5:
        return attr
    if soc.zero_copy_only:
        return replace(attr, size_with_stride=attr.size)
    padded = n * _aligned(c, soc.lanes(io.dtype)) * h * row
    return replace(attr, size_with_stride=padded * io.dtype.bits // 8)


def _quant(io: IoTensor, soc: Optional[Soc]) -> Optional[QuantParams]:
    """float16 tensors have scale 1 and zero point 0 on RKNPU2, as if they were quantised."""
    half = io.dtype in (DType.FLOAT16, DType.BFLOAT16) and (soc is None or soc.generation == "rknpu2")
    return _UNQUANTISED if io.quant is None and half else io.quant


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align


def _row(width: int, dtype: DType, soc: Soc) -> int:
    """Pixels per row of a picture: a channel of it takes a multiple of ``soc.align`` bytes."""
    return _aligned(width, max(1, soc.align * 8 // dtype.bits))


def native_input(index: int, io: IoTensor, batch: int, soc: Soc) -> TensorAttr:
    """NHWC with padded rows for 1, 3, 4 channels; NC1HWC2 for other rank 4 inputs; else the model's order."""
    attr = default_attr(index, io, batch, True, soc)
    if len(io.shape) != 4:
        size = _aligned(attr.size, soc.align)
        return replace(attr, size_with_stride=size)
    n, h, w, c = attr.dims
    if io.dtype in (DType.BOOL, DType.INT64):
        return replace(attr, dims=(n, c, h, w), layout=Layout.NCHW, w_stride=0, size_with_stride=attr.size)
    if c in _PICTURES and soc.generation != "rknpu1":
        return attr
    if soc.generation == "rknpu1" and io.native_shape == attr.dims:
        return replace(attr, w_stride=0)
    if soc.generation == "rknpu1":  # elements lie as the network has them, and pass through so
        return replace(attr, dims=(n, c, h, w), layout=Layout.NCHW, w_stride=0, size_with_stride=attr.size)
    packed = _nc1hwc2(attr, (n, c, h, w), soc)
    return replace(packed, w_stride=w)


def native_output(index: int, io: IoTensor, batch: int, soc: Soc) -> TensorAttr:
    """NC1HWC2 where the file keeps the output in feature layout, else as by default.

    Groups are those of the file, and with them the padding that the NPU writes: an RK3588 reports [1, 6, 80, 80, 16]
    for 80 channels of int8 (seen in public logs of the vendor's YOLOv8 demo), one group more than table 5-1 asks for.
    The positions of a group that are no multiple of the file's alignment (4) are reported as one row, padding
    included: [1, 2, 1, 52, 16] for 7 x 7.
    """
    attr = default_attr(index, io, batch, False, soc)
    if len(io.shape) != 4 or len(io.native_shape) != 5:
        return replace(attr, size_with_stride=attr.size)
    n, _, h, w = attr.dims
    packed = _nc1hwc2(attr, attr.dims, soc)
    wide_enough = all(ours >= need for ours, need in zip(io.native_shape[1:], packed.dims[1:]))
    _, groups, height, width, lanes = io.native_shape if wide_enough else packed.dims
    surface = _aligned(height * width, max(1, io.surface_alignment))
    if (height, width) == (h, w) and surface != height * width:
        height, width = 1, surface
    native = replace(
        packed, dims=(n, groups, height, width, lanes), w_stride=width if soc.zero_copy_only else 0
    )
    return replace(native, size_with_stride=native.size)


def _nc1hwc2(attr: TensorAttr, nchw: tuple[int, ...], soc: Soc) -> TensorAttr:
    n, c, h, w = nchw
    lanes = soc.lanes(attr.dtype)
    packed = replace(attr, dims=(n, -(-c // lanes), h, w, lanes), layout=Layout.NC1HWC2, w_stride=0)
    return replace(packed, size_with_stride=packed.size)
