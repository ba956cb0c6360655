"""The small random models that are compared: a case per family or variant. Plain data, for any Python.

``config`` goes to the configuration class of transformers for ``kind``. ``stand_in``: transformers has no class of its own for the
family; an equal model of another kind is saved as the family's own files are (see ``stand_ins.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VOCAB, PROMPT, SECOND, GREEDY = 160, 150, 37, 128
"""Tokens: of the vocabulary, of the first and the second prompt, generated."""
_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 500000.0,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0}
_LATENT = {
    "kv_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "num_key_value_heads": 6,
}
_DELTA = {
    "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
}  # fmt: skip
_MROPE = {
    "rope_type": "default",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "mrope_interleaved": True,
    "mrope_section": [2, 1, 1],
}
_MAMBA = {
    "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"], "mamba_n_heads": 6,
    "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 2, "shared_intermediate_size": 56, "attention_multiplier": 0.2,
    "residual_multiplier": 0.4, "logits_scaling": 0.5, "embedding_multiplier": 6.0,
}  # fmt: skip
_MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}


@dataclass(frozen=True)
class Case:
    """One model. ``prompt``: tokens of its first prompt; ``embeds``: pooling of a model of embeddings; ``scores``: it gives scores;
    ``weights``: of its package; ``greedy``: tokens that it says."""

    name: str
    models: str
    kind: str
    config: dict[str, Any] = field(default_factory=dict)
    stand_in: str = ""
    prompt: int = PROMPT
    embeds: str = ""
    scores: bool = False
    weights: str = "f32"
    greedy: int = GREEDY

    def settings(self) -> dict[str, Any]:
        """All that the configuration class is given."""
        return {**_SIZES, **self.config}


def longrope(pairs: int) -> dict[str, Any]:
    return {
        "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0 + 0.05 * i for i in range(pairs)],
        "long_factor": [1.0 + 0.9 * i for i in range(pairs)],
    }  # fmt: skip


CASES = (
    Case("qwen2", "Qwen2, Qwen2.5", "qwen2", {"tie_word_embeddings": True}),
    Case("qwen2-window", "Qwen2 with sliding windows", "qwen2", {
        "use_sliding_window": True, "sliding_window": 24, "max_window_layers": 2}),
    Case("qwen2-yarn", "Qwen2.5 with YaRN", "qwen2", {"rope_parameters": _YARN}),
    Case("deepseek-r1-qwen", "DeepSeek-R1-Distill-Qwen", "qwen2", {"rms_norm_eps": 1e-6, "num_attention_heads": 3,
        "num_key_value_heads": 1, "rope_theta": 1e6}),
    Case("qwen3", "Qwen3", "qwen3", {"head_dim": 24, "num_attention_heads": 5, "num_key_value_heads": 1,
        "tie_word_embeddings": True}),
    Case("qwen3-moe", "Qwen3-MoE", "qwen3_moe", {**_MOE, "head_dim": 16, "norm_topk_prob": True, "mlp_only_layers": [1]}),
    Case("qwen2-moe", "Qwen1.5-MoE, Qwen2-MoE", "qwen2_moe", {**_MOE, "shared_expert_intermediate_size": 56}),
    Case("llama-3", "Llama 3.1, 3.2", "llama", {"rope_parameters": _LLAMA3, "head_dim": 16}),
    Case("deepseek-r1-llama", "DeepSeek-R1-Distill-Llama", "llama", {"rope_parameters": _LLAMA3}),
    Case("llama-linear", "Llama 2, linear scaling, biases", "llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0,
        "rope_theta": 10000.0}, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 6}),
    Case("llama-dynamic", "Llama 2, dynamic scaling", "llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0,
        "rope_theta": 10000.0}, "max_position_embeddings": 240}),
    Case("llama-gelu", "Llama with another activation", "llama", {"hidden_act": "gelu_pytorch_tanh"}),
    Case("smollm2", "SmolLM2", "llama", {"tie_word_embeddings": True, "num_attention_heads": 9, "num_key_value_heads": 3,
        "hidden_size": 72, "rope_parameters": {"rope_type": "default", "rope_theta": 130000.0}}),
    Case("smollm3", "SmolLM3", "smollm3", {"no_rope_layers": [1, 0, 1, 0]}),
    Case("mistral", "Mistral", "mistral", {"sliding_window": 24, "head_dim": 16}),
    Case("ministral", "Ministral", "ministral", {"sliding_window": 24, "head_dim": 16, "layer_types": ["full_attention",
        "sliding_attention"] * 2}),
    Case("mixtral", "Mixtral", "mixtral", {"num_local_experts": 4, "sliding_window": None}),
    Case("gemma", "Gemma", "gemma", {"head_dim": 16, "num_key_value_heads": 1}),
    Case("gemma2", "Gemma 2", "gemma2", {"head_dim": 16, "sliding_window": 24, "query_pre_attn_scalar": 12,
        "attn_logit_softcapping": 5.0, "final_logit_softcapping": 6.0}),
    Case("gemma3", "Gemma 3 (text)", "gemma3_text", {"head_dim": 16, "sliding_window": 24, "num_key_value_heads": 1,
        "query_pre_attn_scalar": 20, "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
        "sliding_attention"], "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    Case("gemma4-e2b", "Gemma 4 E2B, E4B (text)", "gemma4_text", {"head_dim": 16, "global_head_dim": 24,
        "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": VOCAB, "sliding_window": 24, "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True, "final_logit_softcapping": 8.0, "layer_types": ["sliding_attention", "full_attention"] * 2}),
    Case("gemma4-moe", "Gemma 4 26B-A4B (text)", "gemma4_text", {"head_dim": 16, "global_head_dim": 24,
        "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0, "sliding_window": 24, "attention_k_eq_v": True,
        "enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 40,
        "final_logit_softcapping": 8.0, "layer_types": ["sliding_attention", "full_attention"] * 2}),
    Case("gemma4", "Gemma 4 31B (text)", "gemma4_text", {"head_dim": 16, "global_head_dim": 24, "num_global_key_value_heads": 1,
        "attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "sliding_window": 24, "final_logit_softcapping": 6.0,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "full_attention"]}),
    Case("phi3", "Phi-3-mini-4k", "phi3", {"sliding_window": 40, "num_key_value_heads": 6}),
    Case("phi4-mini", "Phi-4-mini", "phi3", {"num_attention_heads": 3, "num_key_value_heads": 1,
        "original_max_position_embeddings": 96, "tie_word_embeddings": True, "rope_parameters": {**longrope(6),
        "partial_rotary_factor": 0.75}}),
    Case("phi3-128k", "Phi-3-mini-128k, before and behind the border", "phi3", {"num_attention_heads": 3, "num_key_value_heads": 1,
        "original_max_position_embeddings": 96, "rope_parameters": longrope(8)}, prompt=60),
    Case("granite", "Granite 3", "granite", {"embedding_multiplier": 6.0, "logits_scaling": 0.5, "residual_multiplier": 0.4,
        "attention_multiplier": 0.2, "tie_word_embeddings": True}),
    Case("minicpm", "MiniCPM", "granite", {"tie_word_embeddings": True}, stand_in="minicpm"),
    Case("internlm2", "InternLM2, InternLM2.5", "llama", {"head_dim": 8, "attention_bias": False}, stand_in="internlm2"),
    Case("internlm3", "InternLM3", "llama", {"head_dim": 16}, stand_in="internlm3"),
    Case("glm", "GLM-4-9B, GLM-edge", "glm", {"head_dim": 16, "partial_rotary_factor": 0.5}),
    Case("glm4", "GLM-4-0414", "glm4", {"head_dim": 16, "partial_rotary_factor": 0.5}),
    Case("olmo2", "OLMo 2", "olmo2"),
    Case("olmo3", "OLMo 3", "olmo3", {"sliding_window": 24}),
    Case("olmo3-yarn", "OLMo 3 with YaRN", "olmo3", {"sliding_window": 24, "rope_parameters": {
        "full_attention": {**_YARN, "attention_factor": 1.1, "beta_fast": 16.0, "beta_slow": 2.0}, "sliding_attention": {
        "rope_type": "default", "rope_theta": 10000.0}}}),
    Case("olmoe", "OLMoE", "olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 40}),
    Case("exaone4", "EXAONE 4", "exaone4", {"sliding_window": 24, "head_dim": 16}),
    Case("seed-oss", "Seed-OSS", "seed_oss", {"head_dim": 16}),
    Case("ernie4.5", "ERNIE 4.5", "ernie4_5", {"head_dim": 16}),
    Case("stablelm", "StableLM 2", "stablelm", {"use_qkv_bias": True, "partial_rotary_factor": 0.5,
        "hidden_size": 96}),
    Case("stablelm-parallel", "StableLM, parallel halves", "stablelm", {"use_parallel_residual": True, "hidden_size": 96,
        "partial_rotary_factor": 0.25}),
    Case("starcoder2", "StarCoder2", "starcoder2", {"sliding_window": 24}),
    Case("arcee", "Arcee AFM", "arcee", {"head_dim": 16, "mlp_bias": True}),
    Case("nemotron", "Nemotron 3, 4, Minitron", "nemotron", {"head_dim": 16}),
    Case("phi", "Phi-1, Phi-1.5, Phi-2", "phi", {"hidden_size": 96, "partial_rotary_factor": 0.5}),
    Case("gpt-neox", "Pythia, GPT-NeoX", "gpt_neox", {"hidden_size": 96, "num_key_value_heads": None}),
    Case("gpt-neox-serial", "RedPajama-INCITE, halves one behind the other", "gpt_neox", {"hidden_size": 96, "num_key_value_heads": None,
        "use_parallel_residual": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0}}),
    Case("falcon", "Falcon 7B", "falcon", {"ffn_hidden_size": 80}),
    Case("falcon-40b", "Falcon 40B, Falcon 2", "falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True,
        "ffn_hidden_size": 80}),
    Case("falcon-rw", "Falcon without groups, halves one behind the other", "falcon", {"multi_query": False, "parallel_attn": False,
        "bias": True, "ffn_hidden_size": 80}),
    Case("gpt2", "GPT-2", "gpt2", {"num_key_value_heads": None}),
    Case("opt", "OPT", "opt", {"ffn_dim": 80, "num_key_value_heads": None}),
    Case("apertus", "Apertus", "apertus"),
    Case("ministral3", "Ministral 3", "ministral3", {"head_dim": 16, "rope_parameters": {**_YARN, "mscale": 1.0,
        "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}}),
    Case("hunyuan", "Hunyuan 0.5B to 7B", "hunyuan_v1_dense", {"head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 10000.0}}),
    Case("hunyuan-moe", "Hunyuan-A13B", "hunyuan_v1_moe", {"head_dim": 16, "num_experts": 6, "moe_topk": 2}),
    Case("granite-moe", "Granite 3 MoE", "granitemoe", {"num_local_experts": 6, "attention_multiplier": 0.2,
        "residual_multiplier": 0.4, "logits_scaling": 0.5, "embedding_multiplier": 6.0}),
    Case("granite-moe-shared", "Granite 4 MoE with a shared expert", "granitemoeshared", {"num_local_experts": 6,
        "attention_multiplier": 0.2, "shared_intermediate_size": 56}),
    Case("glm4-moe", "GLM-4.5, GLM-4.6", "glm4_moe", {"head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 40, "use_qk_norm": True, "attention_bias": True, "n_group": 4, "topk_group": 2,
        "routed_scaling_factor": 1.7}),
    Case("ernie4.5-moe", "ERNIE 4.5 MoE", "ernie4_5_moe", {"head_dim": 16, "moe_num_experts": 6, "moe_k": 2,
        "moe_intermediate_size": 40}),
    Case("lfm2-moe", "LFM2-8B-A1B", "lfm2_moe", {"layer_types": ["conv", "full_attention", "conv", "full_attention"],
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "num_dense_layers": 1}),
    Case("phimoe", "Phi-3.5-MoE", "phimoe", {"num_local_experts": 6, "lm_head_bias": True, "attention_bias": True}),
    Case("deepseek-v2", "DeepSeek-V2-Lite", "deepseek_v2", {**_LATENT, "q_lora_rank": None, "n_routed_experts": 6,
        "num_experts_per_tok": 2, "moe_intermediate_size": 40, "first_k_dense_replace": 1, "rope_parameters": {**_YARN,
        "mscale": 0.707, "mscale_all_dim": 0.707}}),
    Case("deepseek-v2-groups", "DeepSeek-V2, groups of experts", "deepseek_v2", {**_LATENT, "q_lora_rank": 20, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 40, "topk_method": "group_limited_greedy", "n_group": 4,
        "topk_group": 2, "routed_scaling_factor": 1.5}),
    Case("deepseek-v3", "DeepSeek-V3, R1, Moonlight, Kimi K2", "deepseek_v3", {**_LATENT, "q_lora_rank": 20,
        "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "first_k_dense_replace": 1, "n_group": 4,
        "topk_group": 2, "routed_scaling_factor": 2.5, "attention_bias": True, "rope_parameters": {**_YARN, "mscale": 1.0,
        "mscale_all_dim": 1.0}}),
    Case("gpt-oss", "GPT-OSS", "gpt_oss", {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2,
        "sliding_window": 24, "rope_parameters": {**_YARN, "truncate": False}}),
    Case("cohere", "Command R", "cohere", {"logit_scale": 0.6}),
    Case("cohere2", "Command R7B", "cohere2", {"sliding_window": 24, "logit_scale": 0.6}),
    Case("lfm2", "LFM2", "lfm2", {"layer_types": ["conv", "full_attention", "conv", "conv"], "block_multiple_of": 16}),
    Case("qwen3-next", "Qwen3-Next", "qwen3_next", {**_DELTA, **_MOE, "shared_expert_intermediate_size": 56, "mlp_only_layers": [1],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}),
    Case("qwen3.5", "Qwen3.5 (text)", "qwen3_5_text", {**_DELTA, "rope_parameters": _MROPE, "tie_word_embeddings": True}),
    Case("qwen3.5-moe", "Qwen3.5-MoE (text)", "qwen3_5_moe_text", {**_DELTA, **_MOE, "shared_expert_intermediate_size": 56,
        "rope_parameters": _MROPE}),
    Case("granite-hybrid", "Granite 4 H with experts", "granitemoehybrid", {**_MAMBA, "num_local_experts": 6,
        "position_embedding_type": "rope"}),
    Case("granite-hybrid-dense", "Granite 4 H micro, 1B, 350M", "granitemoehybrid", {**_MAMBA, "num_local_experts": 0,
        "mamba_proj_bias": True}),
    Case("bert", "BERT: bge, e5, gte", "bert", {"num_key_value_heads": None}, embeds="cls"),
    Case("xlm-roberta", "XLM-R: bge-m3, multilingual-e5", "xlm-roberta", {"pad_token_id": 1, "layer_norm_eps": 1e-5, "num_key_value_heads": None}, embeds="mean"),
    Case("roberta", "RoBERTa", "roberta", {"pad_token_id": 1, "layer_norm_eps": 1e-5, "num_key_value_heads": None}, embeds="mean"),
    Case("modernbert", "ModernBERT", "modernbert", {"local_attention": 24, "global_attn_every_n_layers": 3, "pad_token_id": 0,
        "num_key_value_heads": None},
        embeds="mean"),
    Case("bert-reranker", "BERT cross-encoders: ms-marco-MiniLM", "bert", {"num_key_value_heads": None, "num_labels": 1}, scores=True),
    Case("bge-reranker", "XLM-R cross-encoders: bge-reranker", "xlm-roberta", {"pad_token_id": 1, "num_key_value_heads": None,
        "num_labels": 1}, scores=True),
    Case("modernbert-reranker", "ModernBERT cross-encoders", "modernbert", {"local_attention": 24, "pad_token_id": 0,
        "global_attn_every_n_layers": 3, "num_key_value_heads": None, "num_labels": 1, "classifier_pooling": "mean"}, scores=True),
    Case("qwen3-scores", "Qwen3 for sequence classification", "qwen3", {"head_dim": 24, "num_labels": 1, "pad_token_id": 0},
        scores=True),
    Case("qwen3-embedding", "Qwen3-Embedding", "qwen3", {"head_dim": 24}, embeds="last"),
)  # fmt: skip
"""All cases, by what a reader looks for."""
_ATTENTION = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24}
GGUF = (
    Case("gguf-llama-2", "Llama 2, linear scaling, biases", "llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0,
        "rope_theta": 10000.0}, "attention_bias": True, "mlp_bias": True}),
    Case("gguf-llama-3", "Llama 3.1, 3.2", "llama", {"rope_parameters": _LLAMA3, "head_dim": 16}),
    Case("gguf-smollm2", "SmolLM2", "llama", {"tie_word_embeddings": True, "num_attention_heads": 9, "num_key_value_heads": 3,
        "hidden_size": 72}),
    Case("gguf-mistral", "Mistral 0.2 and later, without windows", "mistral", {"sliding_window": None, "head_dim": 16}),
    Case("gguf-mixtral", "Mixtral", "mixtral", {"num_local_experts": 4, "sliding_window": None}),
    Case("gguf-qwen2", "Qwen2, Qwen2.5", "qwen2", {"tie_word_embeddings": True}),
    Case("gguf-qwen2-yarn", "Qwen2.5 with YaRN", "qwen2", {"rope_parameters": _YARN}),
    Case("gguf-qwen2-moe", "Qwen1.5-MoE, Qwen2-MoE", "qwen2_moe", {**_MOE, "shared_expert_intermediate_size": 56}),
    Case("gguf-qwen3", "Qwen3", "qwen3", {"head_dim": 24, "num_attention_heads": 5, "num_key_value_heads": 1,
        "tie_word_embeddings": True}),
    Case("gguf-qwen3-moe", "Qwen3-MoE", "qwen3_moe", {**_MOE, "head_dim": 16, "norm_topk_prob": True}),
    Case("gguf-gemma", "Gemma", "gemma", {"head_dim": 16, "num_key_value_heads": 1}),
    Case("gguf-gemma2", "Gemma 2", "gemma2", {**_ATTENTION, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 6.0}),
    Case("gguf-gemma3", "Gemma 3 (text)", "gemma3_text", {**_ATTENTION, "num_hidden_layers": 7, "num_key_value_heads": 1,
        "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    Case("gguf-gemma2-27b", "Gemma 2 27B: scores by another width", "gemma2", {**_ATTENTION, "num_hidden_layers": 46,
        "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 6.0}),
    Case("gguf-gemma3-27b", "Gemma 3 27B: scores by another width", "gemma3_text", {**_ATTENTION, "num_hidden_layers": 62,
        "query_pre_attn_scalar": 48, "num_attention_heads": 1, "num_key_value_heads": 1}),
    Case("gguf-phi3", "Phi-3-mini-4k", "phi3", {"sliding_window": 40, "num_key_value_heads": 6}),
    Case("gguf-phi4-mini", "Phi-4-mini", "phi3", {"num_attention_heads": 3, "num_key_value_heads": 1,
        "original_max_position_embeddings": 96, "tie_word_embeddings": True, "rope_parameters": {**longrope(6),
        "partial_rotary_factor": 0.75}}),
    Case("gguf-phi3-128k", "Phi-3-mini-128k, before and behind the border", "phi3", {"num_attention_heads": 3,
        "num_key_value_heads": 1, "original_max_position_embeddings": 96, "rope_parameters": longrope(8)}, prompt=60),
    Case("gguf-smollm3", "SmolLM3", "smollm3", {"num_hidden_layers": 5}),
    Case("gguf-granite", "Granite 3", "granite", {"embedding_multiplier": 6.0, "logits_scaling": 0.5, "residual_multiplier": 0.4,
        "attention_multiplier": 0.2, "tie_word_embeddings": True}),
    Case("gguf-minicpm", "MiniCPM", "granite", {"tie_word_embeddings": True}, stand_in="minicpm"),
    Case("gguf-internlm2", "InternLM2 up to its original context", "llama", {"head_dim": 8, "attention_bias": False},
        stand_in="internlm2"),
    Case("gguf-internlm3", "InternLM3", "llama", {"head_dim": 16}, stand_in="internlm3"),
    Case("gguf-glm4", "GLM-4-0414", "glm4", {"head_dim": 16, "partial_rotary_factor": 0.5, "attention_bias": True}),
    Case("gguf-olmo2", "OLMo 2", "olmo2"),
    Case("gguf-olmoe", "OLMoE", "olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 40}),
    Case("gguf-seed-oss", "Seed-OSS", "seed_oss", {"head_dim": 16}),
    Case("gguf-ernie4.5", "ERNIE 4.5", "ernie4_5", {"head_dim": 16}),
    Case("gguf-cohere", "Command R", "cohere", {"logit_scale": 0.6}),
)  # fmt: skip
"""Models that go through a GGUF file, as much of them as such a file can say."""
