"""Constants and enumerations of librknn3_api 1.0.0 for contexts and tensors, spelt as in the vendor's Python package.

Sources: RKNN3 C API reference 1.0.0, the public header of that version, rknn3-toolkit-lite 1.0.0.
"""

from __future__ import annotations

import enum

from ..errors import RKNN3_CODES

__all__ = [
    "LIBRKNN3RT_PATH",
    "RKNN3_MAX_DEVS",
    "RKNN3_MAX_DEV_LEN",
    "RKNN3_MAX_DIMS",
    "RKNN3_MAX_DYNAMIC_SHAPE_NUM",
    "RKNN3_MAX_LORA_NUM",
    "RKNN3_MAX_NAME_LEN",
    "RKNN3_MAX_NPU_NODE_NUM",
    "RKNN3_MAX_SPECIAL_BOS_ID_NUM",
    "RKNN3_MAX_SPECIAL_EOS_ID_NUM",
    "RKNN3_MAX_STRIDE_DIMS",
    "RKNN3_NPU_CORE_ALL",
    "RKNN3CoreMask",
    "RKNN3Error",
    "RKNN3ImFmt",
    "RKNN3ImProcFlag",
    "RKNN3MemAllocFlags",
    "RKNN3MemSyncMode",
    "RKNN3MemType",
    "RKNN3QueryCmd",
    "RKNN3TensorLayout",
    "RKNN3TensorQntType",
    "RKNN3TensorType",
]

RKNN3_MAX_DIMS = 16
RKNN3_MAX_STRIDE_DIMS = 17
RKNN3_MAX_NAME_LEN = 256
RKNN3_MAX_DYNAMIC_SHAPE_NUM = 512
RKNN3_MAX_LORA_NUM = 128
RKNN3_MAX_SPECIAL_BOS_ID_NUM = 64
RKNN3_MAX_SPECIAL_EOS_ID_NUM = 64
RKNN3_MAX_DEVS = 64
RKNN3_MAX_DEV_LEN = 64
RKNN3_MAX_NPU_NODE_NUM = 128
RKNN3_NPU_CORE_ALL = 0xFFFFFFFF
"""What C calls all cores; the Python package's enumeration says 255, the eight there are."""
LIBRKNN3RT_PATH = "/usr/lib/librknn3_api.so"


class RKNN3QueryCmd(enum.IntEnum):
    """What ``rknn3_query`` can be asked; 3, 4, 10, 11 and the name MEM_SIZE only the Python package has."""

    RKNN3_QUERY_IN_OUT_NUM = 0
    RKNN3_QUERY_INPUT_ATTR = 1
    RKNN3_QUERY_OUTPUT_ATTR = 2
    RKNN3_QUERY_PERF_DETAIL = 3
    RKNN3_QUERY_PERF_RUN = 4
    RKNN3_QUERY_SDK_VERSION = 5
    RKNN3_QUERY_MEM_SIZE = 6
    RKNN3_QUERY_CORE_MEM_SIZE = 6
    RKNN3_QUERY_CUSTOM_STRING = 7
    RKNN3_QUERY_NATIVE_INPUT_ATTR = 8
    RKNN3_QUERY_NATIVE_OUTPUT_ATTR = 9
    RKNN3_QUERY_NATIVE_NC1HWC2_INPUT_ATTR = 8
    RKNN3_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR = 9
    RKNN3_QUERY_NATIVE_NHWC_INPUT_ATTR = 10
    RKNN3_QUERY_NATIVE_NHWC_OUTPUT_ATTR = 11
    RKNN3_QUERY_DEVICE_MEM_INFO = 12
    RKNN3_QUERY_CORE_NUMBER = 13
    RKNN3_QUERY_ALLOCATION_INFO = 14
    RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG = 15
    RKNN3_QUERY_DYNAMIC_SHAPE_INFO = 16
    RKNN3_QUERY_LLM_CONFIG = 17
    RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM = 18
    RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR = 19
    RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO = 20
    RKNN3_QUERY_CMD_MAX = 21


class RKNN3TensorType(enum.IntEnum):
    """Element types; unlike in librknnrt 9 is UINT64, so BOOL and INT4 are one higher."""

    RKNN3_TENSOR_FLOAT32 = 0
    RKNN3_TENSOR_FLOAT16 = 1
    RKNN3_TENSOR_INT8 = 2
    RKNN3_TENSOR_UINT8 = 3
    RKNN3_TENSOR_INT16 = 4
    RKNN3_TENSOR_UINT16 = 5
    RKNN3_TENSOR_INT32 = 6
    RKNN3_TENSOR_UINT32 = 7
    RKNN3_TENSOR_INT64 = 8
    RKNN3_TENSOR_UINT64 = 9
    RKNN3_TENSOR_BOOL = 10
    RKNN3_TENSOR_INT4 = 11
    RKNN3_TENSOR_TYPE_MAX = 12


