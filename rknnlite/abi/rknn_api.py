"""Structures and numbers of librknnrt (headers 2.3.2) for what programs call: queries, inputs, runs, memory.

Shared by the plugin that calls the library, and by the face that answers in its place.
"""

from __future__ import annotations

import ctypes as ct
import enum

from .rknn_op import CONTEXT, MAX_DIMS, MAX_NAME

__all__ = [
    "MAX_CHANNELS",
    "MAX_DYNAMIC_SHAPES",
    "QNT_AFFINE",
    "QNT_NONE",
    "SYNC_DIRECTIONS",
    "CoreMask",
    "CustomString",
    "InitExtend",
    "InitFlag",
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
    "QntType",
    "Query",
    "RunExtend",
    "SdkVersion",
]

QNT_NONE, QNT_AFFINE = 0, 2
"""``qnt_type`` of tensors that are not quantised, and of those with scale and zero point."""

MAX_CHANNELS, MAX_DYNAMIC_SHAPES = 15, 512


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


class InitFlag(enum.IntFlag):
    """Flags of ``rknn_init``; the priority is a number in the two lowest bits (0 is the highest)."""

    PRIOR_MEDIUM = 1
    PRIOR_LOW = 2
    ASYNC = 4
    COLLECT_PERF = 8
    MEM_ALLOC_OUTSIDE = 16
    SHARE_WEIGHT_MEM = 32
    FENCE_IN_OUTSIDE = 64
    FENCE_OUT_OUTSIDE = 128
    COLLECT_MODEL_INFO_ONLY = 256
    INTERNAL_ALLOC_OUTSIDE = 512
    FALLBACK_GPU = 1024
    ENABLE_SRAM = 2048
    SHARE_SRAM = 4096
    DISABLE_PROC_HIGH_PRIORITY = 8192
    DISABLE_FLUSH_INPUT = 16384
    DISABLE_FLUSH_OUTPUT = 32768
    MODEL_BUFFER_ZERO_COPY = 65536


class QntType(enum.IntEnum):
    """``rknn_tensor_qnt_type``."""

    NONE = 0
    DFP = 1
    AFFINE_ASYMMETRIC = 2


class CoreMask(enum.IntFlag):
    """``rknn_core_mask``."""

    AUTO = 0
    CORE_0 = 1
    CORE_1 = 2
    CORE_0_1 = 3
    CORE_2 = 4
    CORE_0_1_2 = 7
    ALL = 0xFFFF


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


SYNC_DIRECTIONS = {
    MemSync.TO_DEVICE: "to_device",
    MemSync.FROM_DEVICE: "from_device",
    MemSync.BIDIRECTIONAL: "both",
}
"""As ``Context.sync`` names them."""


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


class InitExtend(ct.Structure):
    _fields_ = (
        ("ctx", CONTEXT),
        ("real_model_offset", ct.c_int32),
        ("real_model_size", ct.c_uint32),
        ("model_buffer_fd", ct.c_int32),
        ("model_buffer_flags", ct.c_uint32),
        ("reserved", ct.c_uint8 * 112),
    )
