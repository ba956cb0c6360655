"""What a tensor is to a caller: element type, layout, quantisation parameters, attribute."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np

from .errors import ParamInvalid, shown

__all__ = ["DType", "KvDtype", "Layout", "QuantParams", "TensorAttr"]


class UnknownValue(ParamInvalid, ValueError):
    """A value that an enumeration does not have: an error of ours, and the ValueError that Python gives."""


class Known:
    """Part of the public enumerations: what they do not have is ``UnknownValue``, which lists what there is."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        try:
            found = super()._missing_(value)  # type: ignore[misc]  # flags make values of several
        except (TypeError, ValueError):
            found = None
        if found is not None:
            return found
        members: Mapping[str, int] = cls.__members__  # type: ignore[attr-defined]
        there = ", ".join(f"{name} ({int(member)})" for name, member in members.items())
        raise UnknownValue(
            f"{cls.__name__}: value is {type(value).__name__} {shown(value, 60)}, must be one of {there}"
        )


class DType(Known, enum.IntEnum):
    """Element types, numbered as ``rknn_tensor_type`` of the C API.

    Examples:
        >>> DType.from_numpy("float16").bits
        16
        >>> DType.INT8.numpy
        dtype('int8')
    """

    FLOAT32 = 0
    FLOAT16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    BOOL = 9
    INT4 = 10
    BFLOAT16 = 11

    @property
    def short(self) -> str:
        """The vendor's short name: FP32, FP16, INT8, ..."""
        return {0: "FP32", 1: "FP16", 11: "BF16"}.get(self.value, self.name)

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return _BITS[self]

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy type that carries such elements (bfloat16: uint16; int4: int8, one element each)."""
        return np.dtype(_NUMPY[self])

    @property
    def is_float(self) -> bool:
        """True for float32, float16 and bfloat16."""
        return self in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)

    @classmethod
    def from_numpy(cls, dtype: object) -> DType:
        """The element type of a numpy dtype; raises ParamInvalid for one that no RKNN tensor can have."""
        try:
            name = np.dtype(dtype).name  # type: ignore[call-overload]
        except (TypeError, ValueError):
            name = shown(dtype, 60)
        try:
            return _FROM_NUMPY[name]
        except KeyError:
            known = ", ".join(sorted(_FROM_NUMPY))
            raise ParamInvalid(f"element type {name} has no RKNN counterpart; use one of {known}") from None


_BITS = {
    DType.FLOAT32: 32,
    DType.FLOAT16: 16,
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.UINT16: 16,
    DType.INT32: 32,
    DType.UINT32: 32,
    DType.INT64: 64,
    DType.BOOL: 8,
    DType.INT4: 4,
    DType.BFLOAT16: 16,
}
_NUMPY = {
    DType.FLOAT32: "float32",
    DType.FLOAT16: "float16",
    DType.INT8: "int8",
    DType.UINT8: "uint8",
    DType.INT16: "int16",
    DType.UINT16: "uint16",
    DType.INT32: "int32",
    DType.UINT32: "uint32",
    DType.INT64: "int64",
    DType.BOOL: "bool",
    DType.INT4: "int8",
    DType.BFLOAT16: "uint16",
}
_FROM_NUMPY = {name: dtype for dtype, name in _NUMPY.items() if dtype not in (DType.INT4, DType.BFLOAT16)}


class KvDtype(Known, enum.IntEnum):
    """How the KV cache is stored and computed (``rknn3_kvcache_dtype``); UNDEFINED: float32, never on a device.

    Examples:
        >>> with rknnlite.open_llm("examples/llm_chat/models/tiny.rknn") as model:
        ...     model.config.kvcache_dtype in KvDtype
        True
    """

    UNDEFINED = 0
    INT4_TO_F16 = 1
    INT4_TO_F8 = 2
    INT8_TO_F16 = 3
    FLOAT4_TO_F16 = 4
    FLOAT4_TO_F8 = 5
    FLOAT8_TO_F16 = 6
    FLOAT8_TO_F8 = 7
    FLOAT16 = 8


class Layout(Known, enum.IntEnum):
    """Layouts, numbered as ``rknn_tensor_format`` of the C API.

    Examples:
        >>> Layout.NHWC, int(Layout.NHWC)
        (<Layout.NHWC: 1>, 1)
    """

    NCHW = 0
    NHWC = 1
    NC1HWC2 = 2
    UNDEFINED = 3


class QuantParams(NamedTuple):
    """Affine quantisation of a whole tensor: ``real = (q - zero_point) * scale``.

    Examples:
        >>> quant = QuantParams(scale=0.5, zero_point=-3)
        >>> (7 - quant.zero_point) * quant.scale
        5.0
    """

    scale: float
    zero_point: int


@dataclass(frozen=True)
class TensorAttr:
    """Attribute of a model input or output, the fields of ``rknn_tensor_attr`` in Python types.

    ``dims`` are outermost first; ``size`` and ``size_with_stride`` are bytes; ``w_stride`` is pixels per row
    with padding (0 = the width); ``quant`` is None for tensors that are not quantised, but scale 1 and zero point 0
    for float16 inputs and outputs, as the vendor's runtimes report them.

    Examples:
        >>> attr = TensorAttr(0, "image", (1, 224, 224, 3), DType.INT8, Layout.NHWC)
        >>> attr.n_elems, attr.size
        (150528, 150528)
    """

    index: int
    name: str
    dims: tuple[int, ...]
    dtype: DType
    layout: Layout
    quant: Optional[QuantParams] = None
    w_stride: int = 0
    h_stride: int = 0
    size_with_stride: int = 0
    pass_through: bool = False

    @property
    def n_elems(self) -> int:
        """Number of elements without padding."""
        count = 1
        for dim in self.dims:
            count *= dim
        return count

    @property
    def size(self) -> int:
        """Bytes without padding."""
        return self.n_elems * self.dtype.bits // 8

    def __str__(self) -> str:
        scale, zero = (self.quant.scale, self.quant.zero_point) if self.quant else (1.0, 0)
        kind = "AFFINE" if self.quant else "NONE"
        return (
            f"index={self.index}, name={self.name}, n_dims={len(self.dims)}, dims={list(self.dims)}, "
            f"n_elems={self.n_elems}, size={self.size}, w_stride={self.w_stride}, "
            f"size_with_stride={self.size_with_stride or self.size}, fmt={self.layout.name}, "
            f"type={self.dtype.short}, qnt_type={kind}, zp={zero}, scale={scale:.6f}"
        )
