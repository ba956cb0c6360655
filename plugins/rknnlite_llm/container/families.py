"""Families of language models: one row of ``FAMILIES`` for each, which export, reader and tokenizer go by.

What ``config.json`` says of a model of a family is read by ``rknnlite_llm.family_rules`` and its neighbours.
"""

from __future__ import annotations

from dataclasses import replace

from .family import LayerTensors, LlmFamily, Norm, Order, Pooling

__all__ = ["FAMILIES"]

_BERT = LayerTensors(
    score_dense="bert.pooler.dense",
    score_out="classifier",
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    out=("attention.output.dense",),
    gate_up=("intermediate.dense",),
    down=("output.dense",),
    norm1="attention.output.LayerNorm",
    norm2="output.LayerNorm",
)
_MODERN_BERT = LayerTensors(
    score_dense="head.dense",
    score_norm="head.norm",
    score_out="classifier",
    qkv=("attn.Wqkv",),
    out=("attn.Wo",),
    gate_up=("mlp.Wi",),
    down=("mlp.Wo",),
    norm1="attn_norm",
    norm2="mlp_norm",
)
_INTERN2 = LayerTensors(
    qkv=("attention.wqkv",),
    out=("attention.wo",),
    gate_up=("feed_forward.w1", "feed_forward.w3"),
    down=("feed_forward.w2",),
    norm1="attention_norm",
    norm2="ffn_norm",
)
_LFM2 = LayerTensors(
    out=("self_attn.out_proj",),
    gate_up=("feed_forward.w1", "feed_forward.w3"),
    down=("feed_forward.w2",),
    norm1="operator_norm",
    norm2="ffn_norm",
    q_norm="self_attn.q_layernorm",
    k_norm="self_attn.k_layernorm",
)
_SANDWICH = LayerTensors(norm2="pre_feedforward_layernorm")
_GLM = LayerTensors(gate_up=("mlp.gate_up_proj",))
_GLM4 = LayerTensors(
    gate_up=("mlp.gate_up_proj",), post1="post_self_attn_layernorm", post2="post_mlp_layernorm"
)
_PHI3 = LayerTensors(qkv=("self_attn.qkv_proj",), gate_up=("mlp.gate_up_proj",))
_MIXTRAL = LayerTensors(
    router="block_sparse_moe.gate",
    experts="block_sparse_moe.experts.",
    expert_gate_up=("w1", "w3"),
    expert_down=("w2",),
)
_PLAIN = LayerTensors(gate_up=("mlp.up_proj",))
_PHI = LayerTensors(out=("self_attn.dense",), gate_up=("mlp.fc1",), down=("mlp.fc2",))
_NEOX = LayerTensors(
    qkv=("attention.query_key_value",),
    out=("attention.dense",),
    gate_up=("mlp.dense_h_to_4h",),
    down=("mlp.dense_4h_to_h",),
)
_FALCON = replace(_NEOX, qkv=("self_attention.query_key_value",), out=("self_attention.dense",))
_GPT2 = LayerTensors(
    qkv=("attn.c_attn",),
    out=("attn.c_proj",),
    gate_up=("mlp.c_fc",),
    down=("mlp.c_proj",),
    norm1="ln_1",
    norm2="ln_2",
)
_OPT = LayerTensors(
    out=("self_attn.out_proj",),
    gate_up=("fc1",),
    down=("fc2",),
    norm1="self_attn_layer_norm",
    norm2="final_layer_norm",
)
_LFM2_MOE = replace(
    _LFM2,
    router="feed_forward.gate",
    router_correction="feed_forward.expert_bias",
    experts="feed_forward.experts.",
    expert_gate_up=("w1", "w3"),
    expert_down=("w2",),
)
_SHARED = LayerTensors(shared="mlp.shared_experts.")
_GRANITE_MOE = LayerTensors(
    router="block_sparse_moe.router.layer",
    expert_stacks=("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight"),
    shared="shared_mlp.",
    shared_gate_up=("input_linear",),
    shared_down=("output_linear",),
)
_GPT_OSS = LayerTensors(
    router="mlp.router",
    expert_stacks=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    stacks_turned=True,
)
_QWEN3_NEXT = LayerTensors(state_in=("in_proj_qkvz",), state_gates=("in_proj_ba",))
_GRANITE_HYBRID = replace(
    _GRANITE_MOE,
    gate_up=("shared_mlp.input_linear",),
    down=("shared_mlp.output_linear",),
    state="mamba.",
    state_in=("in_proj",),
    state_gates=(),
)
_HUNYUAN = LayerTensors(
    q_norm="self_attn.query_layernorm",
    k_norm="self_attn.key_layernorm",
    router="mlp.gate.wg",
    shared="mlp.shared_mlp.",
)
_STARCODER2 = LayerTensors(gate_up=("mlp.c_fc",), down=("mlp.c_proj",))


