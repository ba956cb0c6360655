"""C ABI of librknn3_api 1.0.0, language models: enumerations, structures, callback types.

Names are those of the vendor's Python package where it has one, layouts those of the C header. Callbacks get
bytes for ``char*``, int for enumerations and pointers that can be indexed.
"""

from __future__ import annotations

import ctypes as ct
import enum

from .rknn3_enums import RKNN3_MAX_NAME_LEN, RKNN3_MAX_SPECIAL_BOS_ID_NUM, RKNN3_MAX_SPECIAL_EOS_ID_NUM
from .rknn3_types import Float16, RKNN3Tensor

__all__ = [
    "RECURRENT",
    "LLMCallState",
    "LLMGetEmbedCallback",
    "LLMGetLastHiddenLayerCallback",
    "LLMOutputCallback",
    "LLMOutputCallbackState",
    "LLMResultCallback",
    "LLMSamplingCallback",
    "LLMTokenizerCallback",
    "RKLLMCallback",
    "RKLLMResult",
    "RKLLMResultLastHiddenLayer",
    "RKLLMRunState",
    "RKNN3Audio",
    "RKNN3Image",
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
    "RKNN3SamplingParams",
    "RKNN3Video",
    "RKNN3VocabInfo",
]


class RKNN3KVCachePolicy(enum.IntEnum):
    """What happens when the KV cache is full; AUTO is the Python package's word for DEFAULT."""

    RKNN3_KVCACHE_POLICY_AUTO = 0
    RKNN3_KVCACHE_POLICY_DEFAULT = 0
    RKNN3_KVCACHE_POLICY_RECURRENT = 1
    RKNN3_KVCACHE_POLICY_NORMAL = 2


class RKNN3KVCacheClearPolicy(enum.IntEnum):
    """How much ``clear_kvcache`` drops."""

    RKNN3_KVCACHE_CLEAR_ALL = 0
    RKNN3_KVCACHE_KEEP_SYSTEM_PROMPT = 1


class RKNN3LLMInputType(enum.IntEnum):
    """Which member of the input union counts."""

    RKNN3_LLM_INPUT_PROMPT = 0
    RKNN3_LLM_INPUT_TOKEN = 1
    RKNN3_LLM_INPUT_EMBED = 2
    RKNN3_LLM_INPUT_MULTIMODAL = 3
    RKNN3_LLM_INPUT_AUX = 4
    RKNN3_LLM_INPUT_MAX = 5


class LLMCallState(enum.IntEnum):
    """State that comes with a result; exactly one of FINISH to ERROR ends a run."""

    RKLLM_RUN_NORMAL = 0
    RKLLM_RUN_WAITING = 1
    RKLLM_RUN_FINISH = 2
    RKLLM_RUN_STOP = 3
    RKLLM_RUN_MAX_NEW_TOKEN_REACHED = 4
    RKLLM_RUN_ERROR = 5


class RKNN3KVCacheDtype(enum.IntEnum):
    """How the KV cache is stored and computed."""

    RKNN3_KVCACHE_DTYPE_UNDEFINED = 0
    RKNN3_KVCACHE_DTYPE_INT4_TO_F16 = 1
    RKNN3_KVCACHE_DTYPE_INT4_TO_F8 = 2
    RKNN3_KVCACHE_DTYPE_INT8_TO_F16 = 3
    RKNN3_KVCACHE_DTYPE_FLOAT4_TO_F16 = 4
    RKNN3_KVCACHE_DTYPE_FLOAT4_TO_F8 = 5
    RKNN3_KVCACHE_DTYPE_FLOAT8_TO_F16 = 6
    RKNN3_KVCACHE_DTYPE_FLOAT8_TO_F8 = 7
    RKNN3_KVCACHE_DTYPE_FLOAT16 = 8


class RKNN3KVCacheStoreMethod(enum.IntEnum):
    """Plain or quantised in groups."""

    RKNN3_KVCACHE_STORE_METHOD_UNDEFINED = 0
    RKNN3_KVCACHE_STORE_METHOD_NORMAL = 1
    RKNN3_KVCACHE_STORE_METHOD_GROUP_QUANT = 2


class RKNN3LLMTaskType(enum.IntEnum):
    """What a model was converted for."""

    RKNN3_LLM_TASK_GENERATE = 0
    RKNN3_LLM_TASK_EMBEDDING = 1


class LLMOutputCallbackState(enum.IntEnum):
    """Where in a run the output callback is called."""

    RKLLM_OUTPUT_CALLBACK_PREFILL_PROCESSING = 0
    RKLLM_OUTPUT_CALLBACK_PREFILL_FINISHED = 1
    RKLLM_OUTPUT_CALLBACK_DECODE_PROCESSING = 2
    RKLLM_OUTPUT_CALLBACK_DECODE_FINISHED = 3


