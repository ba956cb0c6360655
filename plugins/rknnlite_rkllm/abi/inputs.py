"""C ABI of librkllmrt: what a run gets, from 1.1 to 1.3.0. The number in a name is the first version that has it.

Unions and structures that have no name in C have one of ours here (``RKLLMInput_u``). Pointers must stay valid until
``rkllm_run`` returns. Source: the vendor's public headers, their sizes and offsets from compilers.
"""

from __future__ import annotations

import ctypes as ct
import enum

from .params import RKLLMSamplingParam

__all__ = [
    "RKLLMCrossAttnParam",
    "RKLLMEmbedInput",
    "RKLLMImageInput130",
    "RKLLMInferMode110",
    "RKLLMInferMode120",
    "RKLLMInferParam110",
    "RKLLMInferParam120",
    "RKLLMInferParam130",
    "RKLLMInput110",
    "RKLLMInput121",
    "RKLLMInput121b1",
    "RKLLMInput130",
    "RKLLMInputType",
    "RKLLMInputUnion110",
    "RKLLMInputUnion121b1",
    "RKLLMInputUnion130",
    "RKLLMLoraParam",
    "RKLLMMultiModalInput110",
    "RKLLMMultiModalInput121b1",
    "RKLLMMultiModalInput130",
    "RKLLMPromptCacheParam",
    "RKLLMTokenInput",
    "RKLLMVideoInput130",
]


class RKLLMInputType(enum.IntEnum):
    """Which member of the union of an input counts: ``RKLLM_INPUT_...``."""

    PROMPT = 0
    TOKEN = 1
    EMBED = 2
    MULTIMODAL = 3


class RKLLMInferMode110(enum.IntEnum):
    """What a run is for: ``RKLLM_INFER_...`` of 1.1."""

    GENERATE = 0
    GET_LAST_HIDDEN_LAYER = 1


class RKLLMInferMode120(enum.IntEnum):
    """What a run is for: ``RKLLM_INFER_...`` of 1.2.0 and later."""

    GENERATE = 0
    GET_LAST_HIDDEN_LAYER = 1
    GET_LOGITS = 2


class RKLLMEmbedInput(ct.Structure):
    """``RKLLMEmbedInput``, 16 bytes: float32 (n_tokens, hidden size)."""

    _fields_ = (("embed", ct.POINTER(ct.c_float)), ("n_tokens", ct.c_size_t))


class RKLLMTokenInput(ct.Structure):
    """``RKLLMTokenInput``, 16 bytes."""

    _fields_ = (("input_ids", ct.POINTER(ct.c_int32)), ("n_tokens", ct.c_size_t))


class RKLLMMultiModalInput110(ct.Structure):
    """``RKLLMMultiModelInput`` of 1.1 and 1.2.0, 24 bytes: one image."""

    _fields_ = (
        ("prompt", ct.c_char_p),
        ("image_embed", ct.POINTER(ct.c_float)),
        ("n_image_tokens", ct.c_size_t),
    )


class RKLLMMultiModalInput121b1(ct.Structure):
    """``RKLLMMultiModelInput`` of 1.2.1b1 to 1.2.2, ``RKLLMMultiModalInput`` of 1.2.3, 48 bytes: several images."""

    _fields_ = (
        *RKLLMMultiModalInput110._fields_,
        ("n_image", ct.c_size_t),
        ("image_width", ct.c_size_t),
        ("image_height", ct.c_size_t),
    )


class RKLLMImageInput130(ct.Structure):
    """``image`` of ``RKLLMMultiModalInput``, 64 bytes; float32 (n_image, n_image_tokens, hidden size)."""

    _fields_ = (
        ("image_embed", ct.POINTER(ct.c_float)),
        ("n_image_tokens", ct.c_size_t),
        ("n_image", ct.c_size_t),
        ("image_start", ct.c_char_p),
        ("image_end", ct.c_char_p),
        ("image_content", ct.c_char_p),
        ("image_width", ct.c_size_t),
        ("image_height", ct.c_size_t),
    )


class RKLLMVideoInput130(ct.Structure):
    """``video`` of ``RKLLMMultiModalInput``, 72 bytes; float32 (n_video, n_frame_per_video, n_frame_tokens, hidden size)."""

    _fields_ = (
        ("video_embed", ct.POINTER(ct.c_float)),
        ("n_frame_tokens", ct.c_size_t),
        ("n_frame_per_video", ct.c_size_t),
        ("n_video", ct.c_size_t),
        ("video_start", ct.c_char_p),
        ("video_end", ct.c_char_p),
        ("video_content", ct.c_char_p),
        ("frame_width", ct.c_size_t),
        ("frame_height", ct.c_size_t),
    )


