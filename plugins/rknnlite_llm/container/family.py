"""What a row of ``families.FAMILIES`` says of a family of language models."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["LayerTensors", "LlmFamily", "Norm", "Order", "Pooling"]


class Pooling(str, enum.Enum):
    """How the hidden states of a text become its one embedding: the last one, their mean, the first one."""

    LAST = "last"
    MEAN = "mean"
    CLS = "cls"


class Norm(str, enum.Enum):
    """RMSNorm, or LayerNorm."""

    RMS = "rms"
    LAYER = "layer"


class Order(str, enum.Enum):
    """Where the norms of a layer stand, whose halves are ``f`` (attention) and ``g`` (the network).

    ``PRE``: ``x += f(norm(x))``; ``POST``: ``x += norm(f(x))``; ``BOTH``: ``x += norm(f(norm(x)))``, and so for ``g``;
    ``PARALLEL``: ``y = norm(x)``, ``x += f(y) + g(y)``; ``SIDES``: the same with a norm for either half.
    """

    PRE = "pre"
    POST = "post"
    BOTH = "both"
    PARALLEL = "parallel"
    SIDES = "sides"


@dataclass(frozen=True)
class LayerTensors:
    """What a layer's tensors are called in ``*.safetensors``, between ``layers.0.`` and ``.weight``.

    Of several names the rows lie one below the other in ours; a family that has them so already names one. A network without gate
    has one matrix before the activation, ``gate_up``. ``post1`` and ``post2`` are norms behind the halves of a layer.

    ``experts`` is what names of experts begin with, before their number; ``expert_stacks``, where all lie in one tensor, are the
    names of gates and ways up, and of ways down, with ``stacks_turned`` as (experts, inputs, outputs), gates and ways up by turns.
    A shared network has the names of experts, but for ``shared_gate_up`` and ``shared_down``.

    ``state`` is what names of a layer's running state begin with. One ``state_in`` has its rows head by head of the keys, and so
    has one of ``state_gates``; without these it is that of a Mamba2, which has all of them in one.

    ``score_dense``, ``score_norm`` and ``score_out`` are whole names of what a model of scores has behind the last layer.
    """

    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    out: tuple[str, ...] = ("self_attn.o_proj",)
    gate_up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: tuple[str, ...] = ("mlp.down_proj",)
    norm1: str = "input_layernorm"
    norm2: str = "post_attention_layernorm"
    q_norm: str = "self_attn.q_norm"
    k_norm: str = "self_attn.k_norm"
    post1: str = "post_attention_layernorm"
    post2: str = "post_feedforward_layernorm"
    router: str = "mlp.gate"
    experts: str = "mlp.experts."
    expert_gate_up: tuple[str, ...] = ("gate_proj", "up_proj")
    expert_down: tuple[str, ...] = ("down_proj",)
    score_dense: str = ""
    score_norm: str = ""
    score_out: str = "score"
    expert_stacks: tuple[str, str] = ("", "")
    stacks_turned: bool = False
    sinks: str = "self_attn.sinks"
    layer_scale: str = "layer_scalar"
    row_gate: tuple[str, ...] = ("per_layer_input_gate",)
    row_out: tuple[str, ...] = ("per_layer_projection",)
    row_norm: str = "post_per_layer_input_norm"
    norm_experts: str = "pre_feedforward_layernorm_2"
    norm_router: str = "router.scale"
    post_shared: str = "post_feedforward_layernorm_1"
    post_experts: str = "post_feedforward_layernorm_2"
    expert_scale: str = "router.per_expert_scale"
    router_correction: str = "mlp.gate.e_score_correction_bias"
    shared_gate_up: tuple[str, ...] = ()
    shared_down: tuple[str, ...] = ()
    shared: str = "mlp.shared_expert."
    shared_gate: str = "mlp.shared_expert_gate"
    conv_in: tuple[str, ...] = ("conv.in_proj",)
    conv_out: tuple[str, ...] = ("conv.out_proj",)
    conv: str = "conv.conv"
    q: tuple[str, ...] = ("self_attn.q_proj",)
    q_a: tuple[str, ...] = ("self_attn.q_a_proj",)
    q_b: tuple[str, ...] = ("self_attn.q_b_proj",)
    kv_a: tuple[str, ...] = ("self_attn.kv_a_proj_with_mqa",)
    kv_b: str = "self_attn.kv_b_proj"
    q_a_norm: str = "self_attn.q_a_layernorm"
    kv_a_norm: str = "self_attn.kv_a_layernorm"
    state: str = "linear_attn."
    state_in: tuple[str, ...] = ("in_proj_qkv", "in_proj_z")
    state_gates: tuple[str, ...] = ("in_proj_b", "in_proj_a")


@dataclass(frozen=True)
class LlmFamily:
    """What sets the models of one family apart from a Llama.

    Attributes:
        name: ``model_type`` in ``config.json``.
        pre_tokenizer: how a text is cut before BPE, by llama.cpp's name (``tokenizer.ggml.pre``).
        qkv_bias: queries, keys and values have biases.
        qk_norm: queries and keys are normalised, head by head; all heads together with ``qk_norm_whole``.
        tensors: names of a layer in ``*.safetensors``.
        encoder: every token sees all others; LayerNorm behind each half of a layer, biases, learnt positions, no gate.
        pooling: of its embeddings where a model does not say.
        layers: what the names of layers begin with.
        table: name of the embeddings.
        first_position: row of the learnt positions that belongs to a text's first token.
        norm: RMSNorm or LayerNorm, with biases if ``norm_bias``; ``order``: where norms stand.
        norm_offset: is added to the weights of norms that a file has.
        gated: the network of a layer has a gate.
        tied: head and embeddings are the same matrix where ``config.json`` does not say.
        theta: base of the rotary embedding where ``config.json`` does not say.
        turned: share of a head's channels that turns where ``config.json`` does not say.
        interleaved: neighbouring channels turn together, not those half a head apart; the export sorts them.
        qkv_grouped: queries, keys and values of each key/value head lie together, in one tensor.
        causal: a token sees those before it only; one that looks both ways makes embeddings.
        embed_norm: name of the norm of embeddings before the first layer; empty: none.
        eps: key of the norms' epsilon in ``config.json``, and ``eps_default`` where it does not say.
        activations: those that are computed, as ``config.json`` spells them; the first one where it does not say.
        kv_heads: heads of keys and values where ``config.json`` does not say, 0: as many as queries have.
        head_dim: channels of a head where it does not say, 0: ``hidden / heads``.
        head_bias: logits have a bias.
        positions: name of the learnt positions of a decoder; empty: none.
        guessing: behind its layers a file may have some that guess tokens ahead, which are left out.
        transposed: matrices of layers lie as (inputs, outputs).
        renamed: keys of ``config.json`` that others call otherwise: (theirs, the usual one).
        score_activation: behind ``score_dense``.
        doubled_mark: in a pair of texts the mark between them stands twice.
        layer_table: name of the rows that tokens have for every layer, ``rows`` of what is added to them of their embeddings, and
            ``rows_norm`` of its norm.
        final: name of the norm behind the last layer; ``head``: whole name of the head.
    """

    name: str
    pre_tokenizer: str
    qkv_bias: bool = False
    qk_norm: bool = False
    tensors: LayerTensors = LayerTensors()
    encoder: bool = False
    pooling: Pooling = Pooling.LAST
    layers: str = "layers."
    table: str = "embed_tokens.weight"
    first_position: int = 0
    qk_norm_whole: bool = False
    norm: Norm = Norm.RMS
    norm_bias: bool = False
    order: Order = Order.PRE
    norm_offset: float = 0.0
    gated: bool = True
    tied: bool = False
    theta: float = 10000.0
    turned: float = 1.0
    interleaved: bool = False
    qkv_grouped: bool = False
    causal: bool = True
    embed_norm: str = ""
    eps: str = "rms_norm_eps"
    eps_default: float = 1e-6
    activations: tuple[str, ...] = (
        "silu",
        "gelu",
        "gelu_new",
        "gelu_fast",
        "gelu_pytorch_tanh",
        "relu",
        "relu2",
    )
    kv_heads: int = 0
    head_dim: int = 0
    head_bias: bool = False
    positions: str = ""
    transposed: bool = False
    guessing: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    score_activation: str = "tanh"
    doubled_mark: bool = False
    final: str = "norm"
    layer_table: str = "embed_tokens_per_layer.weight"
    rows: str = "per_layer_model_projection.weight"
    rows_norm: str = "per_layer_projection_norm.weight"
    head: str = "lm_head.weight"

    @property
    def head_bias_name(self) -> str:
        """Whole name of the bias of the head."""
        return self.head[: -len("weight")] + "bias"
