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
    """One architecture. What no row can say is in ``gguf_rules`` and ``gguf_layout``, by the same name.

    Attributes:
        model_type: of the Hugging Face folder.
        layer: names of a layer's tensors, as ``LAYER`` has them.
        layers: what names of layers begin with there; ``ends``: names outside of layers, as ``ENDS`` has them.
        sorted_pairs: rows of queries and keys lie by pairs of channels that turn together.
        shift: what weights of norms have been increased by.
        keys: fields of ``config.json`` beside ``KEYS``, all of which a file must have.
        optional: fields of ``config.json`` -> their keys, where a file may have none.
        fixed: fields that a file does not have, and llama.cpp takes for granted.
        bias: the field that says whether queries, keys and values have biases; ``mlp_bias``: those of the network, empty: none.
        eps: key of the epsilon of norms, where it is another than ``EPS`` says.
        wide: so many layers has a model whose scores are divided by the square root of ``hidden / heads``, not of ``head_dim``:
            llama.cpp tells the largest Gemmas by that, and a file does not say.
        window_pattern: every so manyth layer sees all tokens where a file does not say; 0: no layers with windows.
        mixed: some layers have no attention, and a file tells the key/value heads of each.
        longrope: may have factors of rotary embeddings for short and for long texts.
    """

    model_type: str
    layer: Mapping[str, str] = field(default_factory=lambda: LAYER)
    sorted_pairs: bool = False
    shift: float = 0.0
    keys: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    layers: str = "model.layers."
    ends: Mapping[str, str] = field(default_factory=lambda: ENDS)
    bias: str = "attention_bias"
    mlp_bias: str = "mlp_bias"
    eps: str = ""
    wide: int = 0
    window_pattern: int = 0
    mixed: bool = False
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
_DEEPSEEK = {
    **_QWEN_MOE,
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_b": "self_attn.kv_b_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
_HUNYUAN = {
    **_QWEN_MOE,
    "attn_q_norm": "self_attn.query_layernorm",
    "attn_k_norm": "self_attn.key_layernorm",
    "ffn_gate_inp": "mlp.gate.wg",
    "ffn_gate_shexp": "mlp.shared_mlp.gate_proj",
    "ffn_up_shexp": "mlp.shared_mlp.up_proj",
    "ffn_down_shexp": "mlp.shared_mlp.down_proj",
}
_LFM2 = {
    **LAYER,
    "attn_norm": "operator_norm",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_gate_inp": "feed_forward.gate",
    "ffn_gate_exps": "feed_forward.experts.{}.w1",
    "ffn_up_exps": "feed_forward.experts.{}.w3",
    "ffn_down_exps": "feed_forward.experts.{}.w2",
}
_LFM2_ENDS = {"token_embd": "model.embed_tokens", "token_embd_norm": "model.embedding_norm"}
_PHI2 = {**LAYER, "attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
_FALCON = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_output": "self_attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_GRANITE_MOE = {
    **LAYER,
    "ffn_gate_inp": "block_sparse_moe.router.layer",
    "ffn_down_shexp": "shared_mlp.output_linear",
}
_GPT2 = {"attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn"}
_GPT2 |= {"attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
_GPT2_ENDS = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
_ERNIE_MOE_KEYS = {
    "moe_num_experts": "expert_count",
    "moe_k": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "moe_layer_start_index": "leading_dense_block_count",
}
_FALCON_ENDS = {**_GPT2_ENDS, "token_embd": "transformer.word_embeddings"}
_GRANITE_KEYS = {
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "attention_multiplier": "attention.scale",
    "logits_scaling": "logit_scale",
}
_LOCAL = {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"}
_ROUTED = {
    "n_routed_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}
_DENSE_FIRST = {
    "first_k_dense_replace": "leading_dense_block_count",
    "routed_scaling_factor": "expert_weights_scale",
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
        keys=_LOCAL,
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
    "granite": GgufFamily("granite", sorted_pairs=True, keys=_GRANITE_KEYS),
    "granitemoe": GgufFamily(
        "granitemoe", _GRANITE_MOE, sorted_pairs=True, keys={**_GRANITE_KEYS, **_LOCAL},
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
    "ernie4_5": GgufFamily("ernie4_5", bias="use_bias", mlp_bias=""),
    "ernie4_5-moe": GgufFamily(
        "ernie4_5_moe", _DEEPSEEK, bias="use_bias", mlp_bias="", keys=_ERNIE_MOE_KEYS,
        optional={"moe_layer_interval": "interleave_moe_layer_step", "moe_num_shared_experts": "expert_shared_count"},
    ),
    "command-r": GgufFamily("cohere", keys={"logit_scale": "logit_scale"}),
    "cohere2": GgufFamily("cohere2", keys={"logit_scale": "logit_scale", **_WINDOW}),
    "gpt-oss": GgufFamily(
        "gpt_oss", {**LAYER, "post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"},
        keys={**_WINDOW, **_LOCAL},
    ),
    "deepseek2": GgufFamily("deepseek_v3", _DEEPSEEK, keys=_ROUTED, optional=_DENSE_FIRST),
    "glm4moe": GgufFamily(
        "glm4_moe", {**_DEEPSEEK, "post_attention_norm": "post_attention_layernorm"}, keys=_ROUTED,
        optional={**_DENSE_FIRST, "n_shared_experts": "expert_shared_count"},
    ),
    "lfm2": GgufFamily("lfm2", _LFM2, mixed=True, ends=_LFM2_ENDS, keys={"conv_L_cache": "shortconv.l_cache"}),
    "lfm2moe": GgufFamily(
        "lfm2_moe", _LFM2, mixed=True, ends=_LFM2_ENDS,
        keys={**_MOE_KEYS, "conv_L_cache": "shortconv.l_cache", "num_dense_layers": "leading_dense_block_count"},
        optional={"norm_topk_prob": "expert_weights_norm", "routed_scaling_factor": "expert_weights_scale"},
    ),
    "hunyuan-dense": GgufFamily("hunyuan_v1_dense", _HUNYUAN),
    "hunyuan-moe": GgufFamily(
        "hunyuan_v1_moe", _HUNYUAN, keys={"num_experts": "expert_count", "moe_topk": "expert_used_count"}
    ),
    "mistral3": GgufFamily("ministral3", sorted_pairs=True),
    "arcee": GgufFamily("arcee", sorted_pairs=True),
    "apertus": GgufFamily("apertus", {**LAYER, "attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}),
    "nemotron": GgufFamily("nemotron", shift=1.0),
    "phi2": GgufFamily("phi", _PHI2, ends={**ENDS, "output_norm": "model.final_layernorm"}, mlp_bias=""),
    "phimoe": GgufFamily("phimoe", _MIXTRAL, keys=_LOCAL, eps=EPS[Norm.RMS], longrope=True),
    "gpt2": GgufFamily("gpt2", _GPT2, layers="transformer.h.", mlp_bias="", ends=_GPT2_ENDS),
    "gptneox": GgufFamily(
        "gpt_neox", {**_FALCON, "attn_output": "attention.dense"}, layers="gpt_neox.layers.", mlp_bias="",
        ends={"token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out"},
        keys={"use_parallel_residual": "use_parallel_residual"},
    ),
    "falcon": GgufFamily("falcon", _FALCON, layers="transformer.h.", bias="bias", mlp_bias="", ends=_FALCON_ENDS),
    "falcon with two norms": GgufFamily(
        "falcon", {**_FALCON, "attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"}, layers="transformer.h.", bias="bias", mlp_bias="",
        ends=_FALCON_ENDS,
    ),
    "stablelm": GgufFamily("stablelm", bias="use_qkv_bias"),
    "starcoder2": GgufFamily(
        "starcoder2", {**LAYER, "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}, bias="use_bias", mlp_bias="",
        fixed={"sliding_window": None},
    ),
    "exaone4": GgufFamily("exaone4", {**LAYER, **_BEHIND}),
    "chatglm": GgufFamily("glm", {**LAYER, "ffn_up": "mlp.gate_up_proj"}),
}  # fmt: skip
"""All architectures that are read, by ``general.architecture``."""
