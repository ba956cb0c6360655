"""The tokenizer of a Hugging Face directory, for the export: GGUF, bytes of tokens, chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_bytes, read_text

from .container.description import Architecture
from .container.families import FAMILIES
from .gguf import Value, write_gguf
from .python_tokenizer.from_gguf import BYTE, CONTROL, UNUSED, USER_DEFINED
from .python_tokenizer.from_sentencepiece import published, read_sentencepiece
from .tokenizer import HF_JSON, family_json, token_bytes

__all__ = ["Vocabulary", "vocabulary"]

_FILES = ("tokenizer.json", "tokenizer.model")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens with their GGUF types, merges or scores, special tokens and the chat template.

    ``kind`` is the tokenizer as llama.cpp names it: ``gpt2`` (byte-level BPE), ``llama`` (BPE with bytes to fall back on),
    ``bert`` (WordPiece), ``t5`` (SentencePiece's unigram model).
    """

    arch: Architecture
    kind: str
    tokens: list[str]
    types: NDArray[Any]
    merges: list[str]
    scores: NDArray[Any]
    bos_id: int
    eos_id: int
    chat_template: str
    text: str

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens."""
        return frozenset(np.flatnonzero(self.types == CONTROL).tolist())

    def token_bytes(self) -> list[bytes]:
        """What each token stands for."""
        return token_bytes(self.tokens, self.types, self.kind == "gpt2")

    def gguf(self) -> bytes:
        """The tokenizer as llama.cpp reads it, and as its authors published it."""
        arch = self.arch
        pairs: dict[str, Value] = {
            "general.architecture": arch.family,
            "general.name": "tokenizer",
            f"{arch.family}.context_length": arch.max_position,
            f"{arch.family}.embedding_length": arch.hidden,
            f"{arch.family}.block_count": arch.layers,
            f"{arch.family}.feed_forward_length": arch.intermediate,
            f"{arch.family}.attention.head_count": arch.heads,
            f"{arch.family}.attention.head_count_kv": arch.kv_heads,
            f"{arch.family}.attention.layer_norm_rms_epsilon": float(arch.rms_eps),
            f"{arch.family}.rope.freq_base": float(arch.rope.theta),
            "tokenizer.ggml.model": self.kind,
            "tokenizer.ggml.pre": FAMILIES[arch.family].pre_tokenizer if self.kind == "gpt2" else "default",
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": self.types.astype(np.int32),
        }
        if self.kind == "gpt2":
            pairs["tokenizer.ggml.merges"] = self.merges
        elif self.kind != "bert":
            pairs["tokenizer.ggml.scores"] = self.scores
        for name, number in (("bos", self.bos_id), ("eos", self.eos_id)):
            if number >= 0:
                pairs[f"tokenizer.ggml.{name}_token_id"] = number
        pairs["tokenizer.ggml.add_bos_token"] = False
        if self.chat_template:
            pairs["tokenizer.chat_template"] = self.chat_template
        pairs[HF_JSON] = self.text
        return write_gguf(pairs)


def vocabulary(directory: Path, config: Mapping[str, Any], arch: Architecture) -> Vocabulary | None:
    """Read ``tokenizer.json``, or SentencePiece's ``tokenizer.model`` where there is none.

    None without either (a model without text). Raises ModelInvalid or ModelUnsupported.
    """
    path = next((p for name in _FILES if (p := directory / name).exists()), None)
    if path is None:
        return None
    settings = _settings(directory)
    parsed = family_json(path) if path.suffix == ".json" else _from_pieces(path, settings)
    model = parsed["model"]
    kind, pieces = _kind_and_pieces(model, path)
    tokens = [f"[PAD{i}]" for i in range(arch.vocab_size)]
    types = np.full(arch.vocab_size, UNUSED, np.int32)
    scores = -np.arange(arch.vocab_size, dtype=np.float32)
    for token, number, score in pieces:
        _place(tokens, types, number, token, 1, path)
        scores[number] = scores[number] if score is None else score
        if model.get("byte_fallback") and len(token) == 6 and token.startswith("<0x"):
            types[number] = BYTE
    for added in parsed.get("added_tokens", []):
        role = CONTROL if added.get("special") else USER_DEFINED
        _place(tokens, types, added["id"], added["content"], role, path)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model.get("merges") or []]
    return Vocabulary(
        arch=arch,
        kind=kind,
        tokens=tokens,
        types=types,
        merges=merges,
        scores=scores,
        bos_id=_special(settings, "bos_token", tokens),
        eos_id=_special(settings, "eos_token", tokens),
        chat_template=_template(directory, settings),
        text=read_text(path) if path.suffix == ".json" else json.dumps(parsed, ensure_ascii=False),
    )


def _from_pieces(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """SentencePiece's file as a ``tokenizer.json``, with what ``tokenizer_config.json`` says of the begin and the end."""
    model = read_sentencepiece(read_bytes(path), str(path))
    bos = model.bos if settings.get("add_bos_token", True) else -1
    eos = model.eos if settings.get("add_eos_token", False) else -1
    return published(
        replace(model, bos=bos, eos=eos, prefix_always=settings.get("legacy", True) is not False)
    )


def _kind_and_pieces(model: Mapping[str, Any], path: Path) -> tuple[str, list[tuple[Any, Any, Any]]]:
    """What kind of tokenizer it is, and its tokens: text, id, and score where there is one."""
    name, vocab = model.get("type", "BPE"), model.get("vocab")
    if name in ("BPE", "WordPiece") and isinstance(vocab, dict):
        kind = "bert" if name == "WordPiece" else "llama" if model.get("byte_fallback") else "gpt2"
        return kind, [(token, number, None) for token, number in vocab.items()]
    if name == "Unigram" and isinstance(vocab, list):
        return "t5", [(token, number, float(score)) for number, (token, score) in enumerate(vocab)]
    raise ModelInvalid(
        f"{path}: tokenizer of type {name!r}; BPE, WordPiece and Unigram with their vocabulary can be exported"
    )


def _place(tokens: list[str], types: NDArray[Any], number: Any, token: str, kind: int, path: Path) -> None:
    if type(number) is not int or not 0 <= number < len(tokens) or not isinstance(token, str):
        raise ModelInvalid(
            f"{path}: token {token!r} has id {number}, config.json has a vocabulary of {len(tokens)}"
        )
    tokens[number] = token
    types[number] = kind


def _settings(directory: Path) -> dict[str, Any]:
    path = directory / "tokenizer_config.json"
    if not path.exists():
        return {}
    try:
        value = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path}: {error}") from None
    return value if isinstance(value, dict) else {}


def _special(settings: dict[str, Any], key: str, tokens: list[str]) -> int:
    value = settings.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    return tokens.index(text) if text in tokens else -1


def _template(directory: Path, settings: dict[str, Any]) -> str:
    beside = directory / "chat_template.jinja"
    if beside.exists():
        try:
            return read_text(beside)
        except (OSError, ValueError) as error:
            raise ModelInvalid(f"{beside}: {error}") from None
    value = settings.get("chat_template")
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else ""
