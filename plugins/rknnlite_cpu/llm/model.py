"""The decoder: embeddings in, hidden states and logits out, keys and values into a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.formats.llm import LlmModel
from rknnlite.formats.safetensors import SafeTensors

from ..kernels.parallel import BLOCK_ELEMENTS, matmul, run_blocks
from ..kernels.threads import cores, limited
from .cache import KvCache
from .linear import Linear, Maker, make_linear
from .reader import WeightReader
from .rope import frequencies, rotate, turns

__all__ = ["Decoder"]

Array = NDArray[Any]
_MASKED = np.float32(-1e30)


@dataclass(frozen=True)
class _Layer:
    norm1: Array
    norm2: Array
    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    qkv_bias: Optional[Array] = None
    q_norm: Optional[Array] = None
    k_norm: Optional[Array] = None


class _Window:
    """What the tokens of one chunk see in the cache and in the chunk; the same for every layer."""

    def __init__(self, arch_frequency: Array, cache: KvCache, count: int) -> None:
        numbers = cache.total + np.arange(count)
        self.turn = turns(arch_frequency, numbers)
        self.keep = cache.keep
        self.kept_turn: tuple[Array, Array] | None = None
        self.mask: Array | None = None
        dropping = cache.total + count > cache.size  # then the cache is full, see KvCache.room
        if dropping and cache.keep:
            self.kept_turn = turns(arch_frequency, np.minimum(numbers, cache.size - 1))
        if count > 1:
            keys, queries = np.concatenate([cache.positions(), numbers]), numbers[:, None]
            hidden = keys > queries
            if dropping:
                hidden |= (keys <= queries - cache.ring) & (keys >= cache.keep)
            self.mask = np.where(hidden, _MASKED, np.float32(0))


class Decoder:
    """A decoder-only transformer (see ``Architecture``) on the weights of a package."""

    def __init__(self, model: LlmModel, weights: SafeTensors, make: Maker = make_linear) -> None:
        """Check and wrap the weights; nothing is copied but scales and vectors. Raises ModelInvalid."""
        self.arch = arch = model.arch
        found = WeightReader(model, weights, make)
        self._layers = [_Layer(**found.layer(i)) for i in range(arch.layers)]
        self._norm = found.vector("norm")
        self._head = found.matrix("head") if arch.head else None
        self._frequency = frequencies(arch.rope, arch.head_dim)
        self._eps = np.float32(arch.rms_eps)
        self._scale = np.float32(arch.head_dim**-0.5)

    def forward(self, parts: Sequence[tuple[Array, KvCache]]) -> list[Array]:
        """Run (n, hidden) float32 embeddings behind what each cache holds; hidden states (n, hidden), normalised.

        The parts go through the weights together. None may be longer than ``cache.room()`` of its own cache.
        """
        windows = [_Window(self._frequency, cache, len(embeds)) for embeds, cache in parts]
        ends = list(accumulate(len(embeds) for embeds, _ in parts))
        places = [slice(end - len(embeds), end) for end, (embeds, _) in zip(ends, parts)]
        caches = [cache for _, cache in parts]
        x = np.concatenate([embeds for embeds, _ in parts])
        with limited(cores()):
            for number, layer in enumerate(self._layers):
                normed = self._normed(x, layer.norm1)
                x += self._attention(number, layer, normed, list(zip(places, windows, caches)))
                x += self._mlp(layer, self._normed(x, layer.norm2))
        for embeds, cache in parts:
            cache.advance(len(embeds))
        x = self._normed(x, self._norm)
        return [x[place] for place in places]

    def logits(self, hidden: Sequence[Array]) -> Array:
        """Several (n, hidden) -> (all n, vocab) float32; only of a model that has a head."""
        assert self._head is not None
        with limited(cores()):
            return self._head(np.concatenate(hidden))

    def _normed(self, x: Array, weight: Array) -> Array:
        power = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
        return x * (np.float32(1) / np.sqrt(power + self._eps)) * weight

    def _mlp(self, layer: _Layer, x: Array) -> Array:
        both = layer.gate_up(x)
        width = self.arch.intermediate
        step = max(1, BLOCK_ELEMENTS // width)
        rows = [slice(i, i + step) for i in range(0, len(x), step)]
        run_blocks(lambda block: _gated(both[block, :width], both[block, width:]), rows, both.size)
        return layer.down(both[:, :width])

    def _attention(
        self, number: int, layer: _Layer, x: Array, parts: list[tuple[slice, _Window, KvCache]]
    ) -> Array:
        qkv = layer.qkv(x)
        if layer.qkv_bias is not None:
            qkv = qkv + layer.qkv_bias
        mixed = [self._attended(number, layer, qkv[place], window, cache) for place, window, cache in parts]
        return layer.out(mixed[0] if len(mixed) == 1 else np.concatenate(mixed))

    def _attended(self, number: int, layer: _Layer, qkv: Array, window: _Window, cache: KvCache) -> Array:
        """What the tokens of one part see: (tokens, heads * head_dim)."""
        arch, store = self.arch, cache.layers[number]
        heads = qkv.reshape(len(qkv), -1, arch.head_dim).transpose(1, 0, 2)
        queries, keys, values = np.split(heads, [arch.heads, arch.heads + arch.kv_heads])
        if layer.q_norm is not None and layer.k_norm is not None:
            queries, keys = self._normed(queries, layer.q_norm), self._normed(keys, layer.k_norm)
        queries = queries * self._scale
        keys, values = store.rounded(rotate(keys, window.turn)), store.rounded(values)
        if len(qkv) == 1:  # what a single token drops it cannot see: store first, the cache is all there is
            cache.store(number, keys, values)
            used = min(cache.total + 1, cache.size)
            all_keys, all_values = store.keys(used), store.values(used)
        else:  # early tokens of the chunk still see what late ones overwrite
            all_keys = np.concatenate([store.keys(cache.used), keys], axis=1)
            all_values = np.concatenate([store.values(cache.used), values], axis=1)
            cache.store(number, keys, values)
        return self._mix(self._scores(queries, all_keys, window), all_values)

    def _scores(self, queries: Array, keys: Array, window: _Window) -> Array:
        """(kv_heads, heads per kv head, tokens, keys)."""
        arch = self.arch
        shape = (arch.kv_heads, -1, arch.head_dim)
        turned = rotate(queries, window.turn).reshape(shape)
        transposed = keys.transpose(0, 2, 1)
        if window.kept_turn is None:
            scores = matmul(turned, transposed)
        else:
            kept = rotate(queries, window.kept_turn).reshape(shape)
            scores = np.concatenate(
                [kept @ transposed[:, :, : window.keep], turned @ transposed[:, :, window.keep :]], axis=2
            )
        scores = scores.reshape(arch.kv_heads, arch.heads // arch.kv_heads, queries.shape[1], -1)
        if window.mask is not None:
            scores += window.mask
        return scores

    def _mix(self, scores: Array, values: Array) -> Array:
        """Softmax over keys, weighted sum of values: (tokens, heads * head_dim)."""
        arch = self.arch
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        groups, tokens = scores.shape[1], scores.shape[2]
        mixed = matmul(scores.reshape(arch.kv_heads, groups * tokens, -1), values).reshape(
            *scores.shape[:3], -1
        )
        mixed /= total
        return mixed.transpose(2, 0, 1, 3).reshape(tokens, -1)


def _gated(gate: Array, up: Array) -> None:
    """``gate`` becomes ``silu(gate) * up``."""
    with np.errstate(over="ignore"):  # exp of a very negative gate is inf, and the quotient 0
        denominator = np.exp(-gate)
    denominator += np.float32(1)
    np.divide(gate, denominator, out=gate)
    np.multiply(gate, up, out=gate)
