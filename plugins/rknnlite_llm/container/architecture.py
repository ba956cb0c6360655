"""What a language model computes, as a package describes it: ``Architecture`` and its parts.

Everything behind ``head`` in ``Architecture`` came later than the first packages; its defaults are what those do.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Optional

from rknnlite.errors import ModelInvalid, ModelUnsupported

from .families import FAMILIES, Norm, Order, Pooling
from .fields import Fields
from .rope import ROPE_SCALINGS, Rope, read_rope

__all__ = [
    "ACTIVATIONS",
    "ROPE_SCALINGS",
    "XIELU",
    "Architecture",
    "Experts",
    "LayerKind",
    "Media",
    "Mixer",
    "Rope",
    "Router",
    "Scales",
    "Scorer",
    "Turn",
    "described",
    "read_architecture",
]

XIELU = "xielu"
"""An activation whose form each layer has learnt."""
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu2", XIELU)
_LONGEST_CONV = 64


class Turn(str, enum.Enum):
    """Which rotary embedding a layer has: the model's, the other one, none."""

    MAIN = "main"
    LOCAL = "local"
    NONE = "none"


class Mixer(str, enum.Enum):
    """How a layer looks at other tokens: attention, or a short gated convolution over the last ones (LFM2)."""

    ATTENTION = "attention"
    CONV = "conv"


@dataclass(frozen=True)
class LayerKind:
    """What one layer has of its own.

    Attributes:
        window: tokens that a token sees, itself included (with ``causal`` off: so many to either side, itself too); 0: all.
        turn: its rotary embedding.
        mixer: attention or convolution.
        experts: a mixture of experts in place of the one network.
        normed: its first norm is there.
    """

    window: int = 0
    turn: Turn = Turn.MAIN
    mixer: Mixer = Mixer.ATTENTION
    experts: bool = False
    normed: bool = True


