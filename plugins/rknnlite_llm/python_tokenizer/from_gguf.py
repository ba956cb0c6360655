"""The metadata of a GGUF file (``tokenizer.ggml.*``) as the ``tokenizer.json`` that computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from .from_sentencepiece import Piece, SentencePieces, published

__all__ = ["BYTE", "CONTROL", "SPLITS", "UNKNOWN", "UNUSED", "USER_DEFINED", "published_of", "strings"]

UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6
"""Token types of GGUF that matter here; 1 is plain text."""

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SIGN, _SHORT = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_SLASHES = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "qwen2": rf"{_LETTERS}\p{{N}}{_REST}",
    "llama-bpe": rf"{_LETTERS}\p{{N}}{{1,3}}{_REST}",
    "gpt-4o": rf"{_SIGN}{_UPPER}*{_LOWER}+{_SHORT}|{_SIGN}{_UPPER}+{_LOWER}*{_SHORT}|\p{{N}}{{1,3}}{_SLASHES}",
    "tekken": rf"{_SIGN}{_UPPER}*{_LOWER}+|{_SIGN}{_UPPER}+{_LOWER}*|\p{{N}}{_SLASHES}",
    "olmo": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "smollm": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+",
}
"""How a text is cut before BPE, by the name in ``tokenizer.ggml.pre``, which ``LlmFamily`` has too."""
_SAME = {
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
    "glm4": "llama-bpe",
    "deepseek-r1-qwen": "qwen2",
    "refact": "smollm",
    "starcoder": "smollm",
    "command-r": "smollm",
    "gpt-2": "olmo",
}
"""Other names of these."""
_WHOLE_WORDS = {"llama-bpe", "tekken"}
"""Where a word that is one token stays whole, whatever the merges say."""


def published_of(pairs: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The tokenizer of a file; raises ModelInvalid, or ModelUnsupported for one whose split is not known here."""
    kind, pre = pairs.get("tokenizer.ggml.model"), pairs.get("tokenizer.ggml.pre", "")
    pre = _SAME.get(pre, pre) if isinstance(pre, str) else pre
    if kind == "gpt2" and isinstance(pre, str) and pre in SPLITS:
        return _byte_level(pairs, pre, label)
    if kind in ("llama", "t5"):
        return published(_pieces(pairs, str(kind), label))
    raise ModelUnsupported(
        f"{label}: tokenizer {shown(kind)} with pre-tokenizer {shown(pre)} and no tokenizer.huggingface.json; give the session a "
        "tokenizer callback of your own"
    )


def strings(pairs: Mapping[str, Any], key: str, label: str) -> list[str]:
    """A list of texts; raises ModelInvalid where there is none."""
    value = pairs.get(key)
    if not isinstance(value, list):
        raise ModelInvalid(f"{label}: has no {key}")
    return value


def _types(pairs: Mapping[str, Any], count: int) -> list[int]:
    kinds = np.ones(count, np.int64)
    types = pairs.get("tokenizer.ggml.token_type")
    if isinstance(types, np.ndarray):
        kinds[: len(types)] = types[:count]
    return list(map(int, kinds))


def _byte_level(pairs: Mapping[str, Any], pre: str, label: str) -> dict[str, Any]:
    tokens = strings(pairs, "tokenizer.ggml.tokens", label)
    merges = [merge.split(" ", 1) for merge in strings(pairs, "tokenizer.ggml.merges", label)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {
        "type": "Split",
        "pattern": {"Regex": SPLITS[pre]},
        "behavior": "Isolated",
        "invert": False,
    }
    added = [
        {
            "id": number,
            "content": tokens[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, kind in enumerate(_types(pairs, len(tokens)))
        if kind in (CONTROL, USER_DEFINED)
    ]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": pre in _WHOLE_WORDS,
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": merges,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": None,
        "decoder": level,
        "model": model,
    }


def _pieces(pairs: Mapping[str, Any], kind: str, label: str) -> SentencePieces:
    tokens = strings(pairs, "tokenizer.ggml.tokens", label)
    scores = pairs.get("tokenizer.ggml.scores")
    if not isinstance(scores, np.ndarray) or len(scores) < len(tokens):
        raise ModelInvalid(f"{label}: has no tokenizer.ggml.scores for its {len(tokens)} tokens")
    types = _types(pairs, len(tokens))
    charsmap = pairs.get("tokenizer.ggml.precompiled_charsmap")

    def around(name: str, usual: bool) -> int:
        wanted = pairs.get(f"tokenizer.ggml.add_{name}_token", usual)
        return int(pairs.get(f"tokenizer.ggml.{name}_token_id", -1)) if wanted else -1

    return SentencePieces(
        pieces=[
            Piece(token, float(score), type_) for token, score, type_ in zip(tokens, scores.tolist(), types)
        ],
        model="BPE" if kind == "llama" else "Unigram",
        byte_fallback=BYTE in types,
        charsmap=charsmap.tobytes() if isinstance(charsmap, np.ndarray) else b"",
        prefix=bool(pairs.get("tokenizer.ggml.add_space_prefix", True)),
        tidy=bool(pairs.get("tokenizer.ggml.remove_extra_whitespaces", kind == "t5")),
        bos=around("bos", kind == "llama"),
        eos=around("eos", kind == "t5"),
    )
