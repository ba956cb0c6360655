"""What ``config.json`` says of the models of a family and of no other: a rule per family, behind what all have in common.

Those of older forms are in ``gpt_rules``, of mixtures of experts in ``expert_rules``, of running states in
``recurrent_rules``.
"""

from __future__ import annotations

from dataclasses import replace

from rknnlite.errors import ModelInvalid

from .config_fields import ConfigFields
from .container.architecture import Architecture, LayerKind, Mixer, Scales, Turn
from .container.family import Order
from .family_parts import (
    CONV,
    FULL,
    SLIDING,
    Rules,
    attention_bias,
    granite_scales,
    layer_types,
    layered,
    turned_in_windows,
    two_ropes,
    windows,
    windows_everywhere,
    windows_of_some,
)
from .gemma4_config import gemma4
from .rope_config import with_sections

__all__ = ["RULES", "lfm2"]

RULES = Rules()
rule = RULES.of


@rule("llama")
def _llama(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)  # others sum in pieces
    for unused in ("pixel_shuffle_factor", "perceiver_config"):  # of the encoder in front of SmolVLM's
        config.get(unused)
    arch = attention_bias(config, arch)
    return replace(arch, mlp_bias=config.flag("mlp_bias"))


@rule("qwen2")
def _qwen2(config: ConfigFields, arch: Architecture) -> Architecture:
    config.get("attention_bias")  # its queries, keys and values have biases whatever it says
    return windows_of_some(config, arch)


@rule("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text")
def _qwen2_vl(config: ConfigFields, arch: Architecture) -> Architecture:
    rope = with_sections(config, arch.rope, (16, 24, 24), interleaved=False)
    return _qwen2(config, replace(arch, rope=rope))


@rule("qwen3_vl_text")
def _qwen3_vl(config: ConfigFields, arch: Architecture) -> Architecture:
    rope = with_sections(config, arch.rope, (24, 20, 20), interleaved=True)
    return attention_bias(config, replace(arch, rope=rope))


@rule("qwen3")
def _qwen3(config: ConfigFields, arch: Architecture) -> Architecture:
    return windows_of_some(config, attention_bias(config, arch))


@rule("mistral", "starcoder2")
def _mistral(config: ConfigFields, arch: Architecture) -> Architecture:
    if arch.family == "starcoder2":
        biased = config.flag("use_bias", True)
        arch = replace(arch, qkv_bias=biased, out_bias=biased, mlp_bias=biased)
        config.only("norm_type", "layer_norm")
        config.only("mlp_type", "default")
    elif config.missing("sliding_window"):
        raise config.refusal(
            "sliding_window", "a mistral model without this field has windows of 4096; say null or a number"
        )
    return windows_everywhere(config, arch)


@rule("ministral")
def _ministral(config: ConfigFields, arch: Architecture) -> Architecture:
    return windows(
        config, arch, layer_types(config, arch, lambda _: config.get("sliding_window") is not None)
    )


