"""What the rules of several families have in common: windows, biases, experts, second rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rknnlite.errors import ModelInvalid

from .config_fields import ConfigFields
from .container.architecture import Architecture, Experts, LayerKind, Rope, Scales, Turn
from .rope_config import read_rope

__all__ = [
    "CONV",
    "FULL",
    "SLIDING",
    "Rules",
    "attention_bias",
    "granite_scales",
    "layer_types",
    "layered",
    "turned_in_windows",
    "two_ropes",
    "windows",
    "windows_everywhere",
    "windows_of_some",
    "with_experts",
]

Rule = Callable[[ConfigFields, Architecture], Architecture]


class Rules(dict[str, Rule]):
    """Rules by the name of a family."""

    def of(self, *names: str) -> Callable[[Rule], Rule]:
        """Take the function below as the rule of these families."""

        def register(rule: Rule) -> Rule:
            self.update(dict.fromkeys(names, rule))
            return rule

        return register


FULL, SLIDING, CONV = "full_attention", "sliding_attention", "conv"
"""Kinds of layers in ``layer_types``."""


def layer_types(
    config: ConfigFields, arch: Architecture, usual: Callable[[int], bool], *allowed: str
) -> list[str]:
    """``layer_types``, or what the family makes of a file without: whether a layer has a window."""
    made: Any = config.get("layer_types")
    if made is None:
        return [SLIDING if usual(i) else FULL for i in range(arch.layers)]
    if not isinstance(made, list) or len(made) != arch.layers:
        raise ModelInvalid(f"config.json: layer_types names {made!r}, there are {arch.layers} layers")
    for word in made:
        if word not in (FULL, SLIDING, *allowed):
            raise config.refusal("layer_types", f"layers are {', '.join((FULL, SLIDING, *allowed))}")
    return made


def layered(arch: Architecture, kinds: list[LayerKind]) -> Architecture:
    """With these layers, which say nothing when all are plain."""
    plain = all(kind == LayerKind() for kind in kinds)
    return replace(arch, each_layer=() if plain else tuple(kinds))


def windows(
    config: ConfigFields, arch: Architecture, types: list[str], window: int | None = None
) -> Architecture:
    """Windows of ``sliding_window`` tokens for the layers that have one."""
    if SLIDING not in types:
        config.get("sliding_window")
        return arch
    size = window or config.number("sliding_window")
    return layered(arch, [LayerKind(window=size if kind == SLIDING else 0) for kind in types])


def windows_everywhere(config: ConfigFields, arch: Architecture) -> Architecture:
    """``sliding_window`` of all layers, where it is not null."""
    window = config.get("sliding_window")
    return arch if window is None else windows(config, arch, [SLIDING] * arch.layers)


def windows_of_some(config: ConfigFields, arch: Architecture) -> Architecture:
    """Windows of the layers from ``max_window_layers`` on, when ``use_sliding_window``."""
    used = config.flag("use_sliding_window")
    first = config.get("max_window_layers", 28)
    if not used:
        config.get("sliding_window")
        types = layer_types(config, arch, lambda _: False)
        if SLIDING in types:
            raise config.refusal("layer_types", "use_sliding_window is off")
        return arch
    if config.get("sliding_window") is None:
        raise config.refusal("use_sliding_window", "sliding_window does not say how many tokens a window has")
    return windows(config, arch, layer_types(config, arch, lambda i: i >= first))


def attention_bias(
    config: ConfigFields, arch: Architecture, out: bool = True, usual: bool = False
) -> Architecture:
    """Biases of queries, keys and values by ``attention_bias``, and of the matrix behind if ``out``."""
    biased = config.flag("attention_bias", usual)
    return replace(arch, qkv_bias=biased or arch.qkv_bias, out_bias=biased and out)


def granite_scales(config: ConfigFields) -> Scales:
    """The factors of all Granite models."""
    divisor = config.real("logits_scaling", 1.0)
    if divisor == 0:
        raise ModelInvalid("config.json: logits_scaling is 0")
    return Scales(
        embed=config.real("embedding_multiplier", 1.0),
        residual=config.real("residual_multiplier", 1.0),
        score=config.real("attention_multiplier", 1.0),
        logit=1 / divisor,
    )


def with_experts(
    config: ConfigFields, arch: Architecture, experts: Experts, has: Callable[[int], bool]
) -> Architecture:
    """With a mixture of experts in the layers that have one."""
    if experts.used > experts.count:
        raise ModelInvalid(f"config.json: {experts.used} of {experts.count} experts are used")
    kinds = [replace(arch.kind(i), experts=has(i)) for i in range(arch.layers)]
    return layered(replace(arch, experts=experts), kinds)


def two_ropes(config: ConfigFields, arch: Architecture, theta: float) -> Architecture:
    """Layers with windows have a rotary embedding of their own."""
    parameters = config.child("rope_parameters")
    nested = parameters.get(SLIDING) is not None
    local = read_rope(parameters.child(SLIDING), config, arch, theta) if nested else Rope(theta)
    kinds = [
        replace(kind, turn=Turn.LOCAL if kind.window else Turn.MAIN)
        for kind in map(arch.kind, range(arch.layers))
    ]
    return layered(replace(arch, local_rope=local), kinds)


def turned_in_windows(arch: Architecture) -> Architecture:
    """Layers without a window have no rotary embedding."""
    kinds = [
        replace(kind, turn=Turn.MAIN if kind.window else Turn.NONE)
        for kind in map(arch.kind, range(arch.layers))
    ]
    return layered(arch, kinds)
