"""Attention to latent vectors in ``config.json``."""

from __future__ import annotations

import math
from dataclasses import replace

from .config_fields import ConfigFields
from .container.architecture import Architecture, Latent, LayerKind, Mixer
from .container.families import FAMILIES
from .family_parts import layered
from .rope_config import given_rope, rope_of

__all__ = ["latent_attention"]


def latent_attention(config: ConfigFields, arch: Architecture) -> Architecture:
    """With ``Latent`` in every layer: one head of keys, whose first channels turn."""
    form = Latent(
        rank=config.number("kv_lora_rank", 512),
        turned=config.number("qk_rope_head_dim", 64),
        plain=config.number("qk_nope_head_dim", 128),
        value=config.number("v_head_dim", 128),
        query_rank=config.number("q_lora_rank") if config.get("q_lora_rank") is not None else 0,
    )
    rope = rope_of(config, replace(arch, head_dim=form.turned), FAMILIES[arch.family])
    score = (form.plain + form.turned) ** -0.5
    given = given_rope(config)
    scale = given.get("mscale_all_dim")
    if rope.scaling != "default" and scale:
        score *= (
            (0.1 * given.real("mscale_all_dim") * math.log(rope.factor) + 1.0) ** 2
            if rope.factor > 1
            else 1.0
        )
    made = replace(
        arch,
        kv_heads=1,
        head_dim=form.turned + form.rank,
        rope=replace(rope, dims=form.turned),
        latent=form,
        scales=replace(arch.scales, score=score),
    )
    return layered(made, [LayerKind(mixer=Mixer.LATENT)] * arch.layers)
