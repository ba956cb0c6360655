"""C ABI of a later librknn3_api (runtime 1.0.4 and after): what differs from ``rknn3_types`` and ``rknn3_llm``.

Classes have the names of the ones they replace. Structures that hold a replaced one are here too.
Source: a later public header of the vendor.
"""

from __future__ import annotations

import ctypes as ct
import enum

from ..errors import RKNN3_CODES
from . import rknn3_llm, rknn3_types
from .rknn3_enums import RKNN3_MAX_DIMS, RKNN3_MAX_NAME_LEN
from .rknn3_llm import RECURRENT, RKNN3Lora
from .rknn3_types import RKNN3TensorMemory, rknn3_context

__all__ = [
    "RKNN3_MAX_ATTENTION_TYPE_NUM",
    "RKNN3_MAX_KVCACHE_LEN_GROUPS",
    "RKNN3_MAX_LORA_NUM",
    "LLMCallState",
    "LLMInputCallback",
    "LLMInputCallbackParam",
    "LLMOutputCallback",
    "RKLLMCallback",
    "RKLLMRunState",
    "RKNN3AttentionKVCacheLens",
    "RKNN3AttentionType",
    "RKNN3CustomOpAttr",
    "RKNN3CustomOpContext",
    "RKNN3CustomOpGetParamCallback",
    "RKNN3Error",
    "RKNN3KVCacheLenGroupInfo",
    "RKNN3KVCachePolicy",
    "RKNN3KVCachePolicyParam",
    "RKNN3KVCacheSaveCheckpoint",
    "RKNN3LLMConfig",
    "RKNN3LLMInferParam",
    "RKNN3LLMTaskType",
    "RKNN3QueryCmd",
    "RKNN3ShapeInfo",
    "RKNN3Tensor",
    "RKNN3TensorAttr",
    "RKNN3TensorType",
]

RKNN3_MAX_LORA_NUM = 32
RKNN3_MAX_KVCACHE_LEN_GROUPS = 16
RKNN3_MAX_ATTENTION_TYPE_NUM = 3


class RKNN3AttentionType(enum.IntEnum):
    """Kinds of attention that a model mixes."""

    RKNN3_ATTENTION_TYPE_FULL_ATTENTION = 0
    RKNN3_ATTENTION_TYPE_SLIDING_ATTENTION = 1
    RKNN3_ATTENTION_TYPE_LINEAR_ATTENTION = 2


class RKNN3QueryCmd(enum.IntEnum):
    """What can be asked; ORIGIN attributes took the numbers of the NATIVE ones."""

    RKNN3_QUERY_IN_OUT_NUM = 0
    RKNN3_QUERY_INPUT_ATTR = 1
    RKNN3_QUERY_OUTPUT_ATTR = 2
    RKNN3_QUERY_SDK_VERSION = 5
    RKNN3_QUERY_CORE_MEM_SIZE = 6
    RKNN3_QUERY_CUSTOM_STRING = 7
    RKNN3_QUERY_ORIGIN_INPUT_ATTR = 8
    RKNN3_QUERY_ORIGIN_OUTPUT_ATTR = 9
    RKNN3_QUERY_DEVICE_MEM_INFO = 12
    RKNN3_QUERY_CORE_NUMBER = 13
    RKNN3_QUERY_ALLOCATION_INFO = 14
    RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG = 15
    RKNN3_QUERY_DYNAMIC_SHAPE_INFO = 16
    RKNN3_QUERY_LLM_CONFIG = 17
    RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM = 18
    RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR = 19
    RKNN3_QUERY_POSTPROCESS_DYNAMIC_SHAPE_INFO = 20
    RKNN3_QUERY_LORA_NUM = 21
    RKNN3_QUERY_LORA_INFO = 22
    RKNN3_QUERY_KVCACHE_LEN_GROUP_INFO = 23
    RKNN3_QUERY_CMD_MAX = 24


class RKNN3TensorType(enum.IntEnum):
    """Element types."""

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
    RKNN3_TENSOR_FLOAT8E4M3FN = 12
    RKNN3_TENSOR_BFLOAT16 = 13
    RKNN3_TENSOR_FLOAT8E8M0 = 14
    RKNN3_TENSOR_FLOAT4E2M1 = 15
    RKNN3_TENSOR_TYPE_MAX = 16


