"""Structures and numbers of librknnrt (headers 2.3.2) for what programs call: queries, inputs, runs, memory.

Shared by the plugin that calls the library, and by the face that answers in its place.
"""

from __future__ import annotations

import ctypes as ct
import enum

from .rknn_op import MAX_DIMS, MAX_NAME

__all__ = [
    "MAX_DYNAMIC_SHAPES",
    "CustomString",
    "InputOutputNum",
    "InputRange",
    "InputStruct",
    "MemAlloc",
    "MemSize",
    "MemSource",
    "MemSync",
    "OutputExtend",
    "PerfDetail",
    "PerfRun",
    "Query",
    "RunExtend",
    "SdkVersion",
]

MAX_DYNAMIC_SHAPES = 512


class Query(enum.IntEnum):
    """Commands of ``rknn_query``."""

    IN_OUT_NUM = 0
    INPUT_ATTR = 1
    OUTPUT_ATTR = 2
    PERF_DETAIL = 3
    PERF_RUN = 4
    SDK_VERSION = 5
    MEM_SIZE = 6
    CUSTOM_STRING = 7
    NATIVE_INPUT_ATTR = 8
    NATIVE_OUTPUT_ATTR = 9
    NATIVE_NHWC_INPUT_ATTR = 10
    NATIVE_NHWC_OUTPUT_ATTR = 11
    DEVICE_MEM_INFO = 12
    INPUT_DYNAMIC_RANGE = 13
    CURRENT_INPUT_ATTR = 14
    CURRENT_OUTPUT_ATTR = 15
    CURRENT_NATIVE_INPUT_ATTR = 16
    CURRENT_NATIVE_OUTPUT_ATTR = 17


class MemAlloc(enum.IntFlag):
    """Flags of ``rknn_create_mem2``."""

    DEFAULT = 0
    CACHEABLE = 1
    NON_CACHEABLE = 2
    TRY_ALLOC_SRAM = 4
    NO_CONTEXT = 0x20000


class MemSync(enum.IntEnum):
    """Directions of ``rknn_mem_sync``."""

    TO_DEVICE = 1
    FROM_DEVICE = 2
    BIDIRECTIONAL = 3


class MemSource(enum.IntEnum):
    """``flags`` of ``rknn_tensor_mem``: where the memory came from."""

    ALLOC_INSIDE = 1
    FROM_FD = 2
    FROM_PHYS = 3
    UNKNOWN = 4


class InputOutputNum(ct.Structure):
    _fields_ = (("n_input", ct.c_uint32), ("n_output", ct.c_uint32))


class InputRange(ct.Structure):
    _fields_ = (
        ("index", ct.c_uint32),
        ("shape_number", ct.c_uint32),
        ("fmt", ct.c_int32),
        ("name", ct.c_char * MAX_NAME),
        ("dyn_range", (ct.c_uint32 * MAX_DIMS) * MAX_DYNAMIC_SHAPES),
        ("n_dims", ct.c_uint32),
    )


class PerfDetail(ct.Structure):
    _fields_ = (("perf_data", ct.c_void_p), ("data_len", ct.c_uint64))


class PerfRun(ct.Structure):
    _fields_ = (("run_duration", ct.c_int64),)


class SdkVersion(ct.Structure):
    _fields_ = (("api_version", ct.c_char * 256), ("drv_version", ct.c_char * 256))


class MemSize(ct.Structure):
    _fields_ = (
        ("total_weight_size", ct.c_uint32),
        ("total_internal_size", ct.c_uint32),
        ("total_dma_allocated_size", ct.c_uint64),
        ("total_sram_size", ct.c_uint32),
        ("free_sram_size", ct.c_uint32),
        ("reserved", ct.c_uint32 * 10),
    )


class CustomString(ct.Structure):
    _fields_ = (("string", ct.c_char * 1024),)


class InputStruct(ct.Structure):
    _fields_ = (
        ("index", ct.c_uint32),
        ("buf", ct.c_void_p),
        ("size", ct.c_uint32),
        ("pass_through", ct.c_uint8),
        ("type", ct.c_int32),
        ("fmt", ct.c_int32),
    )


class RunExtend(ct.Structure):
    _fields_ = (
        ("frame_id", ct.c_uint64),
        ("non_block", ct.c_int32),
        ("timeout_ms", ct.c_int32),
        ("fence_fd", ct.c_int32),
    )


class OutputExtend(ct.Structure):
    _fields_ = (("frame_id", ct.c_uint64),)
