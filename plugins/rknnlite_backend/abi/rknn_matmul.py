"""The structures of ``rknn_matmul_*`` of librknnrt (headers 2.3.2)."""

from __future__ import annotations

import ctypes as ct

from rknnlite.abi.rknn_op import MAX_DIMS, MAX_NAME

__all__ = ["STRUCTURES", "Info", "Io", "QuantParams", "Shape", "Tensor"]


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
