"""Parameters and the configuration of a language model, between dataclasses and C structures."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rknnlite_backend.abi import rknn3
from rknnlite_llm.sampling import check_sampling

from rknnlite.abi.rknn3_enums import RKNN3_MAX_SPECIAL_BOS_ID_NUM, RKNN3_MAX_SPECIAL_EOS_ID_NUM
from rknnlite.abi.rknn3_enums import RKNN3QueryCmd as Query
from rknnlite.abi.rknn3_llm import RKNN3LLMParam, RKNN3SamplingParams, RKNN3VocabInfo
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.log import logger
from rknnlite.spi.llm import InferParams, KvStore, LlmConfig, LlmParams, TaskType, VocabInfo
from rknnlite.tensor import KvDtype

from ..native_context import NativeContext, text

__all__ = ["checked_params", "infer_struct", "param_structs", "read_config"]

_E = TypeVar("_E", bound=enum.IntEnum)
_INT32_MAX = 0x7FFFFFFF


def read_config(handle: NativeContext) -> LlmConfig:
    """``RKNN3_QUERY_LLM_CONFIG``; raises ParamInvalid when the model is no language model."""
    found = handle.abi.RKNN3LLMConfig()
    handle.query(
        Query.RKNN3_QUERY_LLM_CONFIG, found, "is this a language model? open a network without LLM mode"
    )
    if not found.vocab_size or not found.embedding_dim:
        raise RknnError(
            f"the library answers a vocabulary of {found.vocab_size} and embeddings of {found.embedding_dim}"
        )
    return LlmConfig(
        chat_template=text(found.chat_template),
        vocab_size=found.vocab_size,
        embedding_dim=found.embedding_dim,
        max_ctx_len=found.max_ctx_len,
        max_position_embeddings=found.max_position_embeddings,
        kvcache_store_method=_member(KvStore, found.kvcache_store_method),
        kvcache_dtype=_member(KvDtype, found.kvcache_dtype),
        kvcache_group_size=found.kvcache_group_size,
        kvcache_residual_depth=found.kvcache_residual_depth,
        model_type=text(found.model_type),
        task_type=_member(TaskType, found.task_type),
        core_num=handle.core_number(),
    )


def _member(kind: type[_E], number: int) -> _E:
    """A number of a newer runtime that has no word yet counts as the first one of its kind."""
    try:
        return kind(number)
    except ValueError:
        logger.warning("%s %d is unknown to this version of rknnlite", kind.__name__, number)
        return kind(0)


def checked_params(params: LlmParams | Sequence[LlmParams], config: LlmConfig) -> list[LlmParams]:
    """One entry per logits output, defaults filled in; raises ParamInvalid."""
    given = [params] if isinstance(params, LlmParams) else list(params)
    if not given:
        raise ParamInvalid("a session needs parameters for each logits output, none were given")
    if len(given) > 1 and any(not p.logits_name for p in given):
        raise ParamInvalid("several logits outputs: each entry needs its logits_name")
    return [_checked(p, config) for p in given]


def _checked(params: LlmParams, config: LlmConfig) -> LlmParams:
    check_sampling(params.sampling)
    size = params.max_context_len or config.max_ctx_len
    if not 1 <= size <= config.max_ctx_len:
        raise ParamInvalid(f"max_context_len is {size}, the model was converted for 1..{config.max_ctx_len}")
    vocab = params.vocab
    if vocab.vocab_size not in (0, config.vocab_size):
        raise ParamInvalid(f"vocab_size is {vocab.vocab_size}, the model has {config.vocab_size} tokens")
    wrong = [i for i in (*vocab.special_eos_ids, *vocab.special_bos_ids) if not -1 <= i < config.vocab_size]
    if wrong:
        raise ParamInvalid(f"special token {wrong[0]} is not in the vocabulary 0..{config.vocab_size - 1}")
    if len(vocab.special_bos_ids) > RKNN3_MAX_SPECIAL_BOS_ID_NUM:
        raise ParamInvalid(
            f"{len(vocab.special_bos_ids)} special BOS ids; {RKNN3_MAX_SPECIAL_BOS_ID_NUM} fit"
        )
    if len(vocab.special_eos_ids) > RKNN3_MAX_SPECIAL_EOS_ID_NUM:
        raise ParamInvalid(
            f"{len(vocab.special_eos_ids)} special EOS ids; {RKNN3_MAX_SPECIAL_EOS_ID_NUM} fit"
        )
    sampling = params.sampling
    if sampling.seed is not None or sampling.min_p or sampling.logit_bias:
        logger.warning(
            "the coprocessor draws tokens by itself and takes no seed, min_p or logit_bias; use HostSampling as sampling "
            "callback"
        )
    return replace(params, max_context_len=size)


def param_structs(params: Sequence[LlmParams], config: LlmConfig) -> Any:
    """The array for ``rknn3_session_init`` and ``rknn3_session_set_llm_param``."""
    structs = (RKNN3LLMParam * len(params))()
    for struct, param in zip(structs, params):
        sampling = param.sampling
        struct.logits_name = param.logits_name.encode() or None
        struct.max_context_len = param.max_context_len
        struct.sampling_param = RKNN3SamplingParams(
            sampling.top_k,
            sampling.top_p,
            sampling.temperature,
            sampling.repeat_penalty,
            sampling.frequency_penalty,
            sampling.presence_penalty,
        )
        struct.vocab_info = _vocab(param.vocab, config)
    return structs


def _vocab(vocab: VocabInfo, config: LlmConfig) -> RKNN3VocabInfo:
    struct = RKNN3VocabInfo(
        vocab_size=config.vocab_size,
        linefeed_id=vocab.linefeed_id,
        skip_special_token=vocab.skip_special_token,
        ignore_eos_token=vocab.ignore_eos_token,
    )
    for name, ids in (("special_bos_id", vocab.special_bos_ids), ("special_eos_id", vocab.special_eos_ids)):
        known = [i for i in ids if i >= 0]
        array = getattr(struct, name)
        array[:] = [*known, *[-1] * (len(array) - len(known))]
        setattr(struct, f"n_{name}", len(known))
    return struct


def infer_struct(params: InferParams, continues: bool, abi: rknn3.Revision, version: str) -> Any:
    """Parameters of one run; raises ParamInvalid for what this runtime cannot do."""
    if not 1 <= params.max_new_tokens <= _INT32_MAX:
        raise ParamInvalid(
            f"max_new_tokens is {params.max_new_tokens}, must be 1 or more; prefill_only generates nothing"
        )
    struct = abi.RKNN3LLMInferParam(
        keep_history=int(params.keep_history or continues), max_new_tokens=params.max_new_tokens
    )
    for name in ("prefill_only", "disable_sampling"):
        if getattr(params, name):
            if not hasattr(struct, name):
                raise ParamInvalid(f"{name} needs runtime 1.0.4 or newer, this is {version}")
            setattr(struct, name, True)
    return struct
