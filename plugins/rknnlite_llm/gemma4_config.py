"""What ``config.json`` says of Gemma 4: layers with windows have other heads than those without."""

from __future__ import annotations

from dataclasses import replace

from rknnlite.errors import ModelInvalid

from .config_fields import ConfigFields
from .container.architecture import Architecture, Experts, LayerKind, Rope, Scales, Turn
from .family_parts import FULL, SLIDING, attention_bias, layer_types, layered
from .rope_config import read_rope

__all__ = ["gemma4"]

_HEADS = ("head_dim", "num_key_value_heads")


def gemma4(config: ConfigFields, arch: Architecture) -> Architecture:
    """Text models of all sizes."""
    config.only("use_bidirectional_attention", "vision")  # of images; text sees what is before it
    rows = config.count("hidden_size_per_layer_input", 256)
    if config.number("vocab_size_per_layer_input", 262144) != arch.vocab_size and rows:
        raise config.refusal(
            "vocab_size_per_layer_input", f"computed is that of all tokens, {arch.vocab_size}"
        )
    own = arch.layers - config.count("num_kv_shared_layers", 0)
    width = 2 * arch.intermediate if config.flag("use_double_wide_mlp") else 0
    experts = _experts(config, arch)
    types = layer_types(config, arch, lambda i: bool((i + 1) % 6))
    types = [*types[:-1], FULL]
    same = config.flag("attention_k_eq_v")
    near = (arch.head_dim, arch.kv_heads)
    far = _far(config, types, near, same)
    wide = max(near, far)
    kinds = []
    for number, kind in enumerate(types):
        heads = near if kind == SLIDING else far
        if kind == SLIDING:
            made = LayerKind(window=config.number("sliding_window", 512), turn=Turn.LOCAL)
        else:
            made = LayerKind(keys_alone=same)
        made = replace(made, experts=experts is not None)
        if number >= own:
            made = replace(made, reuses=True, keys_alone=False, width=width)
        kinds.append(made if heads == wide else replace(made, head_dim=heads[0], kv_heads=heads[1]))
    config.get("sliding_window")
    ropes = config.child("rope_parameters")
    return layered(
        replace(
            attention_bias(config, arch),
            head_dim=wide[0],
            kv_heads=wide[1],
            rope=_rope(ropes, FULL, config, replace(arch, head_dim=far[0]), 1e6, "proportional", 0.25),
            local_rope=_rope(ropes, SLIDING, config, arch, 1e4, "default", 1.0),
            scales=Scales(
                embed=arch.hidden**0.5, score=1.0, logit_cap=config.real("final_logit_softcapping", 0.0)
            ),
            v_norm=True,
            layer_scale=True,
            layer_rows=rows,
            experts=experts,
        ),
        kinds,
    )


def _experts(config: ConfigFields, arch: Architecture) -> Experts | None:
    """Beside the network of every layer, which all tokens go through."""
    numbers = ("num_experts", "top_k_experts", "moe_intermediate_size")
    if not config.flag("enable_moe_block"):
        for unused in numbers:
            config.get(unused)
        return None
    count, used, width = map(config.number, numbers)
    return Experts(
        count, used, width, normalise=True, shared=arch.intermediate, shared_gated=False, apart=True
    )


def _far(config: ConfigFields, types: list[str], near: tuple[int, int], same: bool) -> tuple[int, int]:
    """Width and number of the heads of keys of layers without window: published files say it once, saved ones layer by layer."""
    once = config.number("global_head_dim", 512), config.number("num_global_key_value_heads", near[1])
    if config.missing("per_layer_config"):
        return once[0], once[1] if same else near[1]
    each = config.child("per_layer_config")
    found = set()
    for number, kind in enumerate(types):
        if kind == FULL:
            own = each.child(str(number))
            found.add((own.number(_HEADS[0], near[0]), own.number(_HEADS[1], near[1])))
    if len(found) != 1:
        raise ModelInvalid(f"config.json: per_layer_config has {len(found)} kinds of layers without window")
    return found.pop()


def _rope(
    ropes: ConfigFields,
    kind: str,
    config: ConfigFields,
    arch: Architecture,
    theta: float,
    usual: str,
    share: float,
) -> Rope:
    """Of one kind of layers; all channels of its heads are in pairs, though some may not turn."""
    given = ropes.child(kind)
    if given.missing("rope_type"):
        still = arch.head_dim // 2 - int(share * arch.head_dim // 2) if usual == "proportional" else 0
        return Rope(theta=given.real("rope_theta", theta), dims=arch.head_dim, still=still)
    rope = read_rope(given, config, arch, theta)
    return replace(rope, dims=rope.dims or arch.head_dim)
