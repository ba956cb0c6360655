"""Rules of families with mixtures of experts."""

from __future__ import annotations

from dataclasses import replace

from .config_fields import ConfigFields
from .container.architecture import CLAMPED_SWIGLU, Architecture, Experts, Router
from .family_parts import (
    SLIDING,
    Rules,
    attention_bias,
    granite_scales,
    layer_types,
    windows,
    windows_everywhere,
    with_experts,
)
from .family_rules import lfm2
from .latent_config import latent_attention

__all__ = ["RULES"]

RULES = Rules()
rule = RULES.of


@rule("qwen2_moe", "qwen3_moe")
def _qwen_moe(config: ConfigFields, arch: Architecture) -> Architecture:
    if arch.family == "qwen2_moe":
        arch = replace(arch, qkv_bias=config.flag("qkv_bias", True))
    else:
        arch = attention_bias(config, arch)
    config.only("use_sliding_window", False)
    for unused in ("sliding_window", "max_window_layers"):
        config.get(unused)
    if SLIDING in layer_types(config, arch, lambda _: False):
        raise config.refusal("layer_types", "windows of this family are not computed")
    step, dense = config.number("decoder_sparse_step", 1), config.get("mlp_only_layers", [])
    count = config.get("num_local_experts")
    experts = Experts(
        count=config.number("num_experts", count or (128 if arch.family == "qwen3_moe" else 60)),
        used=config.number("num_experts_per_tok", 8 if arch.family == "qwen3_moe" else 4),
        intermediate=config.number("moe_intermediate_size", 768 if arch.family == "qwen3_moe" else 1408),
        normalise=config.flag("norm_topk_prob"),
        shared=config.number("shared_expert_intermediate_size", 5632) if arch.family == "qwen2_moe" else 0,
    )
    return with_experts(config, arch, experts, lambda i: i not in dense and (i + 1) % step == 0)


@rule("mixtral")
def _mixtral(config: ConfigFields, arch: Architecture) -> Architecture:
    experts = Experts(
        count=config.number("num_local_experts", config.get("num_experts", 8)),
        used=config.number("num_experts_per_tok", 2),
        intermediate=arch.intermediate,
        normalise=True,
    )
    return with_experts(config, windows_everywhere(config, arch), experts, lambda _: True)


@rule("olmoe")
def _olmoe(config: ConfigFields, arch: Architecture) -> Architecture:
    experts = Experts(
        count=config.number("num_experts", config.get("num_local_experts", 64)),
        used=config.number("num_experts_per_tok", 8),
        intermediate=arch.intermediate,
        normalise=config.flag("norm_topk_prob"),
    )
    return with_experts(config, attention_bias(config, arch), experts, lambda _: True)


@rule("granitemoe", "granitemoeshared")
def _granitemoe(config: ConfigFields, arch: Architecture) -> Architecture:
    shared = config.count("shared_intermediate_size", 0) if arch.family == "granitemoeshared" else 0
    experts = Experts(
        count=config.number("num_local_experts", 8),
        used=config.number("num_experts_per_tok", 2),
        intermediate=arch.intermediate,
        normalise=True,
        shared=config.number("shared_intermediate_size") if shared else 0,
        shared_gated=False,
    )
    arch = replace(attention_bias(config, arch), scales=granite_scales(config))
    return with_experts(config, arch, experts, lambda _: True)


