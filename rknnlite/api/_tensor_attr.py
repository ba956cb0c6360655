"""Tensor attributes with the field names of ``rknn_tensor_attr``, as programs read them from the runtime."""

from __future__ import annotations

from dataclasses import dataclass

from ..abi.rknn_api import QNT_AFFINE, QNT_NONE
from ..tensor import TensorAttr

__all__ = ["RKNNPerfRun", "RKNNTensorAttr", "TensorName"]


class TensorName(bytes):
    """A tensor name: bytes, as a C structure gives them, that also compare and print like the text."""

    def __eq__(self, other: object) -> bool:
        return bytes(self) == (other.encode() if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = bytes.__hash__

    def __str__(self) -> str:
        return self.decode("utf-8", "replace")


@dataclass(frozen=True)
class RKNNTensorAttr:
    """One input or output: ``dims`` has ``n_dims`` entries; ``type``, ``fmt``, ``qnt_type`` are C enums."""

    index: int
    n_dims: int
    dims: list[int]
    name: TensorName
    n_elems: int
    size: int
    fmt: int
    type: int
    qnt_type: int
    fl: int
    zp: int
    scale: float
    w_stride: int
    size_with_stride: int
    pass_through: int
    h_stride: int

    @classmethod
    def of(cls, attr: TensorAttr) -> RKNNTensorAttr:
        """Translate an attribute of the core."""
        quant = attr.quant
        return cls(
            index=attr.index,
            n_dims=len(attr.dims),
            dims=list(attr.dims),
            name=TensorName(attr.name.encode()),
            n_elems=attr.n_elems,
            size=attr.size,
            fmt=int(attr.layout),
            type=int(attr.dtype),
            qnt_type=QNT_AFFINE if quant else QNT_NONE,
            fl=0,
            zp=quant.zero_point if quant else 0,
            scale=quant.scale if quant else 1.0,
            w_stride=attr.w_stride,
            size_with_stride=attr.size_with_stride or attr.size,
            pass_through=int(attr.pass_through),
            h_stride=attr.h_stride,
        )


@dataclass(frozen=True)
class RKNNPerfRun:
    """``run_duration``: microseconds of the last run, input and output conversion left out."""

    run_duration: int