class RKNN3KVCachePolicy(enum.IntEnum):
    """What happens when the KV cache is full."""

    RKNN3_KVCACHE_POLICY_DEFAULT = 0
    RKNN3_KVCACHE_POLICY_RECURRENT = 1
    RKNN3_KVCACHE_POLICY_NORMAL = 2
    RKNN3_KVCACHE_POLICY_SAVE_CHECKPOINT = 256


class LLMCallState(enum.IntEnum):
    """State that comes with a result."""

    RKLLM_RUN_NORMAL = 0
    RKLLM_RUN_WAITING = 1
    RKLLM_RUN_FINISH = 2
    RKLLM_RUN_STOP = 3
    RKLLM_RUN_MAX_NEW_TOKEN_REACHED = 4
    RKLLM_RUN_ERROR = 5
    RKLLM_RUN_PAUSE = 6
    RKLLM_RUN_RESUME = 7


class RKNN3LLMTaskType(enum.IntEnum):
    """What a model was converted for."""

    RKNN3_LLM_TASK_GENERATE = 0
    RKNN3_LLM_TASK_EMBEDDING = 1
    RKNN3_LLM_TASK_RERANKER = 2


RKNN3Error = enum.IntEnum(  # type: ignore[misc]  # its members stand in the table
    "RKNN3Error", [(row.name, row.code) for row in RKNN3_CODES], module=__name__
)
"""Status codes; -100 is only a warning."""


class RKNN3AttentionKVCacheLens(ct.Structure):
    """``rknn3_attention_kvcache_lens``, 72 bytes."""

    _fields_ = (
        ("attention_type", ct.c_int32),
        ("n_kvcache_buffer_lens", ct.c_uint32),
        ("kvcache_buffer_lens", ct.c_int32 * RKNN3_MAX_KVCACHE_LEN_GROUPS),
    )


class RKNN3TensorAttr(ct.Structure):
    """``rknn3_tensor_attr``, 584 bytes."""

    _fields_ = (
        *rknn3_types.RKNN3TensorAttr._fields_[:-1],  # up to core_id
        ("n_orig_dims", ct.c_uint32),
        ("orig_shape", ct.c_uint32 * RKNN3_MAX_DIMS),
        ("orig_layout", ct.c_int32),
        ("core_id", ct.c_int32),
    )


class RKNN3Tensor(ct.Structure):
    """``rknn3_tensor``, 16 bytes."""

    _fields_ = (("mem", ct.POINTER(RKNN3TensorMemory)), ("attr", ct.POINTER(RKNN3TensorAttr)))


class RKNN3ShapeInfo(ct.Structure):
    """``rknn3_shape_info``, 64 bytes; the caller allocates both arrays."""

    _fields_ = (
        ("shape_id", ct.c_int32),
        ("n_inputs", ct.c_uint32),
        ("input_attrs", ct.POINTER(RKNN3TensorAttr)),
        ("n_outputs", ct.c_uint32),
        ("output_attrs", ct.POINTER(RKNN3TensorAttr)),
        ("is_default", ct.c_uint8),
        ("reserved", ct.c_uint8 * 31),
    )


class RKNN3LLMConfig(ct.Structure):
    """``rknn3_llm_config``, 408 bytes."""

    _fields_ = (
        *rknn3_llm.RKNN3LLMConfig._fields_[:-1],  # up to reserved
        ("rope_cache_host_storage", ct.c_uint8),
        ("n_attention_kvcache_lens", ct.c_uint32),
        ("attention_kvcache_lens", RKNN3AttentionKVCacheLens * RKNN3_MAX_ATTENTION_TYPE_NUM),
        ("reserved", ct.c_uint8 * 127),
    )


class RKNN3KVCacheSaveCheckpoint(ct.Structure):
    """``rknn3_kvcache_save_checkpoint``, 32 bytes; positions and intervals are rounded to 128"""

    _fields_ = (
        ("checkpoint_start_pos", ct.c_int64),
        ("checkpoint_interval", ct.c_int64),
        ("max_checkpoint_count", ct.c_int64),
        ("checkpoint_tail_overwrite", ct.c_bool),
    )


class RKNN3KVCachePolicyParam(ct.Structure):
    """``rknn3_kvcache_policy_param``, 112 bytes."""

    _fields_ = (
        ("recurrent", RECURRENT),
        ("save_checkpoint", RKNN3KVCacheSaveCheckpoint),
        ("reserved", ct.c_uint8 * 64),
    )


