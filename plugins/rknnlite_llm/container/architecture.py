"""What a language model computes, as a package describes it: ``Architecture`` and its parts.

Everything behind ``head`` in ``Architecture`` came later than the first packages; its defaults are what those do.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Optional

from .families import FAMILIES
from .family import Norm, Order, Pooling
from .recurrence import Recurrence
from .rope import ROPE_SCALINGS, Rope

__all__ = [
    "ACTIVATIONS",
    "CLAMPED_SWIGLU",
    "LONGEST_CONV",
    "ROPE_SCALINGS",
    "XIELU",
    "Architecture",
    "Experts",
    "Latent",
    "LayerKind",
    "Media",
    "Mixer",
    "Rope",
    "Router",
    "Scales",
    "Scorer",
    "Turn",
    "described",
]

CLAMPED_SWIGLU = "clamped_swiglu"
"""GPT-OSS's gate: ``(up + 1) * gate * sigmoid(1.702 * gate)``, of gates up to 7 and ways up within 7."""
XIELU = "xielu"
"""An activation whose form each layer has learnt."""
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu2", XIELU, CLAMPED_SWIGLU)
LONGEST_CONV = 64
"""Taps of a convolution."""


class Turn(str, enum.Enum):
    """Which rotary embedding a layer has: the model's, the other one, none."""

    MAIN = "main"
    LOCAL = "local"
    NONE = "none"


class Mixer(str, enum.Enum):
    """How a layer looks at other tokens: attention, a short gated convolution over the last ones (LFM2), attention to what keys and
    values are made of (DeepSeek's MLA, see ``Latent``), or a running state (a gated delta net, a Mamba2, see ``Recurrence``)."""

    ATTENTION = "attention"
    CONV = "conv"
    LATENT = "latent"
    DELTA = "delta"
    MAMBA = "mamba"

    @property
    def recurrent(self) -> bool:
        """Tokens before are known by a running state of fixed size alone."""
        return self in (Mixer.DELTA, Mixer.MAMBA)


@dataclass(frozen=True)
class LayerKind:
    """What one layer has of its own.

    Attributes:
        window: tokens that a token sees, itself included (with ``causal`` off: so many to either side, itself too); 0: all.
        turn: its rotary embedding.
        mixer: attention or convolution.
        experts: a mixture of experts in place of the one network.
        normed: its first norm is there.
        keys_alone: its values are its keys before norm and turn; a package has their matrix twice.
        head_dim: width of its heads, ``kv_heads`` how many of keys it has, ``width`` channels of its network; 0: the model's.
        reuses: it has no keys and values, and sees those of the last layer before that has its window and turn and some of its own.
    """

    window: int = 0
    turn: Turn = Turn.MAIN
    mixer: Mixer = Mixer.ATTENTION
    experts: bool = False
    normed: bool = True
    keys_alone: bool = False
    head_dim: int = 0
    kv_heads: int = 0
    width: int = 0
    reuses: bool = False


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
        biased: their matrices and the router have biases.
        apart: experts, router and shared network take what attention left each by a norm of its own, and what the shared one and
            the experts give is normed before it is added; an expert's share is multiplied by a number of its own.
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
    biased: bool = False
    apart: bool = False


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
class Latent:
    """Attention to what keys and values are made of: a vector of ``rank`` channels, and ``turned`` that turn, for all heads.

    That is all that is kept of a token; so ``Architecture`` has one head of keys, of ``turned + rank`` channels. A query's
    ``plain`` channels meet it through the matrix that would make a key, what is found becomes ``value`` channels of each head.
    Queries come through ``query_rank`` channels; 0: directly.
    """

    rank: int
    turned: int
    plain: int
    value: int
    query_rank: int = 0


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
        latent: of layers with ``Mixer.LATENT``.
        sinks: heads have a score beside those of tokens, which takes its share and gives nothing.
        head_bias: logits have a bias.
        positions: what a token's position adds to its embedding was learnt, and ends with ``max_position``.
        v_norm: values are divided by their root mean square, head by head.
        layer_rows: channels of a further row that a token has for every layer, behind its embedding; 0: none.
        layer_scale: what comes out of each layer is multiplied by a number of its own.
        second_type: tokens of the second of two texts are marked as such.
        recurrence: of layers with a running state.
        attention_gate: what the heads have seen is multiplied by the sigmoid of a further projection.
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
    latent: Optional[Latent] = None
    sinks: bool = False
    recurrence: Optional[Recurrence] = None
    attention_gate: bool = False
    v_norm: bool = False
    layer_scale: bool = False
    layer_rows: int = 0

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

    @property
    def asking_size(self) -> int:
        """The same with the gate behind, where there is one."""
        return self.qkv_size + (self.q_size if self.attention_gate else 0)

    def kind(self, layer: int) -> LayerKind:
        """What this layer has of its own."""
        return self.each_layer[layer] if self.each_layer else LayerKind()

    @property
    def row_size(self) -> int:
        """Numbers of a token in the table of embeddings."""
        return self.hidden + self.layers * self.layer_rows

    def of_layer(self, layer: int) -> Architecture:
        """As this layer has it, whose heads and network may be others."""
        kind = self.kind(layer)
        if not (kind.head_dim or kind.kv_heads or kind.width):
            return self
        return replace(
            self,
            head_dim=kind.head_dim or self.head_dim,
            kv_heads=kind.kv_heads or self.kv_heads,
            intermediate=kind.width or self.intermediate,
        )

    def keys_of(self, layer: int) -> int:
        """The layer whose keys and values this one sees; -1 where there should be one and is none."""
        kind = self.kind(layer)
        if not kind.reuses:
            return layer
        others = ((i, self.kind(i)) for i in range(layer - 1, -1, -1))
        alike = (
            i
            for i, other in others
            if (other.window, other.turn, other.mixer) == (kind.window, kind.turn, kind.mixer)
        )
        return next((i for i in alike if not self.kind(i).reuses), -1)

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
