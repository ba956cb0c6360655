"""C ABI of librkllmrt: what a run answers, and its callbacks. The number in a name is the first version that has it.

What a result points to lives until the callback returns. Source: the vendor's public headers, their sizes and offsets
from compilers.
"""

from __future__ import annotations

import ctypes as ct
import enum
from typing import Any, Callable

__all__ = [
    "CallbackReturn",
    "LLMCallState100",
    "LLMCallState110",
    "LLMCallState120",
    "LLMGetEmbedCallback",
    "LLMResultCallback100",
    "LLMResultCallback101",
    "LLMResultCallback110",
    "LLMResultCallback120",
    "LLMResultCallback121",
    "LLMTokenizerCallback",
    "RKLLMCallback130",
    "RKLLMPerfStat",
    "RKLLMResult101",
    "RKLLMResult110",
    "RKLLMResult120",
    "RKLLMResult121",
    "RKLLMResultLastHiddenLayer",
    "RKLLMResultLogits",
    "Token",
]

_POINTER: Callable[[Any], Any] = ct.POINTER


class LLMCallState100(enum.IntEnum):
    """State that comes with a result: ``LLM_RUN_...`` of 1.0.0 and 1.0.1."""

    NORMAL = 0
    FINISH = 1
    ERROR = 2


class LLMCallState110(enum.IntEnum):
    """State that comes with a result: ``RKLLM_RUN_...`` of 1.1."""

    NORMAL = 0
    WAITING = 1
    FINISH = 2
    ERROR = 3
    GET_LAST_HIDDEN_LAYER = 4


class LLMCallState120(enum.IntEnum):
    """State that comes with a result: ``RKLLM_RUN_...`` of 1.2.0 and later; hidden states come as NORMAL."""

    NORMAL = 0
    WAITING = 1
    FINISH = 2
    ERROR = 3


class CallbackReturn(enum.IntEnum):
    """What a result callback answers from 1.2.1 on; RELEASE from 1.3.0 on. The names are ours."""

    CONTINUE = 0
    PAUSE = 1
    RELEASE = 2


class Token(ct.Structure):
    """``Token`` of 1.0.1, 8 bytes."""

    _fields_ = (("logprob", ct.c_float), ("id", ct.c_int))


class RKLLMResult101(ct.Structure):
    """``RKLLMResult`` of 1.0.1 and 1.0.2-beta, 24 bytes."""

    _fields_ = (("text", ct.c_char_p), ("tokens", ct.POINTER(Token)), ("num", ct.c_int))


class RKLLMResultLastHiddenLayer(ct.Structure):
    """``RKLLMResultLastHiddenLayer``, 16 bytes: float32 (num_tokens, embd_size)."""

    _fields_ = (
        ("hidden_states", ct.POINTER(ct.c_float)),
        ("embd_size", ct.c_int),
        ("num_tokens", ct.c_int),
    )


class RKLLMResultLogits(ct.Structure):
    """``RKLLMResultLogits`` of 1.2.0 and later, 16 bytes: float32 (num_tokens, vocab_size)."""

    _fields_ = (("logits", ct.POINTER(ct.c_float)), ("vocab_size", ct.c_int), ("num_tokens", ct.c_int))


class RKLLMPerfStat(ct.Structure):
    """``RKLLMPerfStat`` of 1.2.1 and later, 20 bytes; filled with FINISH only."""

    _fields_ = (
        ("prefill_time_ms", ct.c_float),
        ("prefill_tokens", ct.c_int),
        ("generate_time_ms", ct.c_float),
        ("generate_tokens", ct.c_int),
        ("memory_usage_mb", ct.c_float),
    )


class RKLLMResult110(ct.Structure):
    """``RKLLMResult`` of 1.1, 32 bytes."""

    _fields_ = (
        ("text", ct.c_char_p),
        ("token_id", ct.c_int32),
        ("last_hidden_layer", RKLLMResultLastHiddenLayer),
    )


class RKLLMResult120(ct.Structure):
    """``RKLLMResult`` of 1.2.0 and 1.2.1b1, 48 bytes."""

    _fields_ = (*RKLLMResult110._fields_, ("logits", RKLLMResultLogits))


class RKLLMResult121(ct.Structure):
    """``RKLLMResult`` of 1.2.1 and later, 72 bytes; an array of n_batch."""

    _fields_ = (*RKLLMResult120._fields_, ("perf", RKLLMPerfStat))


def _result_callback(answer: Any, result: Any) -> Any:
    return ct.CFUNCTYPE(answer, result, ct.c_void_p, ct.c_int32)


LLMResultCallback100 = _result_callback(None, ct.c_char_p)
"""``void (const char *text, void *userdata, LLMCallState state)``"""
LLMResultCallback101 = _result_callback(None, _POINTER(RKLLMResult101))
LLMResultCallback110 = _result_callback(None, _POINTER(RKLLMResult110))
LLMResultCallback120 = _result_callback(None, _POINTER(RKLLMResult120))
LLMResultCallback121 = _result_callback(ct.c_int, _POINTER(RKLLMResult121))
"""``int (RKLLMResult *result, void *userdata, LLMCallState state)``; answers a CallbackReturn."""

LLMTokenizerCallback = ct.CFUNCTYPE(
    ct.c_int, ct.c_void_p, ct.c_char_p, ct.c_int32, ct.POINTER(ct.c_int32), ct.c_int32
)
"""``int (void *userdata, const char *text, int32_t text_len, int32_t *tokens, int32_t n_tokens_max)``: the count."""
LLMGetEmbedCallback = ct.CFUNCTYPE(
    ct.c_int, ct.c_void_p, ct.POINTER(ct.c_int32), ct.c_uint64, ct.c_void_p, ct.c_uint64
)
"""``int (void *userdata, int32_t *tokens, uint64_t num_tokens, void *embed, uint64_t len)``: 0; float32, len in bytes."""


class RKLLMCallback130(ct.Structure):
    """``RKLLMCallback`` of 1.3.0, 48 bytes; keep it and its functions until ``rkllm_destroy``."""

    _fields_ = (
        ("result_callback", LLMResultCallback121),
        ("result_userdata", ct.c_void_p),
        ("tokenizer_callback", LLMTokenizerCallback),
        ("tokenizer_userdata", ct.c_void_p),
        ("embed_callback", LLMGetEmbedCallback),
        ("embed_userdata", ct.c_void_p),
    )
