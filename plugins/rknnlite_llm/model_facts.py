"""What the files of a model say of it, without opening it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rknnlite.errors import RknnError
from rknnlite.files.reading import read_text
from rknnlite.formats import ModelFile

from .chat_template import CHATML
from .container.families import FAMILIES
from .footprint import package_model
from .gguf import read_gguf
from .hf_folder import read_object
from .model_folder import ModelKind, StoredModel

__all__ = ["ModelFacts", "facts_of"]

_HEAD = 64 << 20
"""Bytes of a GGUF file in which the facts are; tensors come behind."""


@dataclass(frozen=True)
class ModelFacts:
    """Numbers are 0, token ids -1 and texts empty where the files do not tell.

    Attributes:
        family: as transformers call it.
        context: tokens that the model was made for.
        hidden: width of an embedding.
        vocabulary: tokens.
        template: Jinja, of conversations.
        embeds: whether it makes embeddings instead of text.
    """

    family: str = ""
    context: int = 0
    hidden: int = 0
    vocabulary: int = 0
    template: str = ""
    embeds: bool = False
    bos: int = -1
    eos: int = -1


def facts_of(stored: StoredModel) -> ModelFacts:
    """What is known; nothing of a file that cannot be read."""
    try:
        made = stored.made_package
        if stored.kind is ModelKind.PACKAGE or made.is_file():
            return _of_package(stored.path if stored.kind is ModelKind.PACKAGE else made)
        if stored.kind is ModelKind.HF:
            return _of_folder(stored.path)
        beside = stored.path.with_name(f"{stored.name}.tokenizer.gguf")
        path = stored.path if stored.kind is ModelKind.GGUF else beside
        if not path.is_file():
            return ModelFacts()
        return _of_gguf(read_gguf(ModelFile(path).data[:_HEAD], str(path)))
    except (RknnError, OSError, ValueError):
        return ModelFacts()


def _of_package(path: Path) -> ModelFacts:
    model = package_model(path)
    if model is None:  # a device's file
        return ModelFacts()
    arch = model.arch
    return ModelFacts(
        arch.family,
        model.max_context,
        arch.hidden,
        arch.vocab_size,
        model.chat_template or CHATML,
        model.embedding is not None,
        model.bos_id,
        model.eos_ids[0] if model.eos_ids else -1,
    )


def _of_folder(path: Path) -> ModelFacts:
    config = read_object(path / "config.json")
    inner = config.get("text_config")
    part = inner if isinstance(inner, dict) else config
    template, file = path / "chat_template.jinja", path / "tokenizer_config.json"
    if template.is_file():
        text = read_text(template)
    else:
        told = read_object(file).get("chat_template") if file.is_file() else None
        text = told if isinstance(told, str) else ""
    return ModelFacts(
        _text(config, "model_type"),
        _whole(part, "max_position_embeddings", 0),
        _whole(part, "hidden_size", 0),
        _whole(part, "vocab_size", 0),
        text or CHATML,
        (path / "modules.json").is_file() or _is_encoder(_text(config, "model_type")),
        _whole(config, "bos_token_id", -1),
        _whole(config, "eos_token_id", -1),
    )


def _of_gguf(pairs: Mapping[str, Any]) -> ModelFacts:
    family = _text(pairs, "general.architecture")
    tokens = pairs.get("tokenizer.ggml.tokens")
    return ModelFacts(
        family,
        _whole(pairs, f"{family}.context_length", 0),
        _whole(pairs, f"{family}.embedding_length", 0),
        len(tokens) if isinstance(tokens, list) else 0,
        _text(pairs, "tokenizer.chat_template") or CHATML,
        f"{family}.pooling_type" in pairs or _is_encoder(family),
        _whole(pairs, "tokenizer.ggml.bos_token_id", -1),
        _whole(pairs, "tokenizer.ggml.eos_token_id", -1),
    )


def _is_encoder(family: str) -> bool:
    return family in FAMILIES and FAMILIES[family].encoder


def _text(pairs: Mapping[str, Any], key: str) -> str:
    value = pairs.get(key)
    return value if isinstance(value, str) else ""


def _whole(pairs: Mapping[str, Any], key: str, default: int) -> int:
    value = pairs.get(key)
    return value if type(value) is int else default
