"""The architecture in a package's description, checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported

from .architecture import (
    ACTIVATIONS,
    LONGEST_CONV,
    Architecture,
    Experts,
    Latent,
    LayerKind,
    Media,
    Mixer,
    Router,
    Scales,
    Scorer,
    Turn,
)
from .families import FAMILIES
from .family import Norm, Order, Pooling
from .fields import Fields
from .recurrence import Recurrence
from .rope import Rope, read_rope

__all__ = ["read_architecture"]


def read_architecture(given: Fields) -> Architecture:
    """The architecture in a package's description. Raises ModelInvalid or ModelUnsupported."""
    later: dict[str, Any] = {name: given.flag(name) for name in _FLAGS if given.has(name)}
    later.update(
        {name: kind(given.choice(name, tuple(kind))) for name, kind in _WORDS.items() if given.has(name)}
    )
    arch = Architecture(
        family=given.choice("family", tuple(FAMILIES)),
        hidden=given.number("hidden", high=1 << 17),
        intermediate=given.number("intermediate", high=1 << 20),
        layers=given.number("layers", high=1024),
        heads=given.number("heads", high=1024),
        kv_heads=given.number("kv_heads", high=1024),
        head_dim=given.number("head_dim", 2, 1024),
        vocab_size=given.number("vocab_size"),
        max_position=given.number("max_position", high=1 << 30),
        rms_eps=given.real("rms_eps", 1e-12, 1),
        qkv_bias=given.flag("qkv_bias"),
        qk_norm=given.flag("qk_norm"),
        tied=given.flag("tied"),
        rope=Rope(),
        activation=given.choice("activation", ACTIVATIONS) if given.has("activation") else "silu",
        **later,
        layer_rows=given.number("layer_rows", 0, 1 << 14) if given.has("layer_rows") else 0,
        conv=given.number("conv", 0, LONGEST_CONV) if given.has("conv") else 0,
        scales=_scales(given.child("scales")) if given.has("scales") else Scales(),
        experts=_experts(given.child("experts")) if given.has("experts") else None,
        latent=_latent(given.child("latent")) if given.has("latent") else None,
        recurrence=_recurrence(given.child("recurrence")) if given.has("recurrence") else None,
        media=_media(given.child("media")) if given.has("media") else None,
        scorer=_scorer(given.child("scorer")) if given.has("scorer") else None,
    )
    arch = replace(
        arch,
        rope=read_rope(given.child("rope"), arch.head_dim),
        local_rope=read_rope(given.child("local_rope"), arch.head_dim) if given.has("local_rope") else None,
        each_layer=tuple(map(_layer, given.children("each_layer"))) if given.has("each_layer") else (),
    )
    _check(arch)
    return arch


_FLAGS = (
    "head",
    "norm_bias",
    "gated",
    "out_bias",
    "mlp_bias",
    "qk_norm_whole",
    "causal",
    "embed_norm",
    "conv_bias",
    "second_type",
    "head_bias",
    "positions",
    "qk_norm_turned",
    "sinks",
    "attention_gate",
    "v_norm",
    "layer_scale",
)
_WORDS: dict[str, Any] = {"norm": Norm, "order": Order}


def _scales(given: Fields) -> Scales:
    factors = {name: given.real(name) for name in ("embed", "residual", "score", "logit") if given.has(name)}
    caps = {name: given.real(name, 0) for name in ("score_cap", "logit_cap") if given.has(name)}
    return Scales(**factors, **caps)