class RKNN3LLMConfig(ct.Structure):
    """``rknn3_llm_config``, 184 bytes."""

    _fields_ = (
        ("chat_template", ct.c_char_p),
        ("vocab_size", ct.c_uint32),
        ("embedding_dim", ct.c_uint32),
        ("max_ctx_len", ct.c_uint32),
        ("max_position_embeddings", ct.c_uint32),
        ("kvcache_store_method", ct.c_int32),
        ("kvcache_dtype", ct.c_int32),
        ("kvcache_group_size", ct.c_uint32),
        ("kvcache_residual_depth", ct.c_uint32),
        ("model_type", ct.c_char_p),
        ("task_type", ct.c_int32),
        ("reserved", ct.c_uint8 * 128),
    )


class RKNN3VocabInfo(ct.Structure):
    """``rknn3_vocab_info``, 596 bytes."""

    _fields_ = (
        ("vocab_size", ct.c_int),
        ("special_bos_id", ct.c_int * RKNN3_MAX_SPECIAL_BOS_ID_NUM),
        ("special_eos_id", ct.c_int * RKNN3_MAX_SPECIAL_EOS_ID_NUM),
        ("n_special_bos_id", ct.c_int),
        ("n_special_eos_id", ct.c_int),
        ("linefeed_id", ct.c_int),
        ("skip_special_token", ct.c_bool),
        ("ignore_eos_token", ct.c_bool),
        ("reserved", ct.c_uint8 * 64),
    )


class RKNN3LLMExtendParam(ct.Structure):
    """``rknn3_llm_extend_param``, 128 bytes."""

    _fields_ = (("reserved", ct.c_uint8 * 128),)


class RKNN3SamplingParams(ct.Structure):
    """``rknn3_sampling_params``, 24 bytes."""

    _fields_ = (
        ("top_k", ct.c_int32),
        ("top_p", ct.c_float),
        ("temperature", ct.c_float),
        ("repeat_penalty", ct.c_float),
        ("frequency_penalty", ct.c_float),
        ("presence_penalty", ct.c_float),
    )


class RKNN3LLMParam(ct.Structure):
    """``rknn3_llm_param``, 760 bytes; one per logits output; ``logits_name`` NULL where there is one"""

    _fields_ = (
        ("logits_name", ct.c_char_p),
        ("max_context_len", ct.c_int32),
        ("sampling_param", RKNN3SamplingParams),
        ("vocab_info", RKNN3VocabInfo),
        ("extend_param", RKNN3LLMExtendParam),
    )


class RKNN3Lora(ct.Structure):
    """``rknn3_lora``, 260 bytes; an adapter"""

    _fields_ = (
        ("lora_name", ct.c_char * RKNN3_MAX_NAME_LEN),
        ("scale", ct.c_float),
    )


class RECURRENT(ct.Structure):
    """``rknn3_kvcache_recurrent``, 16 bytes."""

    _fields_ = (
        ("n_keep", ct.c_int64),
        ("n_keep_aligned", ct.c_int64),
    )


class RKNN3KVCachePolicyParam(ct.Structure):
    """``rknn3_kvcache_policy_param``, 80 bytes."""

    _fields_ = (
        ("recurrent", RECURRENT),
        ("reserved", ct.c_uint8 * 64),
    )


class RKNN3Image(ct.Structure):
    """``rknn3_llm_image``, 64 bytes."""

    _fields_ = (
        ("image_embed", ct.POINTER(Float16)),
        ("n_image_tokens", ct.c_uint64),
        ("n_image", ct.c_uint64),
        ("image_start", ct.c_char_p),
        ("image_end", ct.c_char_p),
        ("image_content", ct.c_char_p),
        ("image_width", ct.c_uint64),
        ("image_height", ct.c_uint64),
    )


class RKNN3Audio(ct.Structure):
    """``rknn3_llm_audio``, 48 bytes."""

    _fields_ = (
        ("audio_embed", ct.POINTER(Float16)),
        ("n_audio_tokens", ct.c_uint64),
        ("n_audio", ct.c_uint64),
        ("audio_start", ct.c_char_p),
        ("audio_end", ct.c_char_p),
        ("audio_content", ct.c_char_p),
    )


class RKNN3Video(ct.Structure):
    """``rknn3_llm_video``, 72 bytes."""

    _fields_ = (
        ("video_embed", ct.POINTER(Float16)),
        ("n_frame_tokens", ct.c_uint64),
        ("n_frame_per_video", ct.c_uint64),
        ("n_video", ct.c_uint64),
        ("video_start", ct.c_char_p),
        ("video_end", ct.c_char_p),
        ("video_content", ct.c_char_p),
        ("frame_width", ct.c_uint64),
        ("frame_height", ct.c_uint64),
    )


class RKNN3LLMMultiModelTensor(ct.Structure):
    """``rknn3_llm_multimodal_tensor``, 224 bytes; ``prompt`` wins over ``tokens``"""

    _fields_ = (
        ("name", ct.c_char_p),
        ("prompt", ct.c_char_p),
        ("tokens", ct.POINTER(ct.c_int32)),
        ("n_tokens", ct.c_uint64),
        ("enable_thinking", ct.c_bool),
        ("image", RKNN3Image),
        ("audio", RKNN3Audio),
        ("video", RKNN3Video),
    )


