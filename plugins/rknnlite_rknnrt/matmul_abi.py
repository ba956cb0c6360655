"""The structures of ``rknn_matmul_*`` (headers 2.3.2) as ctypes declarations, and matrices between C and Python."""

from __future__ import annotations

import ctypes as ct

from rknnlite.errors import RknnError
from rknnlite.spi.matmul import MatmulShape, MatmulSpec, MatmulTensor
from rknnlite.tensor import DType

from .abi import MAX_DIMS, MAX_NAME

__all__ = [
    "STRUCTURES",
    "Info",
    "Io",
    "QuantParams",
    "Shape",
    "Tensor",
    "info_of",
    "tensor_from",
    "tensor_to",
]


class Tensor(ct.Structure):
    _fields_ = (
        ("name", ct.c_char * MAX_NAME),
        ("n_dims", ct.c_uint32),
        ("dims", ct.c_uint32 * MAX_DIMS),
        ("size", ct.c_uint32),
        ("type", ct.c_int32),
    )


class Io(ct.Structure):
    _fields_ = (("A", Tensor), ("B", Tensor), ("C", Tensor))


class Shape(ct.Structure):
    _fields_ = (("M", ct.c_int32), ("K", ct.c_int32), ("N", ct.c_int32))


class Info(ct.Structure):
    _fields_ = (
        ("M", ct.c_int32),
        ("K", ct.c_int32),
        ("N", ct.c_int32),
        ("type", ct.c_int32),
        ("B_layout", ct.c_int16),
        ("B_quant_type", ct.c_int16),
        ("AC_layout", ct.c_int16),
        ("AC_quant_type", ct.c_int16),
        ("iommu_domain_id", ct.c_int32),
        ("group_size", ct.c_int16),
        ("reserved", ct.c_int8 * 34),
    )


class QuantParams(ct.Structure):
    _fields_ = (
        ("name", ct.c_char * MAX_NAME),
        ("scale", ct.POINTER(ct.c_float)),
        ("scale_len", ct.c_int32),
        ("zp", ct.POINTER(ct.c_int32)),
        ("zp_len", ct.c_int32),
    )


STRUCTURES: dict[str, type[ct.Structure]] = {
    "rknn_matmul_tensor_attr": Tensor,
    "rknn_matmul_io_attr": Io,
    "rknn_matmul_shape": Shape,
    "rknn_matmul_info": Info,
    "rknn_quant_params": QuantParams,
}
"""C name -> declaration."""


def info_of(spec: MatmulSpec, shape: MatmulShape) -> Info:
    """What ``rknn_matmul_create`` is told."""
    return Info(
        M=shape.m,
        K=shape.k,
        N=shape.n,
        type=spec.type,
        B_layout=spec.b_layout,
        B_quant_type=spec.b_quant,
        AC_layout=int(spec.ac_native),
        iommu_domain_id=spec.iommu_domain,
        group_size=spec.group_size,
    )


def tensor_from(struct: Tensor) -> MatmulTensor:
    """Translate what the library answered; raises RknnError for numbers that no version defines."""
    name = struct.name.decode("utf-8", "replace")
    if not 0 < struct.n_dims <= MAX_DIMS:
        raise RknnError(f"the library answers rank {struct.n_dims} for matrix {name}")
    try:
        dtype = DType(struct.type)
    except ValueError:
        raise RknnError(f"the library answers an unknown type {struct.type} for matrix {name}") from None
    return MatmulTensor(name, tuple(struct.dims[: struct.n_dims]), dtype, struct.size)


def tensor_to(tensor: MatmulTensor) -> Tensor:
    """The structure for a call."""
    struct = Tensor(name=tensor.name.encode(), n_dims=len(tensor.dims), size=tensor.size, type=tensor.dtype)
    struct.dims[: len(tensor.dims)] = tensor.dims
    return struct