class RKNN3TensorQntType(enum.IntEnum):
    """How a tensor is quantised."""

    RKNN3_TENSOR_QNT_NONE = 0
    RKNN3_TENSOR_PER_LAYER_SYMMETRIC = 1
    RKNN3_TENSOR_PER_LAYER_ASYMMETRIC = 2
    RKNN3_TENSOR_PER_CHANNEL_SYMMETRIC = 3
    RKNN3_TENSOR_PER_CHANNEL_ASYMMETRIC = 4
    RKNN3_TENSOR_PER_GROUP_SYMMETRIC = 5
    RKNN3_TENSOR_PER_GROUP_ASYMMETRIC = 6
    RKNN3_TENSOR_QNT_MAX = 7


class RKNN3TensorLayout(enum.IntEnum):
    """Order of the dimensions."""

    RKNN3_TENSOR_UNDEFINED = 0
    RKNN3_TENSOR_NCHW = 1
    RKNN3_TENSOR_NHWC = 2
    RKNN3_TENSOR_NC1HWC2 = 3
    RKNN3_TENSOR_CHWN = 4
    RKNN3_TENSOR_HWIO = 5
    RKNN3_TENSOR_OIHW = 6
    RKNN3_TENSOR_O1I1HWI2O2 = 7
    RKNN3_TENSOR_LAYOUT_MAX = 8


class RKNN3MemAllocFlags(enum.IntEnum):
    """Flags of ``rknn3_create_mem``."""

    RKNN3_FLAG_MEMORY_FLAGS_DEFAULT = 0
    RKNN3_FLAG_MEMORY_CACHEABLE = 1
    RKNN3_FLAG_MEMORY_NON_CACHEABLE = 2


class RKNN3MemSyncMode(enum.IntEnum):
    """Direction of ``rknn3_mem_sync``."""

    RKNN3_MEMORY_SYNC_TO_DEVICE = 1
    RKNN3_MEMORY_SYNC_FROM_DEVICE = 2
    RKNN3_MEMORY_SYNC_BIDIRECTIONAL = 3


class RKNN3CoreMask(enum.IntEnum):
    """Bits of ``rknn3_config.run_core_mask``; see ``RKNN3_NPU_CORE_ALL``."""

    RKNN3_NPU_CORE_AUTO = 0
    RKNN3_NPU_CORE_0 = 1
    RKNN3_NPU_CORE_1 = 2
    RKNN3_NPU_CORE_2 = 4
    RKNN3_NPU_CORE_3 = 8
    RKNN3_NPU_CORE_4 = 16
    RKNN3_NPU_CORE_5 = 32
    RKNN3_NPU_CORE_6 = 64
    RKNN3_NPU_CORE_7 = 128
    RKNN3_NPU_CORE_ALL = 0xFF


class RKNN3MemType(enum.IntEnum):
    """Where memory lies."""

    RKNN3_MEMORY_TYPE_NPU_DRAM = 0
    RKNN3_MEMORY_TYPE_EXT_DDR = 1


class RKNN3ImFmt(enum.IntEnum):
    """Colour formats of image buffers."""

    RKNN3_IM_FMT_RGB888 = 0
    RKNN3_IM_FMT_BGR888 = 1
    RKNN3_IM_FMT_GRAY8 = 2
    RKNN3_IM_FMT_YCbCr_420_SP = 3
    RKNN3_IM_FMT_YCrCb_420_SP = 4
    RKNN3_IM_FMT_YCbCr_422_SP = 5
    RKNN3_IM_FMT_YCrCb_422_SP = 6
    RKNN3_IM_FMT_UNKNOWN = 65535


class RKNN3ImProcFlag(enum.IntEnum):
    """Image operations."""

    RKNN3_IM_PROC_FLAG_NONE = 0
    RKNN3_IM_PROC_FLAG_CROP = 1
    RKNN3_IM_PROC_FLAG_RESIZE = 2
    RKNN3_IM_PROC_FLAG_FILL = 32
    RKNN3_IM_PROC_FLAG_COLOR_SPACE_CONVERT = 64
    RKNN3_IM_PROC_FLAG_DECODE = 128
    RKNN3_IM_PROC_FLAG_ENCODE = 256


RKNN3Error = enum.IntEnum(  # type: ignore[misc]  # its members stand in the table
    "RKNN3Error", [(row.name, row.code) for row in RKNN3_CODES if row.since == "1.0.0"], module=__name__
)
"""Status codes; -100 is only a warning."""
