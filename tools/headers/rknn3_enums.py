"""Constants and enumerations of ``rknn3_api.h``: those of ``rknnlite.abi.rknn3_enums`` without the Python package's own."""

from __future__ import annotations

import enum

from rknnlite_backend.abi import rknn3_op as op

from rknnlite.abi import rknn3_enums as numbers
from rknnlite.abi import rknn3_llm as llm
from rknnlite.errors import RKNN3_CODES

from .parts import Constants, Enum, members_of

__all__ = ["CONSTANTS", "ENUMS", "OP_ENUMS"]

_OF_PYTHON_ONLY = frozenset({
    "RKNN3_QUERY_PERF_DETAIL", "RKNN3_QUERY_PERF_RUN", "RKNN3_QUERY_MEM_SIZE", "RKNN3_QUERY_CUSTOM_STRING",
    "RKNN3_QUERY_NATIVE_NC1HWC2_INPUT_ATTR", "RKNN3_QUERY_NATIVE_NC1HWC2_OUTPUT_ATTR",
    "RKNN3_QUERY_NATIVE_NHWC_INPUT_ATTR", "RKNN3_QUERY_NATIVE_NHWC_OUTPUT_ATTR", "RKNN3_KVCACHE_POLICY_AUTO",
})  # fmt: skip
_LIMITS = (
    "RKNN3_MAX_DIMS", "RKNN3_MAX_STRIDE_DIMS", "RKNN3_MAX_NAME_LEN", "RKNN3_MAX_DYNAMIC_SHAPE_NUM",
    "RKNN3_MAX_LORA_NUM", "RKNN3_MAX_SPECIAL_BOS_ID_NUM", "RKNN3_MAX_SPECIAL_EOS_ID_NUM", "RKNN3_MAX_DEVS",
    "RKNN3_MAX_DEV_LEN", "RKNN3_MAX_NPU_NODE_NUM",
)  # fmt: skip

CONSTANTS = (
    Constants(
        {row.name: row.code for row in RKNN3_CODES if row.since == "1.0.0"}, "What the functions answer."
    ),
    Constants({name: getattr(numbers, name) for name in _LIMITS}, "Limits."),
)


def _enum(name: str, kind: type[enum.IntEnum], about: str) -> Enum:
    members = {word: value for word, value in members_of(kind).items() if word not in _OF_PYTHON_ONLY}
    if "RKNN3_NPU_CORE_ALL" in members:
        members["RKNN3_NPU_CORE_ALL"] = numbers.RKNN3_NPU_CORE_ALL
    return Enum(name, members, about)


OP_ENUMS = (
    _enum("rknn3_query_cmd", numbers.RKNN3QueryCmd, "What rknn3_query is asked."),
    _enum("rknn3_tensor_type", numbers.RKNN3TensorType, "Element types."),
    _enum("rknn3_tensor_qnt_type", numbers.RKNN3TensorQntType, "How a tensor is quantised."),
    _enum("rknn3_tensor_layout", numbers.RKNN3TensorLayout, "Order of the dimensions."),
    _enum("rknn3_mem_type", numbers.RKNN3MemType, "Where memory lies."),
    _enum("rknn3_op_target_type", op.RKNN3OpTarget, "Where a plugin computes."),
    _enum("rknn3_op_plugin_type", op.RKNN3OpPluginType, "What a plugin is."),
)
"""What plugins need too."""
ENUMS = (
    *OP_ENUMS,
    _enum("rknn3_mem_alloc_flags", numbers.RKNN3MemAllocFlags, "For rknn3_create_mem."),
    _enum("rknn3_mem_sync_mode", numbers.RKNN3MemSyncMode, "Directions of rknn3_mem_sync."),
    _enum("rknn3_core_mask", numbers.RKNN3CoreMask, "Cores that a model may use."),
    _enum("rknn3_im_fmt", numbers.RKNN3ImFmt, "Colour formats."),
    _enum("rknn3_im_proc_flag", numbers.RKNN3ImProcFlag, "Image operations."),
    _enum("rknn3_kvcache_policy", llm.RKNN3KVCachePolicy, "What happens when the KV cache is full."),
    _enum("rknn3_kvcache_clear_policy", llm.RKNN3KVCacheClearPolicy, "How much of the KV cache is dropped."),
    _enum("rknn3_kvcache_dtype", llm.RKNN3KVCacheDtype, "Element types of the KV cache."),
    _enum("rknn3_kvcache_store_method", llm.RKNN3KVCacheStoreMethod, "How the KV cache is kept."),
    _enum("rknn3_llm_input_type", llm.RKNN3LLMInputType, "Which member of an input counts."),
    _enum("rknn3_llm_task_type", llm.RKNN3LLMTaskType, "What a language model does."),
    _enum("LLMCallState", llm.LLMCallState, "Where a run is."),
    _enum(
        "LLMOutputCallbackState", llm.LLMOutputCallbackState, "Where in a run the output callback is called."
    ),
)