class Router(str, enum.Enum):
    """What makes shares of experts of the router's products: softmax over all, a sigmoid each, or Phi-MoE's sparse mixer.

    That one takes the two largest one after the other; the share of each is its softmax among those that are left and nearly as
    large (``Experts.jitter``).
    """

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    SPARSE_MIXER = "sparse_mixer"


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: ``used`` of ``count`` networks of ``intermediate`` channels per token.

    Attributes:
        normalise: shares of the used ones add up to 1; ``small`` is added to their sum before.
        shared: channels of a network that every token goes through; 0: none. ``shared_gated``: times the sigmoid of a gate.
        router: what makes shares.
        corrected: a number of each expert is added to its share when experts are chosen, and not in what they give.
        groups: experts lie in so many, of which the ``groups_used`` best are looked at: by the sum of their ``group_best`` largest
            shares.
        scale: of what the chosen experts give.
        jitter: of the sparse mixer.
    """

    count: int
    used: int
    intermediate: int
    normalise: bool
    shared: int = 0
    shared_gated: bool = True
    router: Router = Router.SOFTMAX
    corrected: bool = False
    groups: int = 1
    groups_used: int = 1
    group_best: int = 2
    scale: float = 1.0
    small: float = 0.0
    jitter: float = 0.0


@dataclass(frozen=True)
class Scales:
    """Factors and limits; a limit (``cap * tanh(x / cap)``) of 0 is none.

    Attributes:
        embed: of the embeddings that go in.
        residual: of what each half of a layer adds.
        score: of the products of queries and keys; None: ``head_dim ** -0.5``.
        score_cap: limit of scores.
        logit: of logits.
        logit_cap: limit of logits.
    """

    embed: float = 1.0
    residual: float = 1.0
    score: Optional[float] = None
    score_cap: float = 0.0
    logit: float = 1.0
    logit_cap: float = 0.0


@dataclass(frozen=True)
class Media:
    """What the language part of a larger model says of images and videos.

    Attributes:
        cell: pixels along each side of what one token shows; 0: no images.
        step: positions from one picture of a video to the next per second between them; 0: one whatever lies between.
        deepstack: first layers behind which rows are added to those of images, one auxiliary input for each.
    """

    cell: int = 0
    step: float = 0.0
    deepstack: int = 0


@dataclass(frozen=True)
class Scorer:
    """What becomes of a text's pooled hidden state in a model that gives scores: ``out(norm(activation(dense(x))))``.

    Without ``dense`` ``out`` alone. ``labels`` are the numbers that come out; the biases tell of which matrix there is one.
    """

    pooling: Pooling
    labels: int
    dense: bool
    activation: str = "tanh"
    norm: bool = False
    dense_bias: bool = False
    out_bias: bool = False


@dataclass(frozen=True)
class Architecture:
    """A transformer with rotary embedding and grouped-query attention; without more words a Llama.

    Or an encoder, see ``LlmFamily.encoder``: ``rms_eps`` is that of its LayerNorm, ``rope`` means nothing.

    Attributes:
        qkv_bias: queries, keys and values have biases; so have ``out_bias`` and ``mlp_bias`` the other matrices.
        qk_norm: queries and keys are normalised, head by head, or over all heads with ``qk_norm_whole``; behind their turn with
            ``qk_norm_turned``.
        head: it has logits; a model of embeddings has none.
        norm: RMSNorm or LayerNorm; ``norm_bias``: with biases.
        order: where the norms of a layer stand.
        gated: ``activation(gate) * up``; else ``activation(up)``.
        causal: a token sees those before it only.
        embed_norm: embeddings are normalised before the first layer.
        local_rope: of layers with ``Turn.LOCAL``.
        conv: taps of the convolutions; ``conv_bias``: with biases.
        each_layer: as many as layers, or none: all are alike.
        media: what it says of images and videos, where they count in positions or layers.
        scorer: the model gives scores of texts.
        head_bias: logits have a bias.
        positions: what a token's position adds to its embedding was learnt, and ends with ``max_position``.
        second_type: tokens of the second of two texts are marked as such.
    """

    family: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    max_position: int
    rms_eps: float
    qkv_bias: bool
    qk_norm: bool
    tied: bool
    rope: Rope
    activation: str = "silu"
    head: bool = True
    norm: Norm = Norm.RMS
    norm_bias: bool = False
    order: Order = Order.PRE
    gated: bool = True
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm_whole: bool = False
    causal: bool = True
    embed_norm: bool = False
    scales: Scales = Scales()
    local_rope: Optional[Rope] = None
    experts: Optional[Experts] = None
    conv: int = 0
    conv_bias: bool = False
    each_layer: tuple[LayerKind, ...] = ()
    media: Optional[Media] = None
    scorer: Optional[Scorer] = None
    second_type: bool = False
    head_bias: bool = False
    positions: bool = False
    qk_norm_turned: bool = False

    @property
    def encoder(self) -> bool:
        """Whether every token sees all others, in an encoder with learnt positions."""
        return FAMILIES[self.family].encoder

    @property
    def q_size(self) -> int:
        """Width of the queries."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of the keys, and of the values."""
        return self.kv_heads * self.head_dim

    @property
    def qkv_size(self) -> int:
        """Width of queries, keys and values side by side."""
        return self.q_size + 2 * self.kv_size

    def kind(self, layer: int) -> LayerKind:
        """What this layer has of its own."""
        return self.each_layer[layer] if self.each_layer else LayerKind()

    @property
    def simple(self) -> bool:
        """Nothing in it that programs for the first packages do not know."""
        later = [field for field in fields(self)[_FIRST:] if field.name != "head"]
        known = self.encoder or self.activation == "silu"
        ropes = all(getattr(self.rope, field.name) == field.default for field in fields(Rope)[_FIRST_ROPE:])
        return known and ropes and all(getattr(self, field.name) == field.default for field in later)


_FIRST = [field.name for field in fields(Architecture)].index("head") + 1
_FIRST_ROPE = [field.name for field in fields(Rope)].index("original_max_position") + 1


def described(arch: Architecture) -> dict[str, Any]:
    """What a package says of it; a simple one says what the first packages did, to the byte."""
    made = asdict(arch)
    if arch.simple:
        rope = dict(list(made["rope"].items())[:_FIRST_ROPE])
        made = {**dict(list(made.items())[:_FIRST]), "rope": rope}
    return made


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
        conv=given.number("conv", 0, _LONGEST_CONV) if given.has("conv") else 0,
        scales=_scales(given.child("scales")) if given.has("scales") else Scales(),
        experts=_experts(given.child("experts")) if given.has("experts") else None,
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
    )
    if made.used > made.groups_used * (count // groups):
        raise ModelInvalid(f"damaged description: {made.used} experts used, of {made.groups_used} of {groups} groups of {count}")
    return made


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
    if arch.heads % arch.kv_heads or arch.head_dim % 2:
        raise ModelInvalid(
            f"{arch.heads} heads of {arch.head_dim} cannot share {arch.kv_heads} key/value heads"
        )
    needs = {
        "local_rope": any(kind.turn is Turn.LOCAL for kind in kinds) and arch.local_rope is None,
        "experts": any(kind.experts for kind in kinds) and arch.experts is None,
        "conv": any(kind.mixer is Mixer.CONV for kind in kinds) and not (arch.conv and arch.hidden % 2 == 0),
    }
    missing = [name for name, lacks in needs.items() if lacks]
    if missing:
        raise ModelInvalid(
            f"damaged description: layers of {arch.family} need {missing[0]}, which is not there"
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