_ROBERTA = replace(_BERT, score_dense="classifier.dense", score_out="classifier.out_proj")


def _encoder(name: str, first_position: int = 0) -> LlmFamily:
    return LlmFamily(
        name,
        pre_tokenizer="",
        qkv_bias=True,
        tensors=_ROBERTA if first_position else _BERT,
        encoder=True,
        pooling=Pooling.MEAN,
        layers="encoder.layer.",
        table="embeddings.word_embeddings.weight",
        first_position=first_position,
        eps="layer_norm_eps",
        eps_default=1e-12,
        activations=("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu"),
        doubled_mark=first_position > 0,
    )


_GEMMA_GELU = ("gelu_pytorch_tanh", "gelu_new")


def _gemma(name: str, order: Order = Order.BOTH, qk_norm: bool = False, theta: float = 10000.0) -> LlmFamily:
    tensors = _SANDWICH if order is Order.BOTH else LayerTensors()
    return LlmFamily(
        name,
        pre_tokenizer="default",
        qk_norm=qk_norm,
        tensors=tensors,
        order=order,
        norm_offset=1.0,
        tied=True,
        theta=theta,
        activations=_GEMMA_GELU,
        head_dim=256,
    )


def _qwen_delta(name: str, tensors: LayerTensors = LayerTensors()) -> LlmFamily:
    """Gated delta nets in most layers, attention with a gate in the others."""
    return LlmFamily(
        name,
        pre_tokenizer="qwen2" if name == "qwen3_next" else "qwen35",
        qk_norm=True,
        tensors=tensors,
        norm_offset=1.0,
        turned=0.25,
        kv_heads=4 if name == "qwen3_5_text" else 2,
        head_dim=256,
        activations=("silu",),
    )


def _cohere(name: str, theta: float) -> LlmFamily:
    return LlmFamily(
        name,
        pre_tokenizer="command-r",
        norm=Norm.LAYER,
        order=Order.PARALLEL,
        tied=True,
        interleaved=True,
        theta=theta,
        eps="layer_norm_eps",
        eps_default=1e-5,
    )


def _falcon(name: str, tensors: LayerTensors) -> LlmFamily:
    """Models with a norm for each of two parallel halves call them otherwise."""
    return LlmFamily(
        name,
        pre_tokenizer="falcon",
        norm=Norm.LAYER,
        norm_bias=True,
        gated=False,
        tensors=tensors,
        tied=True,
        qkv_grouped=True,
        eps="layer_norm_eps",
        eps_default=1e-5,
        activations=("gelu", "gelu_new", "gelu_pytorch_tanh"),
        layers="h.",
        table="word_embeddings.weight",
        final="ln_f",
        renamed=(
            ("num_kv_heads", "num_key_value_heads"),
            ("n_head_kv", "num_key_value_heads"),
            ("n_head", "num_attention_heads"),
            ("n_layer", "num_hidden_layers"),
            ("n_embed", "hidden_size"),
            ("ffn_hidden_size", "intermediate_size"),
            ("activation", "hidden_act"),
            ("layer_norm_epsilon", "layer_norm_eps"),
        ),
    )


