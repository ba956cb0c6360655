"""Types of the face under the names of the vendor's module of that name, and its small helpers."""

from __future__ import annotations

import platform
import struct
from typing import Any

import numpy as np

from ..abi.rknn3_enums import (
    LIBRKNN3RT_PATH,
    RKNN3_MAX_DEV_LEN,
    RKNN3_MAX_DEVS,
    RKNN3_MAX_DIMS,
    RKNN3_MAX_DYNAMIC_SHAPE_NUM,
    RKNN3_MAX_LORA_NUM,
    RKNN3_MAX_NAME_LEN,
    RKNN3_MAX_NPU_NODE_NUM,
    RKNN3_MAX_SPECIAL_BOS_ID_NUM,
    RKNN3_MAX_SPECIAL_EOS_ID_NUM,
    RKNN3_MAX_STRIDE_DIMS,
    RKNN3CoreMask,
    RKNN3Error,
    RKNN3MemAllocFlags,
    RKNN3MemSyncMode,
    RKNN3MemType,
    RKNN3QueryCmd,
    RKNN3TensorLayout,
    RKNN3TensorQntType,
    RKNN3TensorType,
)
from ..abi.rknn3_llm import (
    RECURRENT,
    LLMCallState,
    LLMGetLastHiddenLayerCallback,
    LLMOutputCallbackState,
    RKLLMResult,
    RKLLMResultLastHiddenLayer,
    RKLLMRunState,
    RKNN3Audio,
    RKNN3Image,
    RKNN3KVCacheClearPolicy,
    RKNN3KVCacheDtype,
    RKNN3KVCachePolicy,
    RKNN3KVCachePolicyParam,
    RKNN3KVCacheStoreMethod,
    RKNN3LLMConfig,
    RKNN3LLMExtendParam,
    RKNN3LLMInferParam,
    RKNN3LLMInput,
    RKNN3LLMInputType,
    RKNN3LLMInputUnion,
    RKNN3LLMMultiModelTensor,
    RKNN3LLMParam,
    RKNN3LLMTaskType,
    RKNN3LLMTensor,
    RKNN3Lora,
    RKNN3SamplingParams,
    RKNN3Video,
    RKNN3VocabInfo,
)
from ..abi.rknn3_types import (
    Float16,
    RKN3NodeMemInfo,
    RKNN3AllocationInfo,
    RKNN3Config,
    RKNN3CoreMemSize,
    RKNN3CustomString,
    RKNN3Device,
    RKNN3Devices,
    RKNN3DevMemInfo,
    RKNN3InitExtend,
    RKNN3InputOutputNum,
    RKNN3MemSize,
    RKNN3PerfDetail,
    RKNN3PerfRun,
    RKNN3QuantInfo,
    RKNN3SDKVersion,
    RKNN3ShapeConfig,
    RKNN3ShapeInfo,
    RKNN3Tensor,
    RKNN3TensorAttr,
    RKNN3TensorMemory,
    rknn3_context,
    rknn3_session,
)
from ._callback_types import (
    LLMGetEmbedCallback,
    LLMInputCallback,
    LLMOutputCallback,
    LLMResultCallback,
    LLMSamplingCallback,
    LLMTokenizerCallback,
    RKLLMCallback,
)

__all__ = [
    "LIBRKNN3RT_PATH",
    "RECURRENT",
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
    "Float16",
    "LLMCallState",
    "LLMGetEmbedCallback",
    "LLMGetLastHiddenLayerCallback",
    "LLMInputCallback",
    "LLMOutputCallback",
    "LLMOutputCallbackState",
    "LLMResultCallback",
    "LLMSamplingCallback",
    "LLMTokenizerCallback",
    "RKLLMCallback",
    "RKLLMResult",
    "RKLLMResultLastHiddenLayer",
    "RKLLMRunState",
    "RKN3NodeMemInfo",
    "RKNN3AllocationInfo",
    "RKNN3Audio",
    "RKNN3AuxTensor",
    "RKNN3AuxTensorWrapper",
    "RKNN3Config",
    "RKNN3CoreMask",
    "RKNN3CoreMemSize",
    "RKNN3CustomString",
    "RKNN3DevMemInfo",
    "RKNN3Device",
    "RKNN3Devices",
    "RKNN3Error",
    "RKNN3Image",
    "RKNN3InitExtend",
    "RKNN3InputOutputNum",
    "RKNN3KVCacheClearPolicy",
    "RKNN3KVCacheDtype",
    "RKNN3KVCachePolicy",
    "RKNN3KVCachePolicyParam",
    "RKNN3KVCacheStoreMethod",
    "RKNN3LLMConfig",
    "RKNN3LLMExtendParam",
    "RKNN3LLMInferParam",
    "RKNN3LLMInput",
    "RKNN3LLMInputType",
    "RKNN3LLMInputUnion",
    "RKNN3LLMMultiModelTensor",
    "RKNN3LLMParam",
    "RKNN3LLMTaskType",
    "RKNN3LLMTensor",
    "RKNN3Lora",
    "RKNN3MemAllocFlags",
    "RKNN3MemSize",
    "RKNN3MemSyncMode",
    "RKNN3MemType",
    "RKNN3PerfDetail",
    "RKNN3PerfRun",
    "RKNN3QuantInfo",
    "RKNN3QueryCmd",
    "RKNN3SDKVersion",
    "RKNN3SamplingParams",
    "RKNN3ShapeConfig",
    "RKNN3ShapeInfo",
    "RKNN3Tensor",
    "RKNN3TensorAttr",
    "RKNN3TensorLayout",
    "RKNN3TensorMemory",
    "RKNN3TensorQntType",
    "RKNN3TensorType",
    "RKNN3Video",
    "RKNN3VocabInfo",
    "dump_tensor_attr",
    "get_os_platform",
    "rknn3_context",
    "rknn3_get_layout_string",
    "rknn3_get_type_string",
    "rknn3_runtime_api_ret_code",
    "rknn3_session",
    "rknn_dtype_to_numpy_dtype",
]

