"""C ABI of librkllmrt: the parameters of a model, from 1.0.0 to 1.3.0. The number in a name is the first version that has it.

No structure carries its size or a version. The library keeps pointers of the parameters: keep the ``bytes`` behind
them until ``rkllm_destroy``. Source: the vendor's public headers, their sizes and offsets from compilers.
"""

from __future__ import annotations

import ctypes as ct

__all__ = [
    "DEFAULTS",
    "RKLLMDefaultParamSpace",
    "RKLLMExtendParam110",
    "RKLLMExtendParam120",
    "RKLLMExtendParam121",
    "RKLLMLoraAdapter",
    "RKLLMParam100",
    "RKLLMParam101",
    "RKLLMParam110",
    "RKLLMParam120",
    "RKLLMParam121",
    "RKLLMParam130",
    "RKLLMSamplingParam",
]

DEFAULTS = {
    "top_k": 40,
    "top_p": 0.9,
    "temperature": 0.8,
    "repeat_penalty": 1.1,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
}
"""What ``rkllm_createDefaultParam`` answers by the vendor's manual of 1.3.0, by member of every ``RKLLMParam``."""

_CHOICE = (
    ("top_p", ct.c_float),
    ("temperature", ct.c_float),
    ("repeat_penalty", ct.c_float),
    ("frequency_penalty", ct.c_float),
    ("presence_penalty", ct.c_float),
    ("mirostat", ct.c_int32),
    ("mirostat_tau", ct.c_float),
    ("mirostat_eta", ct.c_float),
)  # how the next token is chosen
_LENGTHS = (("max_context_len", ct.c_int32), ("max_new_tokens", ct.c_int32), ("top_k", ct.c_int32))
_IMAGE_TAGS = (("img_start", ct.c_char_p), ("img_end", ct.c_char_p), ("img_content", ct.c_char_p))


class RKLLMDefaultParamSpace(ct.Structure):
    """Result type for ``rkllm_createDefaultParam`` of a library that is still to be confirmed.

    The callee writes as many bytes as its own ``RKLLMParam`` has, 208 at most: no revision writes beyond these 1024.
    """

    _fields_ = (("bytes", ct.c_uint8 * 1024),)


class RKLLMParam100(ct.Structure):
    """``RKLLMParam`` of 1.0.0, 64 bytes; passed by value."""

    _fields_ = (
        ("modelPath", ct.c_char_p),
        ("target_platform", ct.c_char_p),
        ("num_npu_core", ct.c_int32),
        *_LENGTHS,
        *_CHOICE,
    )


class RKLLMParam101(ct.Structure):
    """``RKLLMParam`` of 1.0.1 and 1.0.2-beta, 72 bytes; passed by value."""

    _fields_ = (
        ("model_path", ct.c_char_p),
        ("num_npu_core", ct.c_int32),
        *_LENGTHS,
        *_CHOICE,
        ("logprobs", ct.c_bool),
        ("top_logprobs", ct.c_int32),
        ("use_gpu", ct.c_bool),
    )


class RKLLMExtendParam110(ct.Structure):
    """``RKLLMExtendParam`` of 1.1, 116 bytes."""

    _fields_ = (("base_domain_id", ct.c_int32), ("reserved", ct.c_uint8 * 112))


class RKLLMExtendParam120(ct.Structure):
    """``RKLLMExtendParam`` of 1.2.0 and 1.2.1b1, 120 bytes."""

    _fields_ = (
        ("base_domain_id", ct.c_int32),
        ("embed_flash", ct.c_int8),
        ("enabled_cpus_num", ct.c_int8),
        ("enabled_cpus_mask", ct.c_uint32),
        ("reserved", ct.c_uint8 * 106),
    )


class RKLLMExtendParam121(ct.Structure):
    """``RKLLMExtendParam`` of 1.2.1 and later, 120 bytes."""

    _fields_ = (
        ("base_domain_id", ct.c_int32),
        ("embed_flash", ct.c_int8),
        ("enabled_cpus_num", ct.c_int8),
        ("enabled_cpus_mask", ct.c_uint32),
        ("n_batch", ct.c_uint8),
        ("use_cross_attn", ct.c_int8),
        ("reserved", ct.c_uint8 * 104),
    )


class RKLLMParam110(ct.Structure):
    """``RKLLMParam`` of 1.1, 200 bytes."""

    _fields_ = (
        ("model_path", ct.c_char_p),
        *_LENGTHS,
        *_CHOICE,
        ("skip_special_token", ct.c_bool),
        ("is_async", ct.c_bool),
        *_IMAGE_TAGS,
        ("extend_param", RKLLMExtendParam110),
    )


class RKLLMParam120(ct.Structure):
    """``RKLLMParam`` of 1.2.0 and 1.2.1b1, 208 bytes."""

    _fields_ = (
        ("model_path", ct.c_char_p),
        *_LENGTHS,
        ("n_keep", ct.c_int32),
        *_CHOICE,
        ("skip_special_token", ct.c_bool),
        ("is_async", ct.c_bool),
        *_IMAGE_TAGS,
        ("extend_param", RKLLMExtendParam120),
    )


class RKLLMParam121(ct.Structure):
    """``RKLLMParam`` of 1.2.1 to 1.2.3, 208 bytes."""

    _fields_ = (*RKLLMParam120._fields_[:-1], ("extend_param", RKLLMExtendParam121))


class RKLLMParam130(ct.Structure):
    """``RKLLMParam`` of 1.3.0, 184 bytes."""

    _fields_ = (
        ("model_path", ct.c_char_p),
        *_LENGTHS,
        ("n_keep", ct.c_int32),
        *_CHOICE,
        ("skip_special_token", ct.c_bool),
        ("ignore_eos_token", ct.c_bool),
        ("is_async", ct.c_bool),
        ("extend_param", RKLLMExtendParam121),
    )


class RKLLMSamplingParam(ct.Structure):
    """``RKLLMSamplingParam`` of 1.3.0, 36 bytes: all nine values, for one run."""

    _fields_ = (("top_k", ct.c_int32), *_CHOICE)


class RKLLMLoraAdapter(ct.Structure):
    """``RKLLMLoraAdapter``, 24 bytes."""

    _fields_ = (
        ("lora_adapter_path", ct.c_char_p),
        ("lora_adapter_name", ct.c_char_p),
        ("scale", ct.c_float),
    )