class RKNN3LLMInferParam(ct.Structure):
    """``rknn3_llm_infer_param``, 140 bytes."""

    _fields_ = (
        ("keep_history", ct.c_int),
        ("max_new_tokens", ct.c_int32),
        ("prefill_only", ct.c_bool),
        ("disable_sampling", ct.c_bool),
        ("reserved", ct.c_uint8 * 128),
    )


class LLMInputCallbackParam(ct.Structure):
    """``LLMInputCallbackParam``, 168 bytes."""

    _fields_ = (
        ("tokens", ct.POINTER(ct.c_int32)),
        ("num_tokens", ct.c_int32),
        ("shape_id", ct.c_int32),
        ("pos", ct.c_int32),
        ("mrope_pos", ct.c_int32),
        ("mrope_start", ct.c_int32),
        ("system_prompt_seqlen", ct.c_int32),
        ("valid_system_prompt_seqlen", ct.c_int32),
        ("max_position_embeddings", ct.c_int32),
        ("reserved", ct.c_uint8 * 128),
    )


LLMOutputCallback = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(RKNN3Tensor), ct.c_uint32, ct.c_int32)
LLMInputCallback = ct.CFUNCTYPE(
    ct.c_int, ct.c_void_p, ct.POINTER(RKNN3Tensor), ct.c_uint32, LLMInputCallbackParam
)
"""``(userdata, input_tensors, n_input_tensors, param)``; ``param`` comes by value."""


class RKLLMCallback(ct.Structure):
    """``RKLLMCallback``, 128 bytes."""

    _fields_ = (
        *rknn3_llm.RKLLMCallback._fields_[:8],  # up to the output callback
        ("output_callback", LLMOutputCallback),
        ("output_userdata", ct.c_void_p),
        ("output_tensors", ct.POINTER(RKNN3Tensor)),
        ("n_output_tensors", ct.c_uint32),
        ("input_callback", LLMInputCallback),
        ("input_userdata", ct.c_void_p),
        ("input_tensors_index", ct.POINTER(ct.c_int32)),
        ("n_input_tensors", ct.c_uint32),
    )


class RKLLMRunState(ct.Structure):
    """``RKLLMRunState``, 88 bytes."""

    _fields_ = (
        ("n_total_tokens", ct.c_uint64),
        ("n_reuse_tokens", ct.c_uint64),
        ("n_max_tokens", ct.c_uint64),
        ("n_prefill_tokens", ct.c_uint64),
        ("n_decode_tokens", ct.c_uint64),
        ("n_input_tokens", ct.c_uint64),
        ("n_output_tokens", ct.c_uint64),
        ("input_tokens", ct.POINTER(ct.c_int32)),
        ("output_tokens", ct.POINTER(ct.c_int32)),
        ("kvcache_policy", ct.c_int32),
        ("n_loras_enabled", ct.c_int32),
        ("loras_enabled", ct.POINTER(RKNN3Lora)),
    )


class RKNN3KVCacheLenGroupInfo(ct.Structure):
    """``rknn3_kvcache_len_group_info``, 144 bytes."""

    _fields_ = (
        ("core_id", ct.c_int32),
        ("n_groups", ct.c_uint32),
        ("active_group_id", ct.c_int32),
        ("kvcache_sizes", ct.c_uint64 * RKNN3_MAX_KVCACHE_LEN_GROUPS),
    )


class RKNN3CustomOpAttr(ct.Structure):
    """``rknn3_custom_op_attr``, 272 bytes."""

    _fields_ = (
        ("name", ct.c_char * RKNN3_MAX_NAME_LEN),
        ("dtype", ct.c_int32),
        ("n_elems", ct.c_uint32),
        ("data", ct.c_void_p),
    )


class RKNN3CustomOpContext(ct.Structure):
    """``rknn3_custom_op_context``, 32 bytes."""


RKNN3CustomOpGetParamCallback = ct.CFUNCTYPE(
    ct.c_int, ct.POINTER(RKNN3CustomOpContext), ct.c_char_p, ct.POINTER(RKNN3CustomOpAttr)
)
"""``(op_ctx, attribute name, attribute)``; the data are valid inside the callback only."""
RKNN3CustomOpContext._fields_ = (
    ("rknn_ctx", rknn3_context),
    ("priv_data", ct.c_void_p),
    ("user_data", ct.c_void_p),
    ("get_param", RKNN3CustomOpGetParamCallback),
)
