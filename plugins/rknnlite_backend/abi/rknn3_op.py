"""Post-process plugins of librknn3_api 1.0.0: structures, callback types and the numbers that host and plugin share."""

from __future__ import annotations

import ctypes as ct
import enum

from rknnlite.abi.rknn3_enums import RKNN3_MAX_DIMS, RKNN3_MAX_NAME_LEN
from rknnlite.abi.rknn3_types import RKNN3Tensor, RKNN3TensorAttr, rknn3_context

__all__ = [
    "MAX_DIMS",
    "MAX_NAME",
    "REGISTER_FUNCTION",
    "Layout3",
    "QntType3",
    "RKNN3CustomOp",
    "RKNN3CustomOpCallback",
    "RKNN3CustomOpContext",
    "RKNN3CustomOpGetAttrsCallback",
    "RKNN3CustomOpIoCallback",
    "RKNN3OpPluginType",
    "RKNN3OpTarget",
    "RKNN3RegisterCustomOp",
    "TensorAttr3",
    "Type3",
]

MAX_DIMS, MAX_NAME = RKNN3_MAX_DIMS, RKNN3_MAX_NAME_LEN
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


TensorAttr3 = RKNN3TensorAttr
"""512 bytes; a later header makes it 584 bytes."""


class RKNN3OpTarget(enum.IntEnum):
    """``rknn3_op_target_type``: where a plugin computes."""

    RKNN3_OP_TARGET_TYPE_CPU = 1
    RKNN3_OP_TARGET_TYPE_MAX = 2


class RKNN3OpPluginType(enum.IntEnum):
    """``rknn3_op_plugin_type``; custom operators are not supported by 1.0.0."""

    RKNN3_OP_PLUGIN_TYPE_POSTPROCESS = 0
    RKNN3_OP_PLUGIN_TYPE_CUSTOM_OP = 1
    RKNN3_OP_PLUGIN_TYPE_MAX = 2


class RKNN3CustomOpContext(ct.Structure):
    """``rknn3_custom_op_context``, 24 bytes; a later header adds ``get_param``."""

    _fields_ = (("rknn_ctx", rknn3_context), ("priv_data", ct.c_void_p), ("user_data", ct.c_void_p))


RKNN3CustomOpCallback = ct.CFUNCTYPE(ct.c_int, ct.POINTER(RKNN3CustomOpContext))
"""Type of ``init``, ``deinit`` (both optional) and ``get_output_num``."""
RKNN3CustomOpIoCallback = ct.CFUNCTYPE(
    ct.c_int,
    ct.POINTER(RKNN3CustomOpContext),
    ct.POINTER(RKNN3Tensor),
    ct.c_uint32,
    ct.POINTER(RKNN3Tensor),
    ct.c_uint32,
)
"""Type of ``prepare`` (optional) and ``compute``: inputs, their number, outputs, their number."""
RKNN3CustomOpGetAttrsCallback = ct.CFUNCTYPE(
    ct.c_int,
    ct.POINTER(RKNN3CustomOpContext),
    ct.POINTER(RKNN3TensorAttr),
    ct.c_uint32,
    ct.POINTER(RKNN3TensorAttr),
    ct.c_uint32,
)
"""Type of ``get_attrs``: input attributes, their number, output attributes to fill, their number."""


class RKNN3CustomOp(ct.Structure):
    """``rknn3_custom_op``, 88 bytes."""

    _fields_ = (
        ("op_type", ct.c_char_p),
        ("plugin_type", ct.c_int32),
        ("target", ct.c_int32),
        ("version", ct.c_uint32),
        ("author", ct.c_char_p),
        ("description", ct.c_char_p),
        ("init", RKNN3CustomOpCallback),
        ("prepare", RKNN3CustomOpIoCallback),
        ("compute", RKNN3CustomOpIoCallback),
        ("deinit", RKNN3CustomOpCallback),
        ("get_output_num", RKNN3CustomOpCallback),
        ("get_attrs", RKNN3CustomOpGetAttrsCallback),
    )


RKNN3RegisterCustomOp = ct.CFUNCTYPE(ct.POINTER(RKNN3CustomOp), ct.c_int)
"""Type of ``REGISTER_FUNCTION``."""