class RKLLMMultiModalInput130(ct.Structure):
    """``RKLLMMultiModalInput`` of 1.3.0, 144 bytes: images and videos, each with its tags."""

    _fields_ = (("prompt", ct.c_char_p), ("image", RKLLMImageInput130), ("video", RKLLMVideoInput130))


class RKLLMInputUnion110(ct.Union):
    """The union of an input of 1.1 and 1.2.0, 24 bytes."""

    _fields_ = (
        ("prompt_input", ct.c_char_p),
        ("embed_input", RKLLMEmbedInput),
        ("token_input", RKLLMTokenInput),
        ("multimodal_input", RKLLMMultiModalInput110),
    )


class RKLLMInputUnion121b1(ct.Union):
    """The union of an input of 1.2.1b1 to 1.2.3, 48 bytes."""

    _fields_ = (*RKLLMInputUnion110._fields_[:-1], ("multimodal_input", RKLLMMultiModalInput121b1))


class RKLLMInputUnion130(ct.Union):
    """The union of an input of 1.3.0, 144 bytes."""

    _fields_ = (*RKLLMInputUnion110._fields_[:-1], ("multimodal_input", RKLLMMultiModalInput130))


class RKLLMInput110(ct.Structure):
    """``RKLLMInput`` of 1.1 and 1.2.0, 32 bytes."""

    _fields_ = (("input_type", ct.c_int32), ("u", RKLLMInputUnion110))


class RKLLMInput121b1(ct.Structure):
    """``RKLLMInput`` of 1.2.1b1, 56 bytes."""

    _fields_ = (("input_type", ct.c_int32), ("u", RKLLMInputUnion121b1))


class RKLLMInput121(ct.Structure):
    """``RKLLMInput`` of 1.2.1 to 1.2.3, 64 bytes; an array of n_batch."""

    _fields_ = (
        ("role", ct.c_char_p),
        ("enable_thinking", ct.c_bool),
        ("input_type", ct.c_int32),
        ("u", RKLLMInputUnion121b1),
    )


class RKLLMInput130(ct.Structure):
    """``RKLLMInput`` of 1.3.0, 160 bytes; an array of n_batch."""

    _fields_ = (*RKLLMInput121._fields_[:-1], ("u", RKLLMInputUnion130))


class RKLLMLoraParam(ct.Structure):
    """``RKLLMLoraParam``, 8 bytes: the adapter of a run."""

    _fields_ = (("lora_adapter_name", ct.c_char_p),)


class RKLLMPromptCacheParam(ct.Structure):
    """``RKLLMPromptCacheParam``, 16 bytes."""

    _fields_ = (("save_prompt_cache", ct.c_int), ("prompt_cache_path", ct.c_char_p))


class RKLLMInferParam110(ct.Structure):
    """``RKLLMInferParam`` of 1.1, 24 bytes."""

    _fields_ = (
        ("mode", ct.c_int32),
        ("lora_params", ct.POINTER(RKLLMLoraParam)),
        ("prompt_cache_params", ct.POINTER(RKLLMPromptCacheParam)),
    )


class RKLLMInferParam120(ct.Structure):
    """``RKLLMInferParam`` of 1.2.0 to 1.2.3, 32 bytes."""

    _fields_ = (*RKLLMInferParam110._fields_, ("keep_history", ct.c_int))


class RKLLMInferParam130(ct.Structure):
    """``RKLLMInferParam`` of 1.3.0, 40 bytes."""

    _fields_ = (
        *RKLLMInferParam110._fields_,
        ("sampling_params", ct.POINTER(RKLLMSamplingParam)),
        ("keep_history", ct.c_int),
        ("max_new_tokens", ct.c_int32),
    )


class RKLLMCrossAttnParam(ct.Structure):
    """``RKLLMCrossAttnParam`` of 1.2.1 and later, 40 bytes.

    float32 keys (layers, tokens, KV heads, head size), values (layers, KV heads, head size, tokens).
    """

    _fields_ = (
        ("encoder_k_cache", ct.POINTER(ct.c_float)),
        ("encoder_v_cache", ct.POINTER(ct.c_float)),
        ("encoder_mask", ct.POINTER(ct.c_float)),
        ("encoder_pos", ct.POINTER(ct.c_int32)),
        ("num_tokens", ct.c_int),
    )
