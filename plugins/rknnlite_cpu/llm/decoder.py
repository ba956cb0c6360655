"""The decoder: embeddings in, hidden states and logits out, keys and values into a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture, Mixer
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.container.family import Order
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.weights import gated, layer_norms

from rknnlite.log import logger

from ..kernels.threads import cores, limited
from .attention import AttentionFunction
from .attention_layer import Attention, Parts, ShortConv
from .attention_mask import Chunk
from .compiled_step import CompiledStep
from .decoder_input import DecoderInput
from .feed_forward import FeedForward, MixtureOfExperts
from .kv_cache import KvCache
from .latent_attention import LatentAttention
from .linear import Maker, make_linear
from .lora import adapting
from .norms_and_activations import Normed, capped, make_norm
from .recurrent_layer import RecurrentLayer
from .token_rows import LayerRows, TokenRows
from .weight_reader import WeightReader

__all__ = ["Decoder"]

Array = NDArray[Any]

_SAME = 0.05
"""Of the largest number: rounding of what the cache keeps moves hidden states by as much, mistakes by far more."""


@dataclass(frozen=True)
class _Layer:
    """Its halves, and the norms before and behind them; what is not there does nothing."""

    mixer: Union[Attention, ShortConv, RecurrentLayer]
    network: Union[FeedForward, MixtureOfExperts]
    norm1: Normed
    norm2: Normed
    post1: Normed
    post2: Normed
    scale: Optional[Array] = None
    rows: Optional[LayerRows] = None


class Decoder:
    """A transformer (see ``Architecture``) on the weights of a package."""

    def __init__(
        self,
        model: LlmModel,
        weights: SafeTensors,
        make: Maker = make_linear,
        attention: Optional[AttentionFunction] = None,
    ) -> None:
        """Check and wrap the weights; nothing is copied but scales and vectors. Raises ModelInvalid.

        ``attention``: what computes attention of few tokens; None: numpy. With it, single tokens go through compiled layers, where
        ``CompiledStep`` knows them and ``make`` makes its matrices.
        """
        self.arch = arch = model.arch
        found = WeightReader(model, weights, make)
        parts = [found.layer(i) for i in range(arch.layers)]
        self._layers = [_layer(arch, each, i, attention) for i, each in enumerate(parts)]
        ends = found.ends()
        self._norm, self._embed_norm = _norm(arch, ends, "norm"), _norm(arch, ends, "embed_norm")
        self._head = found.matrix("head") if arch.head else None
        self._head_bias = ends.get("head_bias")
        self._positions = found.table("positions") if arch.positions else None
        norm = _norm(arch, ends, "rows_norm")
        self._rows = TokenRows(arch, found.matrix("rows"), norm) if arch.layer_rows else None
        self._proven = False
        self._compiled = None if attention is None else CompiledStep.of(arch, parts, ends, self._head)

    def forward(self, parts: Sequence[tuple[Union[Array, DecoderInput], KvCache]]) -> list[Array]:
        """Run (n, hidden) float32 embeddings, or rows, behind what each cache holds; hidden states (n, hidden), normalised.

        The parts go through the weights together. None may be longer than ``cache.room()`` of its own cache; where tokens see
        those behind them, a part is a whole text.
        """
        given = [(DecoderInput.of(rows), cache) for rows, cache in parts]
        ends = list(accumulate(len(rows) for rows, _ in given))
        places = [slice(end - len(rows), end) for end, (rows, _) in zip(ends, given)]
        chunks = [Chunk(self.arch, cache, len(rows), rows.positions) for rows, cache in given]
        if len(given) == 1 and self._steps(*given[0]):
            return [self._step_of(given[0][0], chunks[0], logits=False)[0]]
        x = np.concatenate([self._first(rows, chunk) for (rows, _), chunk in zip(given, chunks)])
        adapters = [(place, cache.adapters) for place, (_, cache) in zip(places, parts)]
        with limited(cores()), adapting(adapters):
            x = self._through(x, list(zip(places, chunks)), [rows for rows, _ in given])
        for rows, cache in given:
            _advance(rows, cache)
        return [x[place] for place in places]

    def _through(self, x: Array, parts: Parts, given: Sequence[DecoderInput]) -> Array:
        """What goes into the first layer through all of them and the last norm; ``x`` is overwritten."""
        beside = (
            None if self._rows is None else self._rows(x, np.concatenate([rows.embeds for rows in given]))
        )
        for number, layer in enumerate(self._layers):
            self._step(layer, x, parts, None if beside is None else beside[:, number])
            for (place, _), rows in zip(parts, given):
                if rows.extra is not None and number < len(rows.extra):
                    x[place] += rows.extra[number]
        return self._norm(x)

    def step(self, rows: DecoderInput, cache: KvCache) -> Optional[tuple[Array, Array]]:
        """A single token through compiled layers: its hidden state (1, hidden) and logits (1, vocab); None where it takes more."""
        if self._head is None or not self._steps(rows, cache):
            return None
        hidden, logits = self._step_of(rows, Chunk(self.arch, cache, 1, rows.positions), logits=True)
        assert logits is not None
        return hidden, logits

    def _steps(self, rows: DecoderInput, cache: KvCache) -> bool:
        plain = len(rows) == 1 and rows.extra is None and not cache.adapters and cache.total < cache.size
        return plain and self._compiled is not None

    def _step_of(self, rows: DecoderInput, chunk: Chunk, logits: bool) -> tuple[Array, Optional[Array]]:
        """The first token goes through both; where they are not the same the compiled layers are not used."""
        assert self._compiled is not None
        with limited(cores()):
            x, whole = self._first(rows, chunk), [(slice(0, 1), chunk)]
            wanted = None if self._proven else self._through(x.copy(), whole, [rows])
            hidden, found = self._compiled(x[0], chunk, logits)
            if wanted is not None and not np.abs(hidden - wanted).max() <= _SAME * np.abs(wanted).max():
                logger.warning("the compiled layers are wrong here, single tokens go through those of numpy")
                self._compiled, hidden, found = None, self._through(x, whole, [rows])[0], None
                found = self.logits([hidden[None]])[0] if logits else None
            self._proven = True
        _advance(rows, chunk.cache)
        return hidden[None], None if found is None else found[None]

    def _first(self, rows: DecoderInput, chunk: Chunk) -> Array:
        """What goes into the first layer, (tokens, hidden): the caller's."""
        x = rows.embeds[:, : self.arch.hidden] * np.float32(self.arch.scales.embed)
        if self._positions is not None:
            x += self._positions[chunk.positions[0]]
        return self._embed_norm(x)

    def _step(self, layer: _Layer, x: Array, parts: Parts, beside: Optional[Array] = None) -> None:
        """``x`` (tokens, hidden) through one layer, in place; ``beside``: the tokens' rows for this layer."""
        if self.arch.order is Order.PARALLEL:
            normed = layer.norm1(x)
            x += self._scaled(layer.mixer(normed, parts) + layer.network(normed))
        elif self.arch.order is Order.SIDES:
            x += self._scaled(layer.mixer(layer.norm1(x), parts) + layer.network(layer.norm2(x)))
        else:
            x += self._scaled(layer.post1(layer.mixer(layer.norm1(x), parts)))
            x += self._scaled(layer.post2(layer.network(layer.norm2(x))))
        if layer.rows is not None:
            x += layer.rows(x, beside)
        if layer.scale is not None:
            x *= layer.scale

    def _scaled(self, x: Array) -> Array:
        factor = self.arch.scales.residual
        return x if factor == 1 else x * np.float32(factor)

    def logits(self, hidden: Sequence[Array]) -> Array:
        """Several (n, hidden) -> (all n, vocab) float32; only of a model that has a head."""
        assert self._head is not None
        scales = self.arch.scales
        with limited(cores()):
            logits = self._head(np.concatenate(hidden))
            if self._head_bias is not None:
                logits += self._head_bias
            if scales.logit != 1:
                logits *= np.float32(scales.logit)
            return capped(logits, scales.logit_cap) if scales.logit_cap else logits


