"""``llm_args``: the dictionary of a session's parameters, with the names and defaults of the vendor's package."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._faces.arguments import described
from ..errors import ParamInvalid
from ..spi.llm import InferParams, LlmConfig, LlmParams, SamplingParams, VocabInfo

__all__ = ["SessionArgs", "read_args"]

_MAX_IDS = 64  # as many special ids as the C structure holds
_DEFAULT_CONTEXT = 1024

_KNOWN = {
    "logits_name", "max_context_len", "top_k", "top_p", "temperature", "repeat_penalty", "frequency_penalty",
    "presence_penalty", "seed", "vocab_size", "special_bos_id", "special_eos_id", "linefeed_id",
    "skip_special_token", "ignore_eos_token", "keep_history", "max_new_tokens",
}  # fmt: skip


@dataclass(frozen=True)
class SessionArgs:
    """Parameters of a session and defaults of its runs; ``unknown`` are keys that mean nothing."""

    params: LlmParams
    infer: InferParams
    unknown: tuple[str, ...] = ()


def read_args(given: Any, config: LlmConfig) -> SessionArgs:
    """Read a dictionary, or a list whose first element is one (only that counts). None: all defaults.

    Raises:
        ParamInvalid: something else, or a value of the wrong type, named with its key.
    """
    first = given[0] if isinstance(given, (list, tuple)) and given else given
    args = {} if first is None else first
    if not isinstance(args, Mapping):
        raise ParamInvalid(f"llm_args must be a dict, or a list of one, not {described(given)}")
    context = _int(args, "max_context_len", min(_DEFAULT_CONTEXT, config.max_ctx_len))
    return SessionArgs(
        LlmParams(
            max_context_len=context,
            sampling=SamplingParams(
                top_k=_int(args, "top_k", 1),
                top_p=_float(args, "top_p", 1.0),
                temperature=_float(args, "temperature", 1.0),
                repeat_penalty=_float(args, "repeat_penalty", 1.0),
                frequency_penalty=_float(args, "frequency_penalty", 0.0),
                presence_penalty=_float(args, "presence_penalty", 0.0),
                seed=None if args.get("seed") is None else _int(args, "seed", 0),
            ),
            vocab=VocabInfo(
                vocab_size=_int(args, "vocab_size", 0),
                special_bos_ids=_ids(args, "special_bos_id"),
                special_eos_ids=_ids(args, "special_eos_id"),
                linefeed_id=_int(args, "linefeed_id", 0),
                skip_special_token=_flag(args, "skip_special_token"),
                ignore_eos_token=_flag(args, "ignore_eos_token"),
            ),
            logits_name=_text(args, "logits_name", "logits"),
        ),
        InferParams(
            keep_history=_flag(args, "keep_history"),
            max_new_tokens=_int(args, "max_new_tokens", 1024),
        ),
        tuple(str(key) for key in args if key not in _KNOWN),
    )


def _int(args: Mapping[str, Any], key: str, default: int) -> int:
    try:
        return operator.index(args.get(key, default))
    except TypeError:
        raise ParamInvalid(f"llm_args: {key} is {described(args[key])}, must be an int") from None


def _flag(args: Mapping[str, Any], key: str) -> bool:
    try:
        return bool(args.get(key, False))
    except Exception:  # an array of several
        raise ParamInvalid(f"llm_args: {key} is {described(args[key])}, must be true or false") from None


def _float(args: Mapping[str, Any], key: str, default: float) -> float:
    value = args.get(key, default)
    try:
        return float(value)
    except Exception:  # no number, or an int beyond all floats
        raise ParamInvalid(f"llm_args: {key} is {described(value)}, must be a number") from None


def _ids(args: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Special ids, one or a list of them; -1 stands for none."""
    value = args.get(key, -1)
    several = value if isinstance(value, (list, tuple)) else [value]
    try:
        ids = tuple(operator.index(item) for item in several)
    except TypeError:
        raise ParamInvalid(
            f"llm_args: {key} is {described(value)}, must be an int or a list of int"
        ) from None
    if len(ids) > _MAX_IDS:
        raise ParamInvalid(f"llm_args: {key} holds {len(ids)} ids, at most {_MAX_IDS} are possible")
    return tuple(i for i in ids if i != -1)


def _text(args: Mapping[str, Any], key: str, default: str) -> str:
    value = args.get(key, default)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is not None and not isinstance(value, str):
        raise ParamInvalid(f"llm_args: {key} is {described(value)}, must be bytes or str")
    return value or ""
