"""``config.json`` of a Hugging Face model -> ``Architecture``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from . import expert_rules, family_rules, gpt_rules, recurrent_rules
from .config_fields import ConfigFields
from .container.architecture import Turn
from .container.description import Architecture, Rope
from .container.families import FAMILIES
from .container.family import LlmFamily
from .family_parts import layered
from .multimodal_config import COMPOSED, language_part
from .rope_config import rope_of

__all__ = ["architecture"]

RULES = {**family_rules.RULES, **gpt_rules.RULES, **expert_rules.RULES, **recurrent_rules.RULES}
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "xielu": "xielu",
}
"""Activations as ``config.json`` spells them -> as a package does."""


def architecture(config: Mapping[str, Any], head: bool = True) -> Architecture:
    """What the model needs to be computed, with its head if it has one that is wanted.

    Raises ModelUnsupported naming what is not computed here; every field that may change numbers is understood, or refused.
    """
    try:
        return _architecture(config, head)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise ModelInvalid(
            f"config.json or a file beside it is damaged: {type(error).__name__}: {error}"
        ) from None


def _architecture(config: Mapping[str, Any], head: bool) -> Architecture:
    part = language_part(config)
    family = _family(part.config)
    usual = dict(family.renamed)
    theirs = sorted(
        part.config.items(), key=lambda item: item[0] in usual
    )  # a family's own word for a thing counts
    settings = ConfigFields({usual.get(key, key): value for key, value in theirs}, part.where)
    made = _encoder(settings, family) if family.encoder else _decoder(settings, family)
    settings.finish()
    return replace(made, head=head and made.causal and not family.encoder, media=part.media)


def _decoder(config: ConfigFields, family: LlmFamily) -> Architecture:
    heads, hidden = config.number("num_attention_heads"), config.number("hidden_size")
    width = 4 * hidden if family.renamed else None
    if width is None and config.missing("intermediate_size"):  # where all layers have experts
        width = config.get("moe_intermediate_size")
    arch = Architecture(
        family=family.name,
        hidden=hidden,
        intermediate=config.number("intermediate_size", width),
        layers=config.number("num_hidden_layers"),
        heads=heads,
        kv_heads=config.number(
            "num_key_value_heads", _usual(config, "num_key_value_heads", family.kv_heads) or heads
        ),
        head_dim=config.number("head_dim", _usual(config, "head_dim", family.head_dim) or hidden // heads),
        vocab_size=config.number("vocab_size"),
        max_position=config.number("max_position_embeddings", 2048),
        rms_eps=config.real(family.eps, family.eps_default),
        qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm,
        tied=config.flag("tie_word_embeddings", family.tied),
        rope=Rope(),
        activation=_activation(config, family),
        norm=family.norm,
        norm_bias=family.norm_bias,
        order=family.order,
        gated=family.gated,
        qk_norm_whole=family.qk_norm_whole,
        causal=family.causal,
        head_bias=family.head_bias,
        positions=bool(family.positions),
        embed_norm=bool(family.embed_norm),
    )
    arch = replace(arch, rope=rope_of(config, arch, family))
    arch = RULES[family.name](config, arch) if family.name in RULES else arch
    if arch.positions:
        arch = layered(arch, [replace(arch.kind(i), turn=Turn.NONE) for i in range(arch.layers)])
    if arch.rope.scaling == "dynamic":  # frequencies follow the length beyond what the file calls the longest
        arch = replace(arch, max_position=int(arch.max_position * arch.rope.factor))
    return arch


def _usual(config: ConfigFields, key: str, default: int) -> int:
    """The family's default for a field that is missing; null has another meaning."""
    return default if config.missing(key) else 0


def _encoder(config: ConfigFields, family: LlmFamily) -> Architecture:
    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute" or config.get("is_decoder") or config.get("add_cross_attention"):
        raise ModelUnsupported(
            f"a {family.name} model with positions of type {kind!r}, or as a decoder, is not computed here"
        )
    first = family.first_position
    if first and config.get("pad_token_id", first - 1) != first - 1:
        raise ModelUnsupported(
            f"config.json: pad_token_id is {config.get('pad_token_id')!r}; positions of a {family.name} model are computed for "
            f"{first - 1} only"
        )
    heads, hidden = config.number("num_attention_heads"), config.number("hidden_size")
    rows = config.number("max_position_embeddings", 512)
    if hidden % heads or rows <= first:
        raise ModelInvalid(
            f"config.json: {heads} heads cannot share {hidden} channels, or {rows} positions are too few"
        )
    for unused in (
        "type_vocab_size",
        "tie_word_embeddings",
        "layer_norm_type",
    ):  # tensors say it, or heads have it
        config.get(unused)
    return Architecture(
        family=family.name,
        hidden=hidden,
        intermediate=config.number("intermediate_size"),
        layers=config.number("num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        vocab_size=config.number("vocab_size"),
        max_position=rows - first,
        rms_eps=config.real(family.eps, family.eps_default),
        qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm,
        tied=False,
        rope=Rope(),
        activation=_activation(config, family),
    )


def _activation(config: ConfigFields, family: LlmFamily) -> str:
    old = config.get("hidden_act")
    given = str(config.get("hidden_activation", old or family.activations[0]))
    if family.name == "gemma" and given == "gelu":  # the approximation was meant
        given = family.activations[0]
    if given not in family.activations:
        raise ModelUnsupported(
            f"activation {given!r} of a {family.name} model is not computed here; there are {', '.join(family.activations)}"
        )
    return _ACTIVATIONS[given]


def _family(config: Mapping[str, Any]) -> LlmFamily:
    name = str(config.get("model_type"))
    if name not in FAMILIES:
        known = [*FAMILIES, *COMPOSED]
        near = get_close_matches(name[:40], known, 4, 0.5)
        raise ModelUnsupported(
            f"model type {shown(name)} is not computed here; there are {', '.join(near)}{' and' if near else ''} "
            f"{len(known) - len(near)} {'others' if near else 'types'}, which docs/llm-families.md and docs/llm-media.md list"
        )
    return FAMILIES[name]