def _experts(given: Fields) -> Experts:
    count = given.number("count", high=4096)
    made = Experts(
        count=count,
        used=given.number("used", high=count),
        intermediate=given.number("intermediate", high=1 << 20),
        normalise=given.flag("normalise"),
        shared=given.number("shared", 0, 1 << 20),
    )
    if not given.has("router"):  # a package of before there were others
        return made
    groups = given.number("groups", high=count)
    if count % groups:
        raise ModelInvalid(f"damaged description: {count} experts in {groups} groups")
    made = replace(
        made,
        shared_gated=given.flag("shared_gated"),
        router=Router(given.choice("router", tuple(Router))),
        corrected=given.flag("corrected"),
        groups=groups,
        groups_used=given.number("groups_used", high=groups),
        group_best=given.number("group_best", high=count // groups),
        scale=given.real("scale"),
        small=given.real("small", 0),
        jitter=given.real("jitter", 0),
        biased=given.flag("biased") if given.has("biased") else False,
        apart=given.flag("apart") if given.has("apart") else False,
    )
    if made.apart and (not made.shared or made.shared_gated):
        raise ModelInvalid(
            "damaged description: experts apart from a shared network, which is not there or has a gate"
        )
    if made.used > made.groups_used * (count // groups):
        raise ModelInvalid(
            f"damaged description: {made.used} experts used, of {made.groups_used} of {groups} groups of {count}"
        )
    return made


def _latent(given: Fields) -> Latent:
    rank, turned, plain, value = (
        given.number(name, high=1024) for name in ("rank", "turned", "plain", "value")
    )
    return Latent(rank, turned, plain, value, given.number("query_rank", 0, 1 << 16))


def _recurrence(given: Fields) -> Recurrence:
    heads = given.number("heads", high=1024)
    groups = given.number("groups", high=heads)
    if heads % groups:
        raise ModelInvalid(f"damaged description: {heads} heads of a running state share {groups} keys")
    key, value = (given.number(name, high=1024) for name in ("key", "value"))
    taps = given.number("taps", 2, LONGEST_CONV)
    return Recurrence(heads, groups, key, value, taps, given.flag("conv_bias"), given.flag("biased"))


def _media(given: Fields) -> Media:
    return Media(given.number("cell", 0, 1 << 12), given.real("step", 0), given.number("deepstack", 0, 1024))


def _scorer(given: Fields) -> Scorer:
    return Scorer(
        pooling=Pooling(given.choice("pooling", tuple(Pooling))),
        labels=given.number("labels", high=1 << 16),
        dense=given.flag("dense"),
        activation=given.choice("activation", ("tanh", *ACTIVATIONS)),
        norm=given.flag("norm"),
        dense_bias=given.flag("dense_bias"),
        out_bias=given.flag("out_bias"),
    )


def _layer(given: Fields) -> LayerKind:
    return LayerKind(
        window=given.number("window", 0, 1 << 30),
        turn=Turn(given.choice("turn", tuple(Turn))),
        mixer=Mixer(given.choice("mixer", tuple(Mixer))),
        experts=given.flag("experts"),
        normed=given.flag("normed"),
        keys_alone=given.flag("keys_alone") if given.has("keys_alone") else False,
        head_dim=given.number("head_dim", 0, 1024) if given.has("head_dim") else 0,
        kv_heads=given.number("kv_heads", 0, 1024) if given.has("kv_heads") else 0,
        width=given.number("width", 0, 1 << 20) if given.has("width") else 0,
        reuses=given.flag("reuses") if given.has("reuses") else False,
    )


def _check(arch: Architecture) -> None:
    """What cannot be together."""
    kinds = arch.each_layer
    if arch.each_layer and len(arch.each_layer) != arch.layers:
        raise ModelInvalid(
            f"damaged description: {len(arch.each_layer)} kinds of layers for {arch.layers} layers"
        )
    if arch.encoder and (arch.head or arch.heads != arch.kv_heads):
        raise ModelInvalid(
            f"damaged description: {arch.family} is an encoder: it has no head, and {arch.heads} heads need as many keys, "
            f"not {arch.kv_heads}"
        )
    if not arch.causal and arch.head:
        raise ModelInvalid(
            f"damaged description: tokens of {arch.family} see those behind them, and it has a head"
        )
    for own in map(arch.of_layer, range(arch.layers)):
        if own.heads % own.kv_heads or own.head_dim % 2:
            raise ModelInvalid(
                f"{own.heads} heads of {own.head_dim} cannot share {own.kv_heads} key/value heads"
            )
    for kind in kinds:
        if (kind.head_dim or kind.kv_heads) and kind.mixer is not Mixer.ATTENTION:
            raise ModelInvalid(f"damaged description: a {kind.mixer.value} layer has heads of its own")
        rope = arch.local_rope if kind.turn is Turn.LOCAL else arch.rope
        if kind.head_dim and (rope is None or not rope.dims or rope.dims > kind.head_dim):
            raise ModelInvalid(
                f"damaged description: a head of {kind.head_dim} channels does not turn as its layer says"
            )
    for layer, kind in enumerate(kinds):
        source = arch.keys_of(layer)
        own, other = arch.of_layer(layer), arch.of_layer(max(0, source))
        alike = (own.head_dim, own.kv_heads) == (other.head_dim, other.kv_heads)
        if kind.reuses and (
            source < 0 or not alike or kind.mixer is not Mixer.ATTENTION or arch.attention_gate
        ):
            raise ModelInvalid(
                f"damaged description: layer {layer} sees keys of another, and there is none like it"
            )
    if arch.qk_norm_turned + arch.qk_norm_whole > arch.qk_norm:
        raise ModelInvalid(
            f"damaged description: {arch.family} has norms of whole rows or of what has turned, and not both, where it norms "
            "queries and keys"
        )
    needs = {
        "local_rope": any(kind.turn is Turn.LOCAL for kind in kinds) and arch.local_rope is None,
        "experts": any(kind.experts for kind in kinds) and arch.experts is None,
        "conv": any(kind.mixer is Mixer.CONV for kind in kinds) and not (arch.conv and arch.hidden % 2 == 0),
    }
    needs["recurrence"] = any(kind.mixer.recurrent for kind in kinds) and not (
        arch.recurrence and arch.causal
    )
    latent = arch.latent
    needs["latent"] = any(kind.mixer is Mixer.LATENT for kind in kinds) and not (
        latent
        and arch.kv_heads == 1
        and arch.head_dim == latent.rank + latent.turned
        and arch.rope.dims == latent.turned
    )
    missing = [name for name, lacks in needs.items() if lacks]
    if missing:
        raise ModelInvalid(
            f"damaged description: layers of {arch.family} need {missing[0]}, which is not there"
        )
    if arch.experts and arch.experts.apart and arch.order is not Order.BOTH:
        raise ModelInvalid(
            f"damaged description: experts apart from a network, with norms in the order {arch.order.value}"
        )
    if (arch.recurrence and arch.rope.moving) or (arch.attention_gate and arch.latent):
        raise ModelUnsupported(
            f"{arch.family}: running states together with rotary scaling {arch.rope.scaling}, or with latent attention and a gate, "
            "are not computed here"
        )
    if arch.media is not None and arch.media.deepstack > arch.layers:
        raise ModelInvalid(
            f"damaged description: rows are added behind {arch.media.deepstack} of {arch.layers} layers"
        )
    if arch.rope.sections and (arch.rope.moving or not arch.causal):
        raise ModelUnsupported(
            f"a rotary embedding of three axes is not computed here with scaling {arch.rope.scaling}, or in a model that looks "
            "both ways"
        )
    if (arch.rope.moving and not arch.causal) or (arch.local_rope is not None and arch.local_rope.moving):
        raise ModelUnsupported(
            f"{arch.family}: rotary scaling by length ({arch.rope.scaling}) of a model that looks both ways, or of some "
            "layers only, is not computed here"
        )
