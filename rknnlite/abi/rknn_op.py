"""Structures of librknnrt (headers 2.3.2) that plugins and faces share: custom operators with their callbacks, outputs.

``aarch64`` and ``x86_64`` agree on every layout; on 32-bit ARM pointers and contexts shrink, which ctypes
works out by itself.
"""

from __future__ import annotations

import ctypes as ct
import enum

__all__ = [
    "CALLBACK",
    "CONTEXT",
    "DESTROY_CALLBACK",
    "ENTRY_POINT",
    "GET_OP",
    "MAX_DIMS",
    "MAX_NAME",
    "MAX_STRING",
    "MAX_VALUE",
    "SKIP_CUSTOM_OP_COMPUTE",
    "CustomOpAttr",
    "CustomOpContext",
    "CustomOpStruct",
    "CustomOpTensor",
    "GpuOpContext",
    "OutputStruct",
    "Target",
    "TensorAttrStruct",
    "TensorMem",
]

CONTEXT = ct.c_uint64 if ct.sizeof(ct.c_void_p) == 8 else ct.c_uint32
MAX_DIMS, MAX_NAME = 16, 256
MAX_STRING, MAX_VALUE = 64, 32
"""Lengths that the vendor's header gives for texts and values of attributes; no structure has them."""
SKIP_CUSTOM_OP_COMPUTE = -14
"""Answer of a custom op's ``init``: use the runtime's own operator of that type."""
ENTRY_POINT = "get_rknn_custom_op"
"""What a plugin library exports: ``rknn_custom_op *get_rknn_custom_op(void)``."""


class Target(enum.IntEnum):
    """Where a custom op computes."""

    CPU = 1
    GPU = 2


class TensorAttrStruct(ct.Structure):
    _fields_ = (
        ("index", ct.c_uint32),
        ("n_dims", ct.c_uint32),
        ("dims", ct.c_uint32 * MAX_DIMS),
        ("name", ct.c_char * MAX_NAME),
        ("n_elems", ct.c_uint32),
        ("size", ct.c_uint32),
        ("fmt", ct.c_int32),
        ("type", ct.c_int32),
        ("qnt_type", ct.c_int32),
        ("fl", ct.c_int8),
        ("zp", ct.c_int32),
        ("scale", ct.c_float),
        ("w_stride", ct.c_uint32),
        ("size_with_stride", ct.c_uint32),
        ("pass_through", ct.c_uint8),
        ("h_stride", ct.c_uint32),
    )


class TensorMem(ct.Structure):
    _fields_ = (
        ("virt_addr", ct.c_void_p),
        ("phys_addr", ct.c_uint64),
        ("fd", ct.c_int32),
        ("offset", ct.c_int32),
        ("size", ct.c_uint32),
        ("flags", ct.c_uint32),
        ("priv_data", ct.c_void_p),
    )


class OutputStruct(ct.Structure):
    _fields_ = (
        ("want_float", ct.c_uint8),
        ("is_prealloc", ct.c_uint8),
        ("index", ct.c_uint32),
        ("buf", ct.c_void_p),
        ("size", ct.c_uint32),
    )


class GpuOpContext(ct.Structure):
    _fields_ = (("cl_context", ct.c_void_p), ("cl_command_queue", ct.c_void_p), ("cl_kernel", ct.c_void_p))


class CustomOpContext(ct.Structure):
    _fields_ = (
        ("target", ct.c_int32),
        ("internal_ctx", CONTEXT),
        ("gpu_ctx", GpuOpContext),
        ("priv_data", ct.c_void_p),
    )


class CustomOpTensor(ct.Structure):
    _fields_ = (("attr", TensorAttrStruct), ("mem", TensorMem))


class CustomOpAttr(ct.Structure):
    _fields_ = (
        ("name", ct.c_char * MAX_NAME),
        ("dtype", ct.c_int32),
        ("n_elems", ct.c_uint32),
        ("data", ct.c_void_p),
    )


CALLBACK = ct.CFUNCTYPE(
    ct.c_int,
    ct.POINTER(CustomOpContext),
    ct.POINTER(CustomOpTensor),
    ct.c_uint32,
    ct.POINTER(CustomOpTensor),
    ct.c_uint32,
)
"""Type of ``init``, ``prepare`` and ``compute`` of a custom op."""
DESTROY_CALLBACK = ct.CFUNCTYPE(ct.c_int, ct.POINTER(CustomOpContext))


class CustomOpStruct(ct.Structure):
    _fields_ = (
        ("version", ct.c_uint32),
        ("target", ct.c_int32),
        ("op_type", ct.c_char * MAX_NAME),
        ("cl_kernel_name", ct.c_char * MAX_NAME),
        ("cl_kernel_source", ct.c_char_p),
        ("cl_source_size", ct.c_uint64),
        ("cl_build_options", ct.c_char * MAX_NAME),
        ("init", CALLBACK),
        ("prepare", CALLBACK),
        ("compute", CALLBACK),
        ("compute_native", CALLBACK),
        ("destroy", DESTROY_CALLBACK),
    )


GET_OP = ct.CFUNCTYPE(ct.POINTER(CustomOpStruct))
"""Type of the plugin's entry point."""
