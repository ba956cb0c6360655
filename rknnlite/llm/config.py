"""``config.json`` of a Hugging Face model -> ``Architecture``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ModelInvalid, ModelUnsupported
from ..formats.llm import Architecture, Rope
from ..formats.llm_families import FAMILIES, LlmFamily

__all__ = ["architecture"]


def architecture(config: Mapping[str, Any]) -> Architecture:
    """What the decoder needs to know. Raises ModelUnsupported naming what it cannot compute."""
    family = _family(config)
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