_ROWS = (
    LlmFamily("qwen2", pre_tokenizer="qwen2", qkv_bias=True),
    LlmFamily("qwen3", pre_tokenizer="qwen2", qk_norm=True),
    LlmFamily("qwen2_moe", pre_tokenizer="qwen2", qkv_bias=True),
    LlmFamily("qwen3_moe", pre_tokenizer="qwen2", qk_norm=True),
    LlmFamily("qwen2_vl_text", pre_tokenizer="qwen2", qkv_bias=True, theta=1e6, eps_default=1e-5, kv_heads=8),
    LlmFamily("qwen2_5_vl_text", pre_tokenizer="qwen2", qkv_bias=True, theta=1e6, eps_default=1e-5, kv_heads=8),
    LlmFamily("qwen3_vl_text", pre_tokenizer="qwen2", qk_norm=True, theta=5e5, kv_heads=32, head_dim=128),
    LlmFamily("qwen2_5_omni_text", pre_tokenizer="qwen2", qkv_bias=True, theta=1e6, kv_heads=4),
    LlmFamily("llama", pre_tokenizer="llama-bpe"),
    LlmFamily("mistral", pre_tokenizer="llama-bpe", kv_heads=8),
    LlmFamily("ministral", pre_tokenizer="tekken", kv_heads=8),
    LlmFamily(
        "mixtral", pre_tokenizer="llama-bpe", tensors=_MIXTRAL, theta=1e6, eps_default=1e-5, kv_heads=8
    ),
    _gemma("gemma", Order.PRE),
    _gemma("gemma2"),
    _gemma("gemma3_text", qk_norm=True, theta=1e6),
    replace(
        _gemma("gemma4_text", qk_norm=True, theta=1e6), norm_offset=0.0, activations=_GEMMA_GELU,
        tensors=replace(
            _SANDWICH, router="router.proj", expert_stacks=("experts.gate_up_proj", "experts.down_proj"), shared="mlp.",
        ),
    ),
    LlmFamily("phi3", pre_tokenizer="gpt-4o", tensors=_PHI3, eps_default=1e-5),
    LlmFamily("smollm3", pre_tokenizer="default", tied=True, theta=2e6, kv_heads=4),
    LlmFamily("granite", pre_tokenizer="refact"),
    LlmFamily("minicpm", pre_tokenizer="default", tied=True),
    LlmFamily(
        "internlm2", pre_tokenizer="default", tensors=_INTERN2, qkv_grouped=True, table="tok_embeddings.weight",
        head="output.weight",
    ),
    LlmFamily("internlm3", pre_tokenizer="default", eps_default=1e-5, kv_heads=2, head_dim=128),
    LlmFamily(
        "glm", pre_tokenizer="chatglm-bpe", tensors=_GLM, turned=0.5, interleaved=True, eps_default=1.5625e-7, kv_heads=2,
        head_dim=128,
    ),
    LlmFamily(
        "glm4", pre_tokenizer="chatglm-bpe", tensors=_GLM4, order=Order.BOTH, turned=0.5, interleaved=True,
        eps_default=1.5625e-7, kv_heads=2, head_dim=128,
    ),
    LlmFamily("olmo2", pre_tokenizer="default", qk_norm=True, qk_norm_whole=True, order=Order.POST, eps_default=1e-5),
    LlmFamily(
        "olmo3", pre_tokenizer="default", qk_norm=True, qk_norm_whole=True, order=Order.POST, theta=5e5, eps_default=1e-5
    ),
    LlmFamily("olmoe", pre_tokenizer="olmo", qk_norm=True, qk_norm_whole=True, eps_default=1e-5),
    LlmFamily("exaone4", pre_tokenizer="exaone4", qk_norm=True, order=Order.POST, eps_default=1e-5),
    LlmFamily("seed_oss", pre_tokenizer="seed-coder", kv_heads=8, head_dim=128),
    LlmFamily("ernie4_5", pre_tokenizer="default", tied=True, interleaved=True, theta=5e5, eps_default=1e-5),
    LlmFamily(
        "stablelm", pre_tokenizer="stablelm2", norm=Norm.LAYER, norm_bias=True, turned=0.25, eps="layer_norm_eps",
        eps_default=1e-5,
    ),
    LlmFamily(
        "starcoder2", pre_tokenizer="starcoder", norm=Norm.LAYER, norm_bias=True, gated=False, tensors=_STARCODER2, tied=True,
        eps="norm_epsilon", eps_default=1e-5, kv_heads=2, activations=("gelu_pytorch_tanh", "gelu", "gelu_new", "gelu_fast"),
    ),
    LlmFamily(
        "arcee", pre_tokenizer="llama-bpe", gated=False, tensors=_PLAIN, activations=("relu2",), eps_default=1e-5
    ),
    LlmFamily(
        "nemotron", pre_tokenizer="default", norm=Norm.LAYER, norm_bias=True, norm_offset=1.0, gated=False, tensors=_PLAIN,
        turned=0.5, activations=("relu2",), eps="norm_eps", eps_default=1e-5,
    ),
    LlmFamily(
        "phi", pre_tokenizer="default", norm=Norm.LAYER, norm_bias=True, order=Order.PARALLEL, gated=False, tensors=_PHI,
        qkv_bias=True, turned=0.5, activations=("gelu_new", "gelu_pytorch_tanh", "gelu", "gelu_fast"), eps="layer_norm_eps",
        eps_default=1e-5, final="final_layernorm", head_bias=True,
    ),
    LlmFamily(
        "gpt_neox", pre_tokenizer="olmo", norm=Norm.LAYER, norm_bias=True, order=Order.SIDES, gated=False, tensors=_NEOX,
        qkv_grouped=True, turned=0.25, eps="layer_norm_eps", eps_default=1e-5, table="embed_in.weight", final="final_layer_norm",
        head="embed_out.weight", activations=("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu"),
        renamed=(("rotary_pct", "partial_rotary_factor"), ("rotary_emb_base", "rope_theta")),
    ),
    _falcon("falcon", _FALCON),
    _falcon("falcon-sides", replace(_FALCON, norm1="ln_attn", norm2="ln_mlp")),
    LlmFamily(
        "gpt2", pre_tokenizer="gpt-2", norm=Norm.LAYER, norm_bias=True, gated=False, tensors=_GPT2, qkv_bias=True, tied=True,
        transposed=True, layers="h.", table="wte.weight", positions="wpe.weight", final="ln_f", eps="layer_norm_eps",
        eps_default=1e-5, activations=("gelu_new", "gelu", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu"),
        renamed=(
            ("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads"),
            ("n_inner", "intermediate_size"), ("n_positions", "max_position_embeddings"), ("activation_function", "hidden_act"),
            ("layer_norm_epsilon", "layer_norm_eps"),
        ),
    ),
    LlmFamily(
        "opt", pre_tokenizer="gpt-2", norm=Norm.LAYER, norm_bias=True, gated=False, tensors=_OPT, tied=True,
        positions="embed_positions.weight", first_position=2, final="final_layer_norm", eps="layer_norm_eps", eps_default=1e-5,
        activations=("relu", "gelu", "gelu_new"),
        renamed=(("ffn_dim", "intermediate_size"), ("activation_function", "hidden_act")),
    ),
    LlmFamily(
        "apertus", pre_tokenizer="tekken", qk_norm=True, gated=False, activations=("xielu",), theta=12e6, eps_default=1e-5,
        tensors=replace(_PLAIN, norm1="attention_layernorm", norm2="feedforward_layernorm"),
    ),
    LlmFamily("ministral3", pre_tokenizer="tekken", kv_heads=8, head_dim=128, theta=1e6, eps_default=1e-5),
    LlmFamily("hunyuan_v1_dense", pre_tokenizer="hunyuan-dense", qk_norm=True, tensors=_HUNYUAN, eps_default=1e-5),
    LlmFamily("hunyuan_v1_moe", pre_tokenizer="hunyuan", qk_norm=True, tensors=_HUNYUAN, eps_default=1e-5),
    LlmFamily("granitemoe", pre_tokenizer="refact", tensors=_GRANITE_MOE),
    LlmFamily("granitemoeshared", pre_tokenizer="refact", tensors=_GRANITE_MOE),
    LlmFamily(
        "glm4_moe", pre_tokenizer="chatglm-bpe", tensors=_SHARED, turned=0.5, eps_default=1e-5, kv_heads=8, guessing=True,
    ),
    LlmFamily(
        "ernie4_5_moe", pre_tokenizer="default", tied=True, interleaved=True, theta=5e5, eps_default=1e-5, kv_heads=4,
        tensors=replace(_SHARED, router_correction="mlp.moe_statics.e_score_correction_bias"),
    ),
    LlmFamily(
        "lfm2_moe", pre_tokenizer="lfm2", qk_norm=True, tensors=_LFM2_MOE, tied=True, theta=1e6, eps="norm_eps",
        eps_default=1e-5, final="embedding_norm", kv_heads=8,
    ),
    LlmFamily(
        "phimoe", pre_tokenizer="default", norm=Norm.LAYER, norm_bias=True, tensors=_MIXTRAL, theta=1e6, eps_default=1e-5,
        kv_heads=8,
    ),
    LlmFamily(
        "gpt_oss", pre_tokenizer="gpt-4o", qkv_bias=True, tensors=_GPT_OSS, activations=("silu",), theta=150000.0,
        eps_default=1e-5, kv_heads=8, head_dim=64,
    ),
    LlmFamily("deepseek_v2", pre_tokenizer="deepseek-llm", tensors=_SHARED, interleaved=True, guessing=True),
    LlmFamily("deepseek_v3", pre_tokenizer="deepseek-v3", tensors=_SHARED, interleaved=True, guessing=True),
    _qwen_delta("qwen3_next", _QWEN3_NEXT),
    _qwen_delta("qwen3_5_text"),
    _qwen_delta("qwen3_5_moe_text"),
    LlmFamily("granitemoehybrid", pre_tokenizer="refact", tensors=_GRANITE_HYBRID, activations=("silu",)),
    _cohere("cohere", 5e5),
    _cohere("cohere2", 1e4),
    LlmFamily(
        "lfm2", pre_tokenizer="lfm2", qk_norm=True, tensors=_LFM2, tied=True, theta=1e6, eps="norm_eps", eps_default=1e-5,
        final="embedding_norm", kv_heads=8,
    ),
    _encoder("bert"),
    _encoder("xlm-roberta", first_position=2),
    _encoder("roberta", first_position=2),
    LlmFamily(
        "modernbert", pre_tokenizer="", norm=Norm.LAYER, tensors=_MODERN_BERT, causal=False, pooling=Pooling.CLS, tied=True,
        table="embeddings.tok_embeddings.weight", score_activation="gelu", embed_norm="embeddings.norm",
        theta=160000.0, eps="norm_eps", eps_default=1e-5,
        activations=("gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "silu"), final="final_norm",
    ),
)  # fmt: skip
FAMILIES = {family.name: family for family in _ROWS}
"""All families that are computed here, by name."""
