"""Architectures of GGUF files: one row of ``GGUF_FAMILIES`` for each, with what its names and weights are in a Hugging Face folder.

A row stands here when files that llama.cpp's converter made of small random models were imported and said what
transformers says of the models (``tools/llm_families --llama-cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .container.family import Norm

__all__ = ["ENDS", "EPS", "EXPERTS", "GGUF_FAMILIES", "KEYS", "LAYER", "GgufFamily"]

ENDS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
"""Tensors outside of layers."""
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Tensors of a layer, between ``blk.0.`` and ``.weight`` there and between ``model.layers.0.`` and ``.weight`` here."""
EXPERTS = "{}"
"""Stands in a name for the number of an expert; GGUF has all experts of a layer in one tensor."""
KEYS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
}
"""Fields of ``config.json`` of every family -> keys behind the name of the architecture."""
EPS = {Norm.RMS: "attention.layer_norm_rms_epsilon", Norm.LAYER: "attention.layer_norm_epsilon"}
"""The key of what ``LlmFamily.eps`` names."""


@dataclass(frozen=True)
class GgufFamily:
    """One architecture.

    Attributes:
        model_type: of the Hugging Face folder.
        layer: names of a layer's tensors, as ``LAYER`` has them.
        sorted_pairs: rows of queries and keys lie by pairs of channels that turn together.
        shift: what weights of norms have been increased by.
        keys: fields of ``config.json`` beside ``KEYS``, all of which a file must have.
        fixed: fields that a file does not have, and llama.cpp takes for granted.
        wide: so many layers has a model whose scores are divided by the square root of ``hidden / heads``, not of ``head_dim``:
            llama.cpp tells the largest Gemmas by that, and a file does not say.
        window_pattern: every so manyth layer sees all tokens where a file does not say; 0: no layers with windows.
        longrope: may have factors of rotary embeddings for short and for long texts.
    """

    model_type: str
    layer: Mapping[str, str] = field(default_factory=lambda: LAYER)
    sorted_pairs: bool = False
    shift: float = 0.0
    keys: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    wide: int = 0
    window_pattern: int = 0
    longrope: bool = False


_WINDOW = {"sliding_window": "attention.sliding_window"}
_CAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_BEHIND = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_SANDWICH = {**LAYER, **_BEHIND, "ffn_norm": "pre_feedforward_layernorm"}
_GLM4 = {
    **LAYER,
    "post_attention_norm": "post_self_attn_layernorm",
    "ffn_up": "mlp.gate_up_proj",
    "post_ffw_norm": "post_mlp_layernorm",
}
_QWEN_MOE = {
    **LAYER,
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
_MIXTRAL = {
    **LAYER,
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
}
_MOE_KEYS = {
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}

GGUF_FAMILIES = {
    "llama": GgufFamily("llama", sorted_pairs=True),
    "llama with experts": GgufFamily(
        "mixtral", _MIXTRAL, sorted_pairs=True, fixed={"sliding_window": None},
        keys={"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
    ),
    "qwen2": GgufFamily("qwen2"),
    "qwen3": GgufFamily("qwen3"),
    "qwen2moe": GgufFamily(
        "qwen2_moe", _QWEN_MOE, fixed={"norm_topk_prob": False},
        keys={**_MOE_KEYS, "shared_expert_intermediate_size": "expert_shared_feed_forward_length"},
    ),
    "qwen3moe": GgufFamily("qwen3_moe", _QWEN_MOE, keys=_MOE_KEYS, fixed={"norm_topk_prob": True}),
    "gemma": GgufFamily("gemma", shift=1.0),
    "gemma2": GgufFamily(
        "gemma2", _SANDWICH, shift=1.0, keys={**_WINDOW, **_CAPS}, wide=46, window_pattern=2
    ),
    "gemma3": GgufFamily("gemma3_text", _SANDWICH, shift=1.0, keys=_WINDOW, wide=62, window_pattern=6),
    "phi3": GgufFamily(
        "phi3", {**LAYER, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, keys=_WINDOW, longrope=True
    ),
    "smollm3": GgufFamily("smollm3", sorted_pairs=True),
    "granite": GgufFamily(
        "granite", sorted_pairs=True,
        keys={"embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
              "attention_multiplier": "attention.scale", "logits_scaling": "logit_scale"},
    ),
    "minicpm": GgufFamily(
        "minicpm", sorted_pairs=True,
        keys={"scale_emb": "embedding_scale", "scale_depth": "residual_scale", "dim_model_base": "logit_scale"},
    ),
    "internlm2": GgufFamily("llama", sorted_pairs=True),
    "glm4": GgufFamily("glm4", _GLM4),
    "olmo2": GgufFamily("olmo2", {**LAYER, **_BEHIND}),
    "olmoe": GgufFamily(
        "olmoe", _QWEN_MOE, fixed={"norm_topk_prob": False},
        keys={"num_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
    ),
    "seed_oss": GgufFamily("seed_oss", {**LAYER, "post_attention_norm": "post_attention_layernorm"}),
    "ernie4_5": GgufFamily("ernie4_5"),
    "command-r": GgufFamily("cohere", keys={"logit_scale": "logit_scale"}),
}  # fmt: skip
"""All architectures that are read, by ``general.architecture``."""
