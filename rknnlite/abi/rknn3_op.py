"""Post-process plugins of librknn3_api 1.0.0: the tensor attribute and the numbers that host and plugin share."""

from __future__ import annotations

import ctypes as ct
import enum

__all__ = [
    "MAX_DIMS",
    "MAX_NAME",
    "REGISTER_FUNCTION",
    "Layout3",
    "QntType3",
    "QuantInfo",
    "TensorAttr3",
    "Type3",
]

MAX_DIMS, MAX_STRIDES, MAX_NAME = 16, 17, 256
REGISTER_FUNCTION = "rknn3_register_custom_ops_plugin"
"""What a plugin exports: ``rknn3_custom_op *rknn3_register_custom_ops_plugin(int index)``, NULL past the last."""


class Type3(enum.IntEnum):
    """``rknn3_tensor_type``; unlike librknnrt's it has UINT64, so BOOL and INT4 are one higher."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    UINT64 = 9
    BOOL = 10
    INT4 = 11


class Layout3(enum.IntEnum):
    """``rknn3_tensor_layout``, as far as outputs have it."""

    UNDEFINED = 0
    NCHW = 1
    NHWC = 2


class QntType3(enum.IntEnum):
    """``rknn3_tensor_qnt_type``, as far as outputs have it."""

    NONE = 0
    PER_LAYER_SYMMETRIC = 1
    PER_LAYER_ASYMMETRIC = 2


class QuantInfo(ct.Structure):
    _fields_ = (("scale", ct.c_float), ("zero_point", ct.c_int32))


class TensorAttr3(ct.Structure):
    """``rknn3_tensor_attr``, 512 bytes; a later header makes it 584 bytes."""

    _fields_ = (
        ("index", ct.c_uint32),
        ("name", ct.c_char * MAX_NAME),
        ("n_dims", ct.c_uint32),
        ("shape", ct.c_uint32 * MAX_DIMS),
        ("aligned_size", ct.c_uint64),
        ("n_stride", ct.c_uint32),
        ("stride", ct.c_uint64 * MAX_STRIDES),
        ("n_elems", ct.c_uint32),
        ("dtype", ct.c_int32),
        ("layout", ct.c_int32),
        ("qnt_type", ct.c_int32),
        ("qnt_info", QuantInfo),
        ("core_id", ct.c_int32),
    )