def _advance(rows: DecoderInput, cache: KvCache) -> None:
    cache.advance(len(rows), None if rows.behind is None else int(rows.behind[-1]))


def _same(x: Array) -> Array:
    return x


def _norm(arch: Architecture, vectors: dict[str, Array], name: str) -> Normed:
    if name not in vectors:
        return _same
    return make_norm(arch.norm, arch.rms_eps, vectors[name], vectors.get(f"{name}_bias"))


def _layer(
    arch: Architecture, parts: dict[str, Any], number: int, attention: Optional[AttentionFunction]
) -> _Layer:
    there = set(layer_norms(arch, number))
    if arch.kind(number).experts and arch.experts and arch.experts.apart:
        there.discard("norm2")  # the network's own
    norms = {
        name: _norm(arch, parts, name) if name in there else _same
        for name in ("norm1", "norm2", "post1", "post2")
    }
    if arch.kind(number).mixer is Mixer.CONV:
        mixer: Union[Attention, ShortConv, RecurrentLayer] = ShortConv(arch, number, **_named(parts, _CONV))
    elif arch.kind(number).mixer is Mixer.LATENT:
        mixer = LatentAttention(arch, number, **_named(parts, _LATENT), attention=attention)
    elif arch.kind(number).mixer.recurrent:
        mixer = RecurrentLayer(arch, number, **_named(parts, _RECURRENT))
    else:
        mixer = Attention(arch, number, **_named(parts, _ATTENTION), attention=attention)
    rows = (
        LayerRows(arch, parts["row_gate"], parts["row_out"], _norm(arch, parts, "row_norm"))
        if arch.layer_rows
        else None
    )
    return _Layer(mixer, _network(arch, parts, number), **norms, scale=parts.get("layer_scale"), rows=rows)


