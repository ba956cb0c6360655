"""Rules of families whose layers are not a Llama's: other norms, networks without gate, learnt positions."""

from __future__ import annotations

from dataclasses import replace

from .config_fields import ConfigFields
from .container.architecture import Architecture
from .container.family import Order
from .family_parts import Rules, attention_bias, windows_everywhere

__all__ = ["RULES"]

RULES = Rules()
rule = RULES.of


@rule("arcee", "nemotron")
def _arcee(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    return replace(attention_bias(config, arch), mlp_bias=config.flag("mlp_bias"))


@rule("phi")
def _phi(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("qk_layernorm", False)
    return replace(arch, out_bias=True, mlp_bias=True)


@rule("gpt_neox")
def _gpt_neox(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = attention_bias(config, arch, usual=True)
    order = Order.SIDES if config.flag("use_parallel_residual", True) else Order.PRE
    return replace(arch, mlp_bias=True, order=order)


@rule("falcon")
def _falcon(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("alibi", False)
    biased, grouped = config.flag("bias"), config.flag("new_decoder_architecture")
    parallel = config.flag("parallel_attn", True)
    config.get("rotary")
    norms = config.number("num_ln_in_parallel_attn", 2 if grouped else 1)
    alone = 1 if config.flag("multi_query", True) else arch.heads
    order = (Order.SIDES if norms == 2 else Order.PARALLEL) if parallel else Order.PRE
    if (order is Order.SIDES and not grouped) or (order is Order.PRE and grouped):
        raise config.refusal(
            "new_decoder_architecture", f"not with parallel_attn {parallel} and {norms} norms"
        )
    return replace(
        arch,
        family="falcon-sides" if order is Order.SIDES else arch.family,
        kv_heads=arch.kv_heads if grouped else alone,
        qkv_bias=biased,
        out_bias=biased,
        mlp_bias=biased,
        order=order,
    )


@rule("gpt2")
def _gpt2(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("scale_attn_weights", True)
    config.only("scale_attn_by_inverse_layer_idx", False)
    for unused in ("n_ctx", "reorder_and_upcast_attn", "attn_pdrop"):
        config.get(unused)
    return replace(arch, out_bias=True, mlp_bias=True)


@rule("opt")
def _opt(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("do_layer_norm_before", True)
    config.only("_remove_final_layer_norm", False)
    config.only("word_embed_proj_dim", arch.hidden)
    config.only("layer_norm_elementwise_affine", True)
    for unused in ("dropout", "layerdrop", "init_std"):
        config.get(unused)
    biased = config.flag("enable_bias", True)
    return replace(arch, qkv_bias=biased, out_bias=biased, mlp_bias=biased)


@rule("apertus")
def _apertus(config: ConfigFields, arch: Architecture) -> Architecture:
    return attention_bias(config, arch)


@rule("ministral3")
def _ministral3(config: ConfigFields, arch: Architecture) -> Architecture:
    given = config.child("rope_parameters")
    if config.missing("rope_parameters"):
        raise config.refusal("rope_parameters", "say how far the model was trained")
    given.get("max_position_embeddings")
    growth = given.real("llama_4_scaling_beta", 0.0)
    if growth:
        trained = given.number("original_max_position_embeddings")
        arch = replace(arch, rope=replace(arch.rope, growth=growth, original_max_position=trained))
    return windows_everywhere(config, arch)


@rule("hunyuan_v1_dense")
def _hunyuan(config: ConfigFields, arch: Architecture) -> Architecture:
    config.only("pretraining_tp", 1)
    config.get("eod_token_id")
    return replace(attention_bias(config, arch), qk_norm_turned=True)