class RKNN3LLMTensor(ct.Structure):
    """``rknn3_llm_tensor``, 48 bytes; ``embed``: float16 (n_tokens, hidden)"""

    _fields_ = (
        ("name", ct.c_char_p),
        ("prompt", ct.c_char_p),
        ("embed", ct.POINTER(Float16)),
        ("tokens", ct.POINTER(ct.c_int32)),
        ("n_tokens", ct.c_uint64),
        ("enable_thinking", ct.c_bool),
    )


class RKNN3LLMInputUnion(ct.Union):
    """``rknn3_llm_input_union``, 224 bytes."""

    _fields_ = (
        ("llm_input", RKNN3LLMTensor),
        ("multimodal_input", RKNN3LLMMultiModelTensor),
        ("aux_input", RKNN3Tensor),
    )


class RKNN3LLMInput(ct.Structure):
    """``rknn3_llm_input``, 240 bytes; the union is anonymous in C"""

    _fields_ = (
        ("role", ct.c_char_p),
        ("input_type", ct.c_int32),
        ("input_union", RKNN3LLMInputUnion),
    )


class RKNN3LLMInferParam(ct.Structure):
    """``rknn3_llm_infer_param``, 136 bytes."""

    _fields_ = (
        ("keep_history", ct.c_int),
        ("max_new_tokens", ct.c_int32),
        ("reserved", ct.c_uint8 * 128),
    )


class RKLLMResult(ct.Structure):
    """``RKLLMResult``, 16 bytes."""

    _fields_ = (
        ("token_ids", ct.POINTER(ct.c_int)),
        ("num_tokens", ct.c_int),
    )


LLMResultCallback = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(RKLLMResult), ct.c_int32)
"""``(userdata, result, state)``; 0 goes on, anything else is an error."""
LLMSamplingCallback = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(Float16), ct.c_char_p)
"""``(userdata, logits[vocab_size], logits_name)``; the token id, negative is an error."""
LLMTokenizerCallback = ct.CFUNCTYPE(
    ct.c_int, ct.c_void_p, ct.c_char_p, ct.c_int32, ct.POINTER(ct.c_int32), ct.c_int32
)
"""``(userdata, text, text_len, tokens, n_tokens_max)``; the number of tokens written, 0 or less is an error."""
LLMGetEmbedCallback = ct.CFUNCTYPE(
    ct.c_int, ct.c_void_p, ct.POINTER(ct.c_int32), ct.c_uint64, ct.c_void_p, ct.c_uint64
)
"""``(userdata, tokens, num_tokens, embed, len)``; ``len`` = num_tokens x hidden x 2 bytes; 0 is well."""
LLMOutputCallback = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(RKNN3Tensor), ct.c_uint32, ct.c_int32)
"""``(userdata, output_tensors, n_output_tensors, state)``; 0 is well."""


class RKLLMResultLastHiddenLayer(ct.Structure):
    """Of the Python package only; the library has ``LLMOutputCallback`` in its place since 0.5."""

    _fields_ = (
        ("hidden_states", ct.POINTER(ct.c_float)),
        ("embd_size", ct.c_int),
        ("num_tokens", ct.c_int),
    )


LLMGetLastHiddenLayerCallback = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, RKLLMResultLastHiddenLayer, ct.c_int)
"""Of the Python package only: ``(userdata, hidden_layer by value, state)``; nothing calls it."""


class RKLLMCallback(ct.Structure):
    """``RKLLMCallback``, 96 bytes."""

    _fields_ = (
        ("result_callback", LLMResultCallback),
        ("result_userdata", ct.c_void_p),
        ("sampling_callback", LLMSamplingCallback),
        ("sampling_userdata", ct.c_void_p),
        ("tokenizer_callback", LLMTokenizerCallback),
        ("tokenizer_userdata", ct.c_void_p),
        ("embed_callback", LLMGetEmbedCallback),
        ("embed_userdata", ct.c_void_p),
        ("output_callback", LLMOutputCallback),
        ("output_userdata", ct.c_void_p),
        ("output_tensors", ct.POINTER(RKNN3Tensor)),
        ("n_output_tensors", ct.c_uint32),
    )

    hidden_layer_callback = None  # fields of the Python package only: they may be set, nothing calls them
    hidden_layer_userdata = None


class RKLLMRunState(ct.Structure):
    """``RKLLMRunState``, 48 bytes."""

    _fields_ = (
        ("n_total_tokens", ct.c_uint64),
        ("n_max_tokens", ct.c_uint64),
        ("n_decode_tokens", ct.c_uint64),
        ("n_prefill_tokens", ct.c_uint64),
        ("kvcache_policy", ct.c_int32),
        ("n_loras_enabled", ct.c_int32),
        ("loras_enabled", ct.POINTER(RKNN3Lora)),
    )