_ATTENTION = ("qkv", "out", "qkv_bias", "out_bias", "q_norm", "k_norm", "sinks")
_LATENT = (
    "kv_a",
    "out",
    "kv_b",
    "kv_a_norm",
    "q",
    "q_a",
    "q_b",
    "q_a_norm",
    "q_a_bias",
    "kv_a_bias",
    "out_bias",
)
_RECURRENT = (
    "state_in",
    "state_out",
    "state_conv",
    "state_gates",
    "decay",
    "step_bias",
    "state_norm",
    "state_conv_bias",
    "skip",
    "state_in_bias",
    "state_out_bias",
)
_APART = ("norm2", "norm_experts", "norm_router", "post_shared", "post_experts")
_CONV = ("conv_in", "conv_out", "conv", "conv_in_bias", "conv_out_bias", "conv_bias")


def _named(parts: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: parts[name] for name in names if name in parts}


def _network(arch: Architecture, parts: dict[str, Any], number: int) -> Union[FeedForward, MixtureOfExperts]:
    first = "gate_up" if gated(arch) else "up"

    def one(prefix: str = "") -> FeedForward:
        biases = (parts.get(f"{prefix}{first}_bias"), parts.get(f"{prefix}down_bias"))
        made = parts[prefix + first], parts[f"{prefix}down"]
        return FeedForward(arch.activation, *made, gated(arch), *biases, form=parts.get("xielu"))

    if not (arch.kind(number).experts and arch.experts):
        return one()
    networks = [one(f"experts.{i}.") for i in range(arch.experts.count)]
    shared = one("shared.") if arch.experts.shared else None
    names = ("shared_gate", "router_correction", "router_bias", "expert_scale")
    more = {name: parts[name] for name in names if name in parts}
    if arch.experts.apart:
        more["norms"] = {name: _norm(arch, parts, name) for name in _APART}
    return MixtureOfExperts(arch.experts, parts["router"], networks, shared, **more)
