"""The tensors of a weight file ``PREFIX.weight``: the layout that decodes fastest.

They are named ``layers.0.qkv``, ``.out``, ``.gate_up``, ``.down`` (queries, keys and values side by side, so are gate
and up), ``layers.0.norm1``, ``.norm2``, ``.qkv_bias``, ``.q_norm``, ``.k_norm``, then ``norm`` and ``head``. How a
matrix lies in the file is told by its ``WeightType``; scales are beside it, under ``NAME.scale``.

What an architecture has beyond a Llama's: ``post1`` and ``post2``, norms behind the halves of a layer; ``up`` for ``gate_up``
where there is no gate; ``NAME_bias`` for every matrix and norm that has one; ``embed_norm``; ``sinks``, a number per head;
``layer_scale``, one of the layer; ``xielu``, the four numbers of that activation: both alphas, beta, eps. Learnt positions are
``positions`` as an encoder's.

A mixture of experts has ``experts.0.gate_up``, ``experts.0.down``, ... and ``shared.gate_up``, ``shared.down``, with float32
``router`` (experts, hidden) and ``shared_gate`` (1, hidden), and ``router_correction`` and ``router_bias`` where there are. Where
experts stand apart from the shared network there are ``norm_experts``, ``norm_router``, ``post_shared``, ``post_experts`` and
``expert_scale``, a number per expert.

A model whose tokens have a row for every layer has ``rows`` (hidden to all of them) and ``rows_norm``, its layers ``row_gate``,
``row_out`` and ``row_norm``; the table of embeddings has the rows behind each embedding.

Attention with a gate has it behind queries, keys and values in ``qkv``. A layer with a running state has ``state_in`` (queries,
keys, values and what gates them, side by side), ``state_out``, the norm before it ``state_norm``, ``decay`` and ``step_bias``
(heads), of a Mamba2 ``skip`` (heads), float32 ``state_conv`` (channels, taps) and ``state_gates``: (2 * heads, hidden), beta and
step of every head, of a Mamba2 (heads, hidden), the step alone.

A convolution in place of attention has ``conv_in`` (gates before and behind, and what is mixed, side by side), ``conv_out`` and
``conv``, float32 (hidden, taps). Attention to latent vectors has ``q`` or ``q_a`` and ``q_b``, ``kv_a`` and ``out``, norms
``q_a_norm`` and ``kv_a_norm``, and ``kv_b``, float32 (heads * (plain + value), rank).

An encoder has a bias for every matrix and norm and ``positions``, float32 (positions, hidden): what is added to the embedding of a
text's first token, second token, ..., with the embedding of the one token type that a single text has; ``second_type`` is
added to the embeddings of the second of two texts. A model of scores has float32 ``score.dense``, ``score.out`` and what
``Scorer`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from .container.architecture import XIELU, Architecture, Mixer
from .container.family import Order
from .container.weight_types import WEIGHT_TYPES

__all__ = [
    "biased",
    "gated",
    "layer_matrices",
    "layer_norms",
    "layer_tables",
    "layer_vectors",
    "matrices",
    "pack",
    "tables",
    "vectors",
]

Array = NDArray[Any]
T = TypeVar("T")


def layer_matrices(arch: Architecture, layer: int) -> dict[str, tuple[int, int]]:
    """The matrices of one layer: name -> (inputs, outputs)."""
    kind, hidden, arch = arch.kind(layer), arch.hidden, arch.of_layer(layer)
    if kind.mixer is Mixer.CONV:
        made = {"conv_in": (hidden, 3 * hidden), "conv_out": (hidden, hidden)}
    elif kind.mixer is Mixer.LATENT:
        made = _latent_matrices(arch)
    elif kind.mixer.recurrent:
        assert arch.recurrence is not None
        inner = arch.recurrence.inner
        made = {"state_in": (hidden, arch.recurrence.channels + inner), "state_out": (inner, hidden)}
    else:
        made = {
            "qkv": (hidden, arch.q_size if kind.reuses else arch.asking_size),
            "out": (arch.q_size, hidden),
        }
    if arch.layer_rows:
        made.update(row_gate=(hidden, arch.layer_rows), row_out=(arch.layer_rows, hidden))
    if not (kind.experts and arch.experts):
        return {**made, **_network(arch, "", arch.intermediate)}
    for number in range(arch.experts.count):
        made.update(_network(arch, f"experts.{number}.", arch.experts.intermediate))
    if arch.experts.shared:
        made.update(_network(arch, "shared.", arch.experts.shared))
    return made


def _latent_matrices(arch: Architecture) -> dict[str, tuple[int, int]]:
    assert arch.latent is not None
    form, hidden = arch.latent, arch.hidden
    queries = arch.heads * (form.plain + form.turned)
    rank = form.query_rank
    first = {"q_a": (hidden, rank), "q_b": (rank, queries)} if rank else {"q": (hidden, queries)}
    return {**first, "kv_a": (hidden, form.rank + form.turned), "out": (arch.heads * form.value, hidden)}


def _network(arch: Architecture, prefix: str, width: int) -> dict[str, tuple[int, int]]:
    first = ("gate_up", 2 * width) if gated(arch) else ("up", width)
    return {prefix + first[0]: (arch.hidden, first[1]), f"{prefix}down": (width, arch.hidden)}


def gated(arch: Architecture) -> bool:
    """The network of a layer has a gate."""
    return arch.gated and not arch.encoder


def layer_norms(arch: Architecture, layer: int) -> list[str]:
    """The norms of one layer, of width ``hidden``."""
    if arch.encoder:
        return ["norm1", "norm2"]
    before = ["norm1", "norm2"] if arch.kind(layer).normed else ["norm2"]
    behind = ["post1", "post2"]
    return {
        Order.PRE: before,
        Order.SIDES: before,
        Order.POST: behind,
        Order.BOTH: before + behind,
        Order.PARALLEL: ["norm1"],
    }[arch.order]


def layer_vectors(arch: Architecture, layer: int) -> dict[str, int]:
    """The float32 vectors of one layer: name -> length."""
    kind = arch.kind(layer)
    made = dict.fromkeys(layer_norms(arch, layer), arch.hidden)
    if arch.norm_bias or arch.encoder:
        made.update({f"{name}_bias": arch.hidden for name in made})
    matrices = layer_matrices(arch, layer)
    made.update({f"{name}_bias": matrices[name][1] for name in biased(arch, layer)})
    if kind.experts and arch.experts and arch.experts.corrected:
        made["router_correction"] = arch.experts.count
    if kind.experts and arch.experts and arch.experts.biased:
        made["router_bias"] = arch.experts.count
    if kind.experts and arch.experts and arch.experts.apart:
        made.update(
            dict.fromkeys(("norm_experts", "norm_router", "post_shared", "post_experts"), arch.hidden)
        )
        made["expert_scale"] = arch.experts.count
    if arch.layer_rows:
        made["row_norm"] = arch.hidden
    if arch.activation == XIELU:
        made["xielu"] = 4
    if arch.layer_scale:
        made["layer_scale"] = 1
    if kind.mixer is Mixer.CONV:
        return {**made, "conv_bias": arch.hidden} if arch.conv_bias else made
    if kind.mixer is Mixer.LATENT:
        assert arch.latent is not None
        queries = {"q_a_norm": arch.latent.query_rank} if arch.latent.query_rank else {}
        return {**made, **queries, "kv_a_norm": arch.latent.rank}
    if kind.mixer.recurrent:
        return {**made, **_recurrent_vectors(arch, kind.mixer)}
    if arch.sinks:
        made["sinks"] = arch.heads
    if arch.qk_norm_whole:
        made.update(q_norm=arch.q_size, k_norm=arch.kv_size)
    elif arch.qk_norm:
        made.update(
            dict.fromkeys(("q_norm",) if kind.reuses else ("q_norm", "k_norm"), arch.of_layer(layer).head_dim)
        )
    return made


def _recurrent_vectors(arch: Architecture, mixer: Mixer) -> dict[str, int]:
    assert arch.recurrence is not None
    form, mamba = arch.recurrence, mixer is Mixer.MAMBA
    made = {"decay": form.heads, "step_bias": form.heads, "state_norm": form.inner if mamba else form.value}
    if mamba:
        made["skip"] = form.heads
    return {**made, "state_conv_bias": form.channels} if form.conv_bias else made


def biased(arch: Architecture, layer: int) -> list[str]:
    """The matrices of one layer that have biases."""
    names = layer_matrices(arch, layer)
    switches = {
        "qkv": arch.qkv_bias,
        "q_a": arch.qkv_bias,
        "kv_a": arch.qkv_bias,
        "out": arch.out_bias,
        "gate_up": arch.mlp_bias,
        "up": arch.mlp_bias,
        "down": arch.mlp_bias,
        "conv_in": arch.conv_bias,
        "conv_out": arch.conv_bias,
        "state_in": arch.recurrence is not None and arch.recurrence.biased,
        "state_out": arch.recurrence is not None and arch.recurrence.biased,
    }
    experts = arch.experts is not None and arch.experts.biased
    return [
        name
        for name in names
        if arch.encoder or switches.get(name, False) or (experts and name.startswith("experts."))
    ]


def layer_tables(arch: Architecture, layer: int) -> dict[str, tuple[int, int]]:
    """The float32 matrices of one layer that stay as they are: name -> shape."""
    kind, made = arch.kind(layer), {}
    if kind.mixer is Mixer.CONV:
        made["conv"] = (arch.hidden, arch.conv)
    if kind.mixer.recurrent and arch.recurrence:
        form = arch.recurrence
        made["state_conv"] = (form.channels, form.taps)
        made["state_gates"] = ((1 if kind.mixer is Mixer.MAMBA else 2) * form.heads, arch.hidden)
    if kind.mixer is Mixer.LATENT and arch.latent:
        made["kv_b"] = (arch.heads * (arch.latent.plain + arch.latent.value), arch.latent.rank)
    if kind.experts and arch.experts:
        made["router"] = (arch.experts.count, arch.hidden)
        if arch.experts.shared and arch.experts.shared_gated:
            made["shared_gate"] = (1, arch.hidden)
    return made


def _of_layers(arch: Architecture, of: Callable[[Architecture, int], dict[str, T]]) -> dict[str, T]:
    return {f"layers.{i}.{name}": size for i in range(arch.layers) for name, size in of(arch, i).items()}


def matrices(arch: Architecture) -> dict[str, tuple[int, int]]:
    """Every matrix of the model: name -> (inputs, outputs)."""
    every = _of_layers(arch, layer_matrices)
    if arch.layer_rows:
        every["rows"] = (arch.hidden, arch.layers * arch.layer_rows)
    return {**every, "head": (arch.hidden, arch.vocab_size)} if arch.head else every


def vectors(arch: Architecture) -> dict[str, int]:
    """Every float32 vector of the model: name -> length."""
    ends = [] if arch.encoder else ["norm"]
    ends += ["embed_norm"] if arch.encoder or arch.embed_norm else []
    if arch.encoder or arch.norm_bias:
        ends += [f"{name}_bias" for name in ends]
    every = {**_of_layers(arch, layer_vectors), **dict.fromkeys(ends, arch.hidden)}
    if arch.layer_rows:
        every["rows_norm"] = arch.layer_rows
    if arch.head and arch.head_bias:
        every["head_bias"] = arch.vocab_size
    scorer = arch.scorer
    if scorer is None:
        return every
    there = {
        "dense_bias": scorer.dense_bias,
        "norm": scorer.norm,
        "norm_bias": scorer.norm and arch.norm_bias,
    }
    every.update({f"score.{name}": arch.hidden for name, has in there.items() if has})
    return {**every, "score.out_bias": scorer.labels} if scorer.out_bias else every


def tables(arch: Architecture) -> dict[str, tuple[int, int]]:
    """Every float32 matrix that stays as it is: name -> shape."""
    every = _of_layers(arch, layer_tables)
    if arch.encoder or arch.positions:
        every["positions"] = (arch.max_position, arch.hidden)
    if arch.second_type:
        every["second_type"] = (1, arch.hidden)
    if arch.scorer:
        every["score.out"] = (arch.scorer.labels, arch.hidden)
        if arch.scorer.dense:
            every["score.dense"] = (arch.hidden, arch.hidden)
    return every


def pack(name: str, matrix: Array, weights: str) -> dict[str, tuple[str, Array]]:
    """Tensors of the file for one matrix, float32 (outputs, inputs) as PyTorch's Linear has it: name -> (type, data)."""
    kind = WEIGHT_TYPES[weights]
    codes, scale = kind.pack(matrix)
    packed = {name: (kind.element, codes)}
    if scale is not None:
        packed[f"{name}.scale"] = ("F16", scale)
    return packed