@rule("glm4_moe")
def _glm4_moe(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = replace(attention_bias(config, arch, out=False), qk_norm=config.flag("use_qk_norm"))
    config.get("num_nextn_predict_layers")  # further layers, which guess tokens ahead
    first, width = config.count("first_k_dense_replace", 1), config.number("moe_intermediate_size", 1408)
    experts = replace(_grouped(config, width), shared=width * config.number("n_shared_experts", 1))
    return with_experts(config, arch, experts, lambda i: i >= first)


def _grouped(config: ConfigFields, width: int) -> Experts:
    """Routing by sigmoids, a correction and groups, as DeepSeek-V3 has it."""
    config.only("topk_method", "noaux_tc")
    return Experts(
        count=config.number("n_routed_experts", 128),
        used=config.number("num_experts_per_tok", 8),
        intermediate=width,
        normalise=config.flag("norm_topk_prob", True),
        shared_gated=False,
        router=Router.SIGMOID,
        corrected=True,
        groups=config.number("n_group", 1),
        groups_used=config.number("topk_group", 1),
        scale=config.real("routed_scaling_factor", 1.0),
        small=1e-20,
    )


@rule("ernie4_5_moe")
def _ernie(config: ConfigFields, arch: Architecture) -> Architecture:
    biased = config.flag("use_bias")
    width, last = config.number("moe_intermediate_size", 1536), config.get("moe_layer_end_index", -1)
    first, step = config.count("moe_layer_start_index", 1), config.number("moe_layer_interval", 1)
    last = arch.layers - 1 if last == -1 else last
    config.get("moe_norm_min")  # of the sum of shares; what is used is never as small
    experts = Experts(
        count=config.number("moe_num_experts", 64),
        used=config.number("moe_k", 6),
        intermediate=width,
        normalise=True,
        shared=width * config.count("moe_num_shared_experts", 2),
        shared_gated=False,
        corrected=True,
    )
    arch = replace(arch, qkv_bias=biased, out_bias=biased, mlp_bias=biased)
    return with_experts(config, arch, experts, lambda i: (i + 1) % step == 0 and first <= i <= last)


@rule("lfm2_moe")
def _lfm2_moe(config: ConfigFields, arch: Architecture) -> Architecture:
    first = config.count("num_dense_layers", 2)
    experts = Experts(
        count=config.number("num_experts", 32),
        used=config.number("num_experts_per_tok", 4),
        intermediate=config.number("moe_intermediate_size", 1792),
        normalise=config.flag("norm_topk_prob", True),
        router=Router.SIGMOID,
        corrected=config.flag("use_expert_bias", True),
        scale=config.real("routed_scaling_factor", 1.0),
        small=1e-6,
    )
    return with_experts(config, lfm2(config, arch), experts, lambda i: i >= first)


@rule("hunyuan_v1_moe")
def _hunyuan_moe(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    config.get("eod_token_id")
    experts = Experts(
        count=config.number("num_experts", 1),
        used=config.number("moe_topk", 1),
        intermediate=arch.intermediate,
        normalise=True,
        shared=arch.intermediate,
        shared_gated=False,
    )
    arch = replace(attention_bias(config, arch), qk_norm_turned=True)
    return with_experts(config, arch, experts, lambda _: True)


@rule("phimoe")
def _phimoe(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("sliding_window", None)
    config.only("input_jitter_noise", 0.0)
    experts = Experts(
        count=config.number("num_local_experts", 16),
        used=config.number("num_experts_per_tok", 2),
        intermediate=arch.intermediate,
        normalise=False,
        router=Router.SPARSE_MIXER,
        jitter=config.real("router_jitter_noise", 0.01),
    )
    arch = replace(attention_bias(config, arch), head_bias=config.flag("lm_head_bias"))
    return with_experts(config, arch, experts, lambda _: True)


@rule("gpt_oss")
def _gpt_oss(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("swiglu_alpha", 1.702)
    config.only("swiglu_limit", 7.0)
    for unused in ("experts_per_token", "initial_context_length"):  # said once more in other words
        config.get(unused)
    arch = attention_bias(config, arch, usual=True)
    experts = Experts(
        count=config.number("num_local_experts", 128),
        used=config.number("num_experts_per_tok", 4),
        intermediate=arch.intermediate,
        normalise=True,
        biased=True,
    )
    arch = windows(config, arch, layer_types(config, arch, lambda i: i % 2 == 0))
    arch = replace(arch, activation=CLAMPED_SWIGLU, sinks=True)
    return with_experts(config, arch, experts, lambda _: True)


@rule("deepseek_v2", "deepseek_v3")
def _deepseek(config: ConfigFields, arch: Architecture) -> Architecture:
    third = arch.family == "deepseek_v3"
    for fixed, value in (("pretraining_tp", 1), ("moe_layer_freq", 1), ("seq_aux", True), ("ep_size", 1)):
        config.only(fixed, value)
    for unused in ("aux_loss_alpha", "num_nextn_predict_layers", "head_dim", "qk_head_dim"):
        config.get(unused)
    config.only("rope_interleave", True)
    config.only("scoring_func", "sigmoid" if third else "softmax")
    arch = latent_attention(config, attention_bias(config, arch))
    width = config.number("moe_intermediate_size", 2048 if third else 1407)
    first = config.count("first_k_dense_replace", 3 if third else 0)
    experts = _grouped(config, width) if third else _of_v2(config, width)
    experts = replace(experts, shared=width * config.number("n_shared_experts", 1 if third else 2))
    return with_experts(config, arch, experts, lambda i: i >= first)


def _of_v2(config: ConfigFields, width: int) -> Experts:
    method = config.get("topk_method", "greedy")
    config.only("topk_method", "greedy", "group_limited_greedy")
    config.only("norm_topk_prob", False)
    groups, used = config.get("n_group", 1), config.get("topk_group", 1)
    limited = method == "group_limited_greedy"
    return Experts(
        count=config.number("n_routed_experts", 64),
        used=config.number("num_experts_per_tok"),
        intermediate=width,
        normalise=False,
        shared_gated=False,
        groups=groups if limited else 1,
        groups_used=used if limited else 1,
        group_best=1,
        scale=config.real("routed_scaling_factor", 1.0),
    )
