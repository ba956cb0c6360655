"""The C ABI of librknnrt (headers 2.3.2) as ctypes declarations: structures, numbers and prototypes.

Nothing else in this package knows an offset or a number of the C API. ``aarch64`` and ``x86_64`` agree on
every layout; on 32-bit ARM pointers and ``rknn_context`` shrink, which ctypes works out by itself.
"""

from __future__ import annotations

import ctypes as ct
import functools
from typing import Any

from rknnlite.abi.rknn_api import (
    MAX_DYNAMIC_SHAPES,
    CoreMask,
    CustomString,
    InitExtend,
    InitFlag,
    InputOutputNum,
    InputRange,
    InputStruct,
    MemAlloc,
    MemSize,
    MemSync,
    OutputExtend,
    PerfDetail,
    PerfRun,
    QntType,
    Query,
    RunExtend,
    SdkVersion,
)
from rknnlite.abi.rknn_op import (
    CALLBACK,
    CONTEXT,
    DESTROY_CALLBACK,
    MAX_DIMS,
    MAX_NAME,
    SKIP_CUSTOM_OP_COMPUTE,
    CustomOpAttr,
    CustomOpContext,
    CustomOpStruct,
    CustomOpTensor,
    GpuOpContext,
    OutputStruct,
    Target,
    TensorAttrStruct,
    TensorMem,
)

__all__ = [
    "BASE_FUNCTIONS",
    "CALLBACK",
    "CONTEXT",
    "DESTROY_CALLBACK",
    "MAX_DIMS",
    "MAX_DYNAMIC_SHAPES",
    "MAX_NAME",
    "PROTOTYPES",
    "SKIP_CUSTOM_OP_COMPUTE",
    "STRUCTURES",
    "CoreMask",
    "CustomOpAttr",
    "CustomOpContext",
    "CustomOpStruct",
    "CustomOpTensor",
    "CustomString",
    "InitExtend",
    "InitFlag",
    "InputOutputNum",
    "InputRange",
    "InputStruct",
    "MemAlloc",
    "MemSize",
    "MemSync",
    "OutputExtend",
    "OutputStruct",
    "PerfDetail",
    "PerfRun",
    "QntType",
    "Query",
    "RunExtend",
    "SdkVersion",
    "Target",
    "TensorAttrStruct",
    "TensorMem",
    "array_of",
]


STRUCTURES: dict[str, type[ct.Structure]] = {
    "rknn_input_output_num": InputOutputNum,
    "rknn_tensor_attr": TensorAttrStruct,
    "rknn_input_range": InputRange,
    "rknn_perf_detail": PerfDetail,
    "rknn_perf_run": PerfRun,
    "rknn_sdk_version": SdkVersion,
    "rknn_mem_size": MemSize,
    "rknn_custom_string": CustomString,
    "rknn_tensor_mem": TensorMem,
    "rknn_input": InputStruct,
    "rknn_output": OutputStruct,
    "rknn_init_extend": InitExtend,
    "rknn_run_extend": RunExtend,
    "rknn_output_extend": OutputExtend,
    "rknn_gpu_op_context": GpuOpContext,
    "rknn_custom_op_context": CustomOpContext,
    "rknn_custom_op_tensor": CustomOpTensor,
    "rknn_custom_op_attr": CustomOpAttr,
    "rknn_custom_op": CustomOpStruct,
}
"""C name -> declaration."""

_MEM = ct.POINTER(TensorMem)
_ATTR = ct.POINTER(TensorAttrStruct)
# Pointers to arrays and structures are passed as c_void_p: byref() and addresses both go through unchecked
# conversion tables quickly, and None is NULL.
_ANY = ct.c_void_p

PROTOTYPES: dict[str, tuple[object, tuple[object, ...]]] = {
    "rknn_init": (ct.c_int, (ct.POINTER(CONTEXT), _ANY, ct.c_uint32, ct.c_uint32, ct.POINTER(InitExtend))),
    "rknn_dup_context": (ct.c_int, (ct.POINTER(CONTEXT), ct.POINTER(CONTEXT))),
    "rknn_destroy": (ct.c_int, (CONTEXT,)),
    "rknn_query": (ct.c_int, (CONTEXT, ct.c_int32, _ANY, ct.c_uint32)),
    "rknn_inputs_set": (ct.c_int, (CONTEXT, ct.c_uint32, _ANY)),
    "rknn_set_batch_core_num": (ct.c_int, (CONTEXT, ct.c_int)),
    "rknn_set_core_mask": (ct.c_int, (CONTEXT, ct.c_int32)),
    "rknn_run": (ct.c_int, (CONTEXT, _ANY)),
    "rknn_wait": (ct.c_int, (CONTEXT, _ANY)),
    "rknn_outputs_get": (ct.c_int, (CONTEXT, ct.c_uint32, _ANY, _ANY)),
    "rknn_outputs_release": (ct.c_int, (CONTEXT, ct.c_uint32, _ANY)),
    "rknn_create_mem_from_phys": (_MEM, (CONTEXT, ct.c_uint64, ct.c_void_p, ct.c_uint32)),
    "rknn_create_mem_from_fd": (_MEM, (CONTEXT, ct.c_int32, ct.c_void_p, ct.c_uint32, ct.c_int32)),
    "rknn_create_mem_from_mb_blk": (_MEM, (CONTEXT, ct.c_void_p, ct.c_int32)),
    "rknn_create_mem": (_MEM, (CONTEXT, ct.c_uint32)),
    "rknn_create_mem2": (_MEM, (CONTEXT, ct.c_uint64, ct.c_uint64)),
    "rknn_destroy_mem": (ct.c_int, (CONTEXT, _MEM)),
    "rknn_set_weight_mem": (ct.c_int, (CONTEXT, _MEM)),
    "rknn_set_internal_mem": (ct.c_int, (CONTEXT, _MEM)),
    "rknn_set_io_mem": (ct.c_int, (CONTEXT, _MEM, _ATTR)),
    "rknn_set_input_shape": (ct.c_int, (CONTEXT, _ATTR)),
    "rknn_set_input_shapes": (ct.c_int, (CONTEXT, ct.c_uint32, _ANY)),
    "rknn_mem_sync": (ct.c_int, (CONTEXT, _MEM, ct.c_int32)),
    "rknn_register_custom_ops": (ct.c_int, (CONTEXT, _ANY, ct.c_uint32)),
    "rknn_custom_op_get_op_attr": (None, (_ANY, ct.c_char_p, ct.POINTER(CustomOpAttr))),
}
"""Function -> (result, arguments)."""

BASE_FUNCTIONS = ("rknn_init", "rknn_destroy", "rknn_query", "rknn_run")
"""What every library of this family exports; the rest is bound when it is first used."""


@functools.cache
def array_of(struct: type[ct.Structure], count: int) -> Any:
    """``struct * count``, made once: every ctypes array type is a reference cycle of its own."""
    return struct * count
