"""Families without a class in transformers: an equal model of another one, and its files as the family's own are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Tensors = dict[str, np.ndarray]
_KEPT = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings", "rms_norm_eps", "hidden_act", "tie_word_embeddings",
)  # fmt: skip


@dataclass(frozen=True)
class StandIn:
    """``config``: of the equal model, beside the case's own. ``described`` and ``saved`` make the family's own files of its."""

    config: Callable[[dict[str, Any]], dict[str, Any]]
    described: Callable[[dict[str, Any]], dict[str, Any]]
    saved: Callable[[Tensors, dict[str, Any]], Tensors]


def _kept(config: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    return {
        "model_type": name,
        **{key: config[key] for key in _KEPT if key in config},
        "rope_theta": 10000.0,
        **more,
    }


def _same(tensors: Tensors, config: dict[str, Any]) -> Tensors:
    return tensors


def _minicpm(config: dict[str, Any]) -> dict[str, Any]:
    """Residuals times ``scale_depth / sqrt(layers)``, logits divided by ``hidden / dim_model_base``."""
    return {
        "embedding_multiplier": 6.0,
        "residual_multiplier": 1.4 / config["num_hidden_layers"] ** 0.5,
        "attention_multiplier": (config["hidden_size"] // config["num_attention_heads"]) ** -0.5,
        "logits_scaling": config["hidden_size"] / 24,
    }


def _internlm2(tensors: Tensors, config: dict[str, Any]) -> Tensors:
    """Queries, keys and values in one tensor: for each key/value head its queries, then its key, then its value."""
    names = {
        "model.embed_tokens": "model.tok_embeddings", "lm_head": "output", "self_attn.o_proj": "attention.wo",
        "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2",
        "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    made = {}
    for name, array in tensors.items():
        if "self_attn.q_proj" in name:
            parts = [tensors[name.replace("q_proj", f"{letter}_proj")] for letter in "qkv"]
            groups = [part.reshape(config["num_key_value_heads"], -1, *array.shape[1:]) for part in parts]
            made[name.replace("self_attn.q_proj", "attention.wqkv")] = np.concatenate(groups, axis=1).reshape(
                -1, *array.shape[1:]
            )
        elif "_proj" not in name or ("k_proj" not in name and "v_proj" not in name):
            old = next((old for old in names if old in name), None)
            made[name.replace(old, names[old]) if old else name] = array
    return made


STAND_INS = {
    "minicpm": StandIn(
        _minicpm,
        lambda config: _kept(config, "minicpm", scale_emb=6, scale_depth=1.4, dim_model_base=24),
        _same,
    ),
    "internlm2": StandIn(
        lambda config: {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
        lambda config: _kept(
            config, "internlm2", bias=False, rope_scaling={"type": "dynamic", "factor": 2.0}
        ),
        _internlm2,
    ),
    "internlm3": StandIn(
        lambda config: {"attention_bias": True, "mlp_bias": True},
        lambda config: _kept(config, "internlm3", qkv_bias=True, bias=True, head_dim=16),
        _same,
    ),
}
