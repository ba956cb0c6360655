"""Rules of families with running states: gated delta nets and Mamba2 in most of their layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported

from .config_fields import ConfigFields
from .container.architecture import (
    LONGEST_CONV,
    Architecture,
    Experts,
    LayerKind,
    Mixer,
    Rope,
    Turn,
)
from .container.recurrence import Recurrence
from .family_parts import FULL, Rules, attention_bias, granite_scales, layered, with_experts
from .rope_config import with_sections

__all__ = ["RULES"]

RULES = Rules()
rule = RULES.of
_LINEAR = "linear_attention"
_MOST = 1024
"""Heads, and channels of one, that a package describes."""


def _mixers(config: ConfigFields, arch: Architecture, usual: list[str], mixer: Mixer) -> Architecture:
    """``layer_types`` by the words of new files; ``usual`` where they are missing."""
    types: Any = config.get("layer_types", usual)
    if not isinstance(types, list) or len(types) != arch.layers:
        raise ModelInvalid(f"config.json: layer_types names {types!r}, there are {arch.layers} layers")
    words = {_LINEAR: mixer, FULL: Mixer.ATTENTION}
    if mixer is Mixer.MAMBA:
        words.update(mamba=mixer, attention=Mixer.ATTENTION)
    if not all(isinstance(word, str) and word in words for word in types):
        raise config.refusal("layer_types", f"layers are {', '.join(words)}")
    return replace(arch, each_layer=tuple(LayerKind(mixer=words[word]) for word in types))


def _check(form: Recurrence, what: str) -> None:
    if form.heads % form.groups:
        raise ModelInvalid(f"config.json: {form.heads} heads of {what} cannot share {form.groups} keys")
    if max(form.heads, form.key, form.value) > _MOST or not 2 <= form.taps <= LONGEST_CONV:
        raise ModelUnsupported(
            f"config.json: {what} of {form.heads} heads, keys of {form.key} and values of {form.value} channels, behind "
            f"{form.taps} taps; computed are up to {_MOST}, and 2 to {LONGEST_CONV} taps"
        )


def _deltas(config: ConfigFields, arch: Architecture) -> Architecture:
    """Gated delta nets, and attention with a gate."""
    form = Recurrence(
        heads=config.number("linear_num_value_heads", 32),
        groups=config.number("linear_num_key_heads", 16),
        key=config.number("linear_key_head_dim", 128),
        value=config.number("linear_value_head_dim", 128),
        taps=config.number("linear_conv_kernel_dim", 4),
    )
    _check(form, "gated delta nets")
    config.only("attn_output_gate", True)
    config.only("mamba_ssm_dtype", "float32")
    for guessing in ("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"):  # layers that guess tokens
        config.get(guessing)
    every = config.number("full_attention_interval", 4)
    usual = [FULL if (i + 1) % every == 0 else _LINEAR for i in range(arch.layers)]
    made = replace(attention_bias(config, arch), recurrence=form, attention_gate=True)
    return _mixers(config, made, usual, Mixer.DELTA)


def _with_experts(config: ConfigFields, arch: Architecture, count: int, used: int) -> Architecture:
    step, dense = config.number("decoder_sparse_step", 1), config.get("mlp_only_layers", [])
    if not isinstance(dense, list):
        raise config.refusal("mlp_only_layers", "it is a list of layers")
    if config.get("num_experts") == 0:
        return arch
    experts = Experts(
        count=config.number("num_experts", count),
        used=config.number("num_experts_per_tok", used),
        intermediate=config.number("moe_intermediate_size", 512),
        normalise=config.flag("norm_topk_prob", True),
        shared=config.number("shared_expert_intermediate_size", 512),
    )
    return with_experts(config, arch, experts, lambda i: i not in dense and (i + 1) % step == 0)


@rule("qwen3_next")
def _qwen3_next(config: ConfigFields, arch: Architecture) -> Architecture:
    return _with_experts(config, _deltas(config, arch), 512, 10)


@rule("qwen3_5_text", "qwen3_5_moe_text")
def _qwen3_5(config: ConfigFields, arch: Architecture) -> Architecture:
    arch = replace(arch, rope=_fitted(with_sections(config, arch.rope, (11, 11, 10), True), arch.head_dim))
    arch = _deltas(config, arch)
    if arch.family == "qwen3_5_text":
        config.only("mlp_only_layers", [])
        return arch
    return _with_experts(config, arch, 256, 8)


def _fitted(rope: Rope, head_dim: int) -> Rope:
    """Its sections as far as there are pairs: heights and widths take turns with the others, which go by time."""
    pairs = (rope.dims or head_dim) // 2
    if not all(0 <= section <= pairs for section in rope.sections[1:]):
        raise ModelInvalid(f"config.json: mrope_section is {list(rope.sections)}, a head has {pairs} pairs")
    sides = [len(range(axis, min(3 * rope.sections[axis], pairs), 3)) for axis in (1, 2)]
    return replace(rope, sections=(pairs - sum(sides), *sides))


@rule("granitemoehybrid")
def _granite(config: ConfigFields, arch: Architecture) -> Architecture:
    heads = config.number("mamba_n_heads", 128)
    inner = config.number("mamba_expand", 2) * arch.hidden
    value = inner // heads if config.get("mamba_d_head", "auto") == "auto" else config.number("mamba_d_head")
    if heads * value != inner:
        raise ModelInvalid(f"config.json: {heads} heads of Mamba2 with {value} channels are not {inner}")
    form = Recurrence(
        heads=heads,
        groups=config.number("mamba_n_groups", 1),
        key=config.number("mamba_d_state", 256),
        value=value,
        taps=config.number("mamba_d_conv", 4),
        conv_bias=config.flag("mamba_conv_bias", True),
        biased=config.flag("mamba_proj_bias"),
    )
    _check(form, "Mamba2")
    config.get("mamba_chunk_size")  # tokens that are computed at a time
    config.only("time_step_limit", [0.0, {"__float__": "Infinity"}], [0.0, float("inf")])
    config.only("position_embedding_type", "rope", "nope")
    arch = replace(attention_bias(config, arch), scales=granite_scales(config), recurrence=form)
    arch = _mixers(config, arch, [_LINEAR] * arch.layers, Mixer.MAMBA)
    if config.get("position_embedding_type") != "rope":
        arch = layered(arch, [replace(kind, turn=Turn.NONE) for kind in arch.each_layer])
    shared = config.number("shared_intermediate_size", 1024)
    if config.get("num_local_experts", 8) == 0:
        config.get("num_experts_per_tok")
        return replace(arch, intermediate=shared)
    experts = Experts(
        count=config.number("num_local_experts", 8),
        used=config.number("num_experts_per_tok", 2),
        intermediate=arch.intermediate,
        normalise=True,
        shared=shared,
        shared_gated=False,
    )
    return with_experts(config, arch, experts, lambda _: True)
