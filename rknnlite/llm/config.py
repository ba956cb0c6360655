"""``config.json`` of a Hugging Face model -> ``Architecture``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ModelInvalid, ModelUnsupported
from ..formats.llm import Architecture, Rope
from ..formats.llm_families import FAMILIES, LlmFamily

__all__ = ["architecture"]

_ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
}  # fmt: skip
"""Activations of encoders: as ``config.json`` spells them -> as a package does."""


def architecture(config: Mapping[str, Any], head: bool = True) -> Architecture:
    """What the model needs to be computed, with its head if it has one that is wanted.

    Raises ModelUnsupported naming what is not computed here.
    """
    family = _family(config)
    made = _encoder(config, family) if family.encoder else _decoder(config, family)
    return replace(made, head=head and not family.encoder)


def _decoder(config: Mapping[str, Any], family: LlmFamily) -> Architecture:
    if config.get("hidden_act", "silu") != "silu":
        raise ModelUnsupported(f"activation {config['hidden_act']!r}; only silu is computed")
    if config.get("use_sliding_window") or "sliding_attention" in (config.get("layer_types") or []):
        raise ModelUnsupported("attention in sliding windows is not computed here")
    bias = bool(config.get("attention_bias", False))
    if (bias and not family.qkv_bias) or config.get("mlp_bias"):
        raise ModelUnsupported(
            f"biases of a {family.name} model (attention_bias, mlp_bias) are not computed here"
        )
    heads, hidden = _number(config, "num_attention_heads"), _number(config, "hidden_size")
    return Architecture(
        family=family.name,
        hidden=hidden,
        intermediate=_number(config, "intermediate_size"),
        layers=_number(config, "num_hidden_layers"),
        heads=heads,
        kv_heads=_number(config, "num_key_value_heads", heads),
        head_dim=_number(config, "head_dim", hidden // heads),
        vocab_size=_number(config, "vocab_size"),
        max_position=_number(config, "max_position_embeddings", 2048),
        rms_eps=float(config.get("rms_norm_eps", 1e-6)),
        qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm,
        tied=bool(config.get("tie_word_embeddings", False)),
        rope=_rope(config),
    )


def _encoder(config: Mapping[str, Any], family: LlmFamily) -> Architecture:
    activation = str(config.get("hidden_act", "gelu"))
    if activation not in _ACTIVATIONS:
        raise ModelUnsupported(
            f"activation {activation!r} of an encoder is not computed here; there are {', '.join(_ACTIVATIONS)}"
        )
    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute" or config.get("is_decoder") or config.get("add_cross_attention"):
        raise ModelUnsupported(
            f"a {family.name} model with positions of type {kind!r}, or as a decoder, is not computed here"
        )
    first = family.first_position
    if first and config.get("pad_token_id", first - 1) != first - 1:
        raise ModelUnsupported(
            f"config.json: pad_token_id is {config['pad_token_id']!r}; positions of a {family.name} model are computed for "
            f"{first - 1} only"
        )
    heads, hidden = _number(config, "num_attention_heads"), _number(config, "hidden_size")
    rows = _number(config, "max_position_embeddings", 512)
    if hidden % heads or rows <= first:
        raise ModelInvalid(
            f"config.json: {heads} heads cannot share {hidden} channels, or {rows} positions are too few"
        )
    return Architecture(
        family=family.name,
        hidden=hidden,
        intermediate=_number(config, "intermediate_size"),
        layers=_number(config, "num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        vocab_size=_number(config, "vocab_size"),
        max_position=rows - first,
        rms_eps=float(config.get("layer_norm_eps", 1e-12)),
        qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm,
        tied=False,
        rope=Rope(),
        activation=_ACTIVATIONS[activation],
    )


def _family(config: Mapping[str, Any]) -> LlmFamily:
    name = str(config.get("model_type"))
    if name not in FAMILIES:
        raise ModelUnsupported(f"model type {name!r} is not computed here; there are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _number(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or value < 1:
        raise ModelInvalid(f"config.json: {key} is {value!r}")
    return value


def _rope(config: Mapping[str, Any]) -> Rope:
    """Old files have ``rope_theta`` and ``rope_scaling``, new ones ``rope_parameters``."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(given.get("rope_theta", config.get("rope_theta", 10000.0)))
    kind = str(given.get("rope_type", given.get("type", "default")))
    if kind == "default":
        return Rope(theta)
    if kind == "linear":
        return Rope(theta, kind, float(given["factor"]))
    if kind == "llama3":
        return Rope(
            theta,
            kind,
            float(given["factor"]),
            float(given["low_freq_factor"]),
            float(given["high_freq_factor"]),
            int(given["original_max_position_embeddings"]),
        )
    raise ModelUnsupported(
        f"rotary scaling {kind!r} is not computed here; there are default, linear and llama3"
    )