RKNN3AuxTensor = RKNN3Tensor

rknn3_runtime_api_ret_code = {str(int(code)): code.name for code in RKNN3Error if code >= -14}
"""Status code as text -> its name."""

_NUMPY = {
    RKNN3TensorType.RKNN3_TENSOR_FLOAT32: np.float32,
    RKNN3TensorType.RKNN3_TENSOR_FLOAT16: np.float16,
    RKNN3TensorType.RKNN3_TENSOR_INT8: np.int8,
    RKNN3TensorType.RKNN3_TENSOR_UINT8: np.uint8,
    RKNN3TensorType.RKNN3_TENSOR_INT16: np.int16,
    RKNN3TensorType.RKNN3_TENSOR_UINT16: np.uint16,
    RKNN3TensorType.RKNN3_TENSOR_INT32: np.int32,
    RKNN3TensorType.RKNN3_TENSOR_UINT32: np.uint32,
    RKNN3TensorType.RKNN3_TENSOR_INT64: np.int64,
    RKNN3TensorType.RKNN3_TENSOR_UINT64: np.uint64,
    RKNN3TensorType.RKNN3_TENSOR_BOOL: np.bool_,
}
_TYPE_WORDS = (
    "FP32",
    "FP16",
    "INT8",
    "UINT8",
    "INT16",
    "UINT16",
    "INT32",
    "UINT32",
    "INT64",
    "",
    "BOOL",
    "INT4",
)
_LAYOUT_WORDS = ("UNDEFINED", "NCHW", "NHWC", "NC1HWC2", "CHWN", "HWIO", "OIHW", "O1I1HWI2O2")
_UNKNOWN = "UNKNOWN"


def rknn_dtype_to_numpy_dtype(dtype_enum: int) -> Any:
    """The numpy type of an element type; float32 for one that has none."""
    return _NUMPY.get(dtype_enum, np.float32)  # type: ignore[call-overload]


def rknn3_get_layout_string(layout: int) -> str:
    """``NCHW``, ``NHWC``, ...; ``UNKNOWN`` for what is no layout."""
    return _word(_LAYOUT_WORDS, layout)


def rknn3_get_type_string(dtype: int) -> str:
    """``FP32``, ``INT8``, ...; ``UNKNOWN`` for UINT64, which has no word in the vendor's header, and the rest."""
    return _word(_TYPE_WORDS, dtype)


def _word(words: tuple[str, ...], number: int) -> str:
    return (words[number] if 0 <= number < len(words) else "") or _UNKNOWN


def dump_tensor_attr(attr: RKNN3TensorAttr, prefix: str = "tensor") -> None:
    """Print a tensor attribute on one line of stdout."""
    kind = f"QNT{attr.qnt_type}" if attr.qnt_type else "NONE"
    quant = attr.qnt_info
    print(
        f"{prefix}_{attr.index}: name={attr.name.decode('utf-8', 'replace')}, n_dims={attr.n_dims}, "
        f"shape={list(attr.shape)[: attr.n_dims]}, stride={list(attr.stride)[: attr.n_stride]}, "
        f"aligned_size={attr.aligned_size}, layout={rknn3_get_layout_string(attr.layout)}, "
        f"dtype={rknn3_get_type_string(attr.dtype)}, qnt_type={kind}, "
        f"scale={quant.scale or 1.0:.5f}, zero_point={quant.zero_point}"
    )


def get_os_platform() -> str:
    """Operating system and size of its pointers: ``Linux_x64``, ``Linux_x32``."""
    return f"{platform.system()}_{'x64' if struct.calcsize('P') == 8 else 'x32'}"


class RKNN3AuxTensorWrapper:
    """Data for a further input of a language model.

    Attributes:
        aux_data: array whose bytes are handed over.
        index: number of the model's input.
        align_size: bytes of the input's buffer on the device; 0: those of the array.
    """

    def __init__(self, aux_data: Any = None, index: int = 0, align_size: int = 0) -> None:
        self.aux_data = aux_data
        self.index = index
        self.align_size = align_size