@rule("gemma", "gemma2", "gemma3_text")
def _gemma(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = replace(attention_bias(config, arch), scales=Scales(embed=arch.hidden**0.5))
    if arch.family == "gemma":
        return arch
    second = arch.family == "gemma2"
    scales = Scales(
        embed=arch.hidden**0.5,
        score=config.positive("query_pre_attn_scalar", 256) ** -0.5,
        score_cap=config.real(
            "attn_logit_softcapping", 50.0 if second and config.missing("attn_logit_softcapping") else 0.0
        ),
        logit_cap=config.real(
            "final_logit_softcapping", 30.0 if second and config.missing("final_logit_softcapping") else 0.0
        ),
    )
    pattern = 2 if second else config.number("sliding_window_pattern", 6)
    types = layer_types(config, arch, lambda i: bool((i + 1) % pattern))
    if config.missing("sliding_window"):
        raise config.refusal("sliding_window", "say how many tokens a window has")
    arch = replace(windows(config, arch, types), scales=scales)
    return arch if second else two_ropes(config, arch, config.real("rope_local_base_freq", 10000.0))


rule("gemma4_text")(gemma4)


@rule("phi3")
def _phi3(config: ConfigFields, arch: Architecture) -> Architecture:
    config.get("original_max_position_embeddings")
    for fixed, value in (("full_attn_mod", 1), ("interpolate_factor", 1), ("lm_head_bias", False)):
        config.only(fixed, value)
    config.only("attention_bias", False)
    return windows_everywhere(config, arch)


@rule("smollm3")
def _smollm3(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = replace(attention_bias(config, arch), mlp_bias=config.flag("mlp_bias"))
    config.only("pretraining_tp", 1, 2)  # transformers has no such field for this family and sums as always
    every = config.number("no_rope_layer_interval", 4)
    turned = config.get("no_rope_layers", [int((i + 1) % every != 0) for i in range(arch.layers)])
    if not isinstance(turned, list) or len(turned) < arch.layers:
        raise ModelInvalid(f"config.json: no_rope_layers is {turned!r}, there are {arch.layers} layers")
    windowed = config.flag("use_sliding_window") and config.get("sliding_window") is not None
    config.get("max_window_layers")
    types = layer_types(config, arch, lambda i: windowed and not turned[i])
    arch = windows(config, arch, types)
    kinds = [replace(arch.kind(i), turn=Turn.MAIN if turned[i] else Turn.NONE) for i in range(arch.layers)]
    return layered(arch, kinds)


@rule("granite")
def _granite(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = replace(attention_bias(config, arch), mlp_bias=config.flag("mlp_bias"))
    return replace(arch, scales=granite_scales(config))


@rule("minicpm")
def _minicpm(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    scales = Scales(
        embed=config.real("scale_emb"),
        residual=config.real("scale_depth") / arch.layers**0.5,
        logit=config.real("dim_model_base") / arch.hidden,
    )
    return replace(attention_bias(config, arch), scales=scales)


@rule("internlm2")
def _internlm2(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    biased = config.flag("bias", True)
    return replace(arch, qkv_bias=biased, out_bias=biased)


@rule("internlm3")
def _internlm3(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    inside = config.flag("qkv_bias", config.flag("attention_bias"))
    others = config.flag("bias", config.flag("mlp_bias"))
    return replace(arch, qkv_bias=inside, out_bias=others, mlp_bias=others)


@rule("glm", "glm4")
def _glm(config: ConfigFields, arch: Architecture) -> Architecture:
    return attention_bias(config, arch, out=False, usual=True)


@rule("olmo2", "olmo3")
def _olmo(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = attention_bias(config, arch)
    if arch.family == "olmo2":
        return arch
    arch = windows(config, arch, layer_types(config, arch, lambda i: (i + 1) % 4 != 0))
    return two_ropes(config, arch, arch.rope.theta)


@rule("exaone4")
def _exaone4(config: ConfigFields, arch: Architecture) -> Architecture:
    pattern = config.get("sliding_window_pattern", 4)
    if config.get("sliding_window") is None:
        config.get("layer_types")
        return arch
    every = len(pattern) if isinstance(pattern, str) else int(pattern)
    last = arch.layers - 1 if isinstance(pattern, str) else arch.layers
    arch = windows(config, arch, layer_types(config, arch, lambda i: (i + 1) % every != 0 and i < last))
    return turned_in_windows(arch)


@rule("seed_oss")
def _seed_oss(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    arch = attention_bias(config, arch, usual=True)
    return replace(arch, out_bias=config.flag("attention_out_bias"), mlp_bias=config.flag("mlp_bias"))


@rule("ernie4_5")
def _ernie(config: ConfigFields, arch: Architecture) -> Architecture:
    biased = config.flag("use_bias")
    return replace(arch, qkv_bias=biased, out_bias=biased, mlp_bias=biased)


@rule("stablelm")
def _stablelm(config: ConfigFields, arch: Architecture) -> Architecture:
    parallel = config.flag("use_parallel_residual")
    config.only("qk_layernorm", False)
    config.only("rotary_scaling_factor", 1.0)
    order = Order.PARALLEL if parallel else Order.PRE
    return replace(arch, qkv_bias=config.flag("use_qkv_bias"), order=order)


@rule("cohere", "cohere2")
def _cohere(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("use_qk_norm", False)
    arch = replace(attention_bias(config, arch), scales=Scales(logit=config.real("logit_scale", 0.0625)))
    for fixed, value in (
        ("use_gated_activation", True),
        ("use_parallel_block", True),
        ("use_parallel_embedding", False),
    ):
        config.only(fixed, value)
    if arch.family == "cohere":
        return arch
    config.only("position_embedding_type", "rope_gptj")
    config.only("rotary_pct", 1.0)
    config.only("order_of_interleaved_layers", "local_attn_first")
    config.get("cache_implementation")
    every = config.number("sliding_window_pattern", config.get("layer_switch", 4))
    config.get("layer_switch")
    arch = windows(config, arch, layer_types(config, arch, lambda i: bool((i + 1) % every)))
    return turned_in_windows(arch)


@rule("lfm2")
def _lfm2(config: ConfigFields, arch: Architecture) -> Architecture:
    return lfm2(config, replace(arch, intermediate=_lfm2_width(config, arch)))


def _lfm2_width(config: ConfigFields, arch: Architecture) -> int:
    width = config.number("block_ff_dim", arch.intermediate)
    if config.flag("block_auto_adjust_ff_dim", True):
        multiple = config.number("block_multiple_of", 256)
        width = int(config.real("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
        width = multiple * -(-width // multiple)
    return width


def lfm2(config: ConfigFields, arch: Architecture) -> Architecture:
    """Convolutions in some layers, attention in the others."""
    full = config.get("full_attn_idxs", list(range(arch.layers)))
    types = layer_types(config, arch, lambda _: False, CONV)
    if config.get("layer_types") is None:
        types = [FULL if i in full else CONV for i in range(arch.layers)]
    if SLIDING in types:
        raise config.refusal("layer_types", "windows of this family are not computed")
    for unused in (
        "block_multiple_of",
        "block_ffn_dim_multiplier",
        "block_dim",
        "conv_dim",
        "conv_dim_out",
        "block_norm_eps",
    ):
        config.get(unused)
    for fixed in ("block_use_swiglu", "block_use_xavier_init", "conv_use_xavier_init", "use_pos_enc"):
        config.only(fixed, True)
    for initial in ("block_mlp_init_scale", "block_out_init_scale"):  # of training
        config.get(initial)
    config.only("num_heads", arch.heads)
    config.only("theta", arch.rope.theta)
    tied = config.flag("tie_embedding", arch.tied)
    kinds = [LayerKind(mixer=Mixer.CONV if kind == CONV else Mixer.ATTENTION) for kind in types]
    made = replace(
        arch,
        tied=tied,
        conv=config.number("conv_L_cache", 3),
        conv_bias=config.flag("conv_bias"),
    )
    return layered(made, kinds)


@rule("modernbert")
def _modernbert(config: ConfigFields, arch: Architecture) -> Architecture:
    biased = config.flag("attention_bias")
    arch = replace(
        arch,
        qkv_bias=biased,
        out_bias=biased,
        mlp_bias=config.flag("mlp_bias"),
        norm_bias=config.flag("norm_bias"),
        rope=replace(arch.rope, theta=config.real("global_rope_theta", arch.rope.theta)),
    )
    every = config.number("global_attn_every_n_layers", 3)
    types = layer_types(config, arch, lambda i: bool(i % every))
    half = config.number("local_attention", 128) // 2
    config.get("layer_norm_eps")
    arch = windows(config, arch, types, window=half + 1)
    arch = two_ropes(config, arch, config.real("local_rope_theta", 10000.0))
    config.only("position_embedding_type", "absolute", "sans_pos")  # of no consequence: they turn
    kinds = [replace(arch.kind(i), normed=i > 0) for i in range(arch.layers)]
    return layered(arch, kinds)
