"""What a layer of the decoder does with other tokens: attention with its projections, or a short convolution over the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture, Turn

from .attention import AttentionFunction, Queries, attend
from .attention_mask import Chunk
from .linear import Linear
from .norms_and_activations import make_norm, sigmoid
from .rope import rotate

__all__ = ["Attention", "ShortConv"]

Array = NDArray[Any]
Parts = Sequence[tuple[slice, Chunk]]
_SCORES = 1 << 24  # numbers of one block of attention scores, 64 MiB


class Attention:
    """Grouped-query attention of one layer."""

    def __init__(
        self,
        arch: Architecture,
        number: int,
        qkv: Linear,
        out: Linear,
        qkv_bias: Optional[Array] = None,
        out_bias: Optional[Array] = None,
        q_norm: Optional[Array] = None,
        k_norm: Optional[Array] = None,
        sinks: Optional[Array] = None,
        attention: Optional[AttentionFunction] = None,
    ) -> None:
        """``attention`` looks at the cache for few tokens."""
        self._number, self._kind = number, arch.kind(number)
        self._source = arch.keys_of(number)
        self._lends = any(arch.keys_of(i) == number for i in range(number + 1, arch.layers))
        self._arch = arch = arch.of_layer(number)
        self._qkv, self._out, self._qkv_bias, self._out_bias = qkv, out, qkv_bias, out_bias
        self._attention = attention
        self._sinks = None if sinks is None else sinks.reshape(arch.kv_heads, -1, 1)
        self._norms = [
            make_norm(arch.norm, arch.rms_eps, weight) for weight in (q_norm, k_norm) if weight is not None
        ]
        ones = np.ones(arch.head_dim, np.float32)
        self._value_norm = make_norm(arch.norm, arch.rms_eps, ones) if arch.v_norm else None
        score = arch.scales.score
        self._scale = np.float32(arch.head_dim**-0.5 if score is None else score)

    def __call__(self, x: Array, parts: Parts) -> Array:
        """(tokens, hidden) -> the same; every part looks into its own cache, and puts its keys and values there."""
        qkv = self._asking(x)
        mixed = [self._attended(qkv[place], chunk) for place, chunk in parts]
        found = self._found(mixed[0] if len(mixed) == 1 else np.concatenate(mixed))
        if self._arch.attention_gate:
            found *= sigmoid(qkv[:, self._arch.qkv_size :])
        out = self._out(found)
        if self._out_bias is not None:
            out += self._out_bias
        return out

    def _asking(self, x: Array) -> Array:
        """Queries, keys and values side by side, and what gates what is found, (tokens, asking_size)."""
        qkv = self._qkv(x)
        return qkv if self._qkv_bias is None else qkv + self._qkv_bias

    def _found(self, mixed: Array) -> Array:
        """What the heads have seen, as the last matrix takes it."""
        return mixed

    def _split(self, qkv: Array) -> tuple[Array, Array, Array]:
        """Queries, keys and values, (heads, tokens, head_dim)."""
        arch, end = self._arch, self._arch.q_size + self._arch.kv_size
        queries, keys, values = qkv[:, : arch.q_size], qkv[:, arch.q_size : end], qkv[:, end : arch.qkv_size]
        if arch.qk_norm_whole:
            queries, keys = (norm(rows) for norm, rows in zip(self._norms, (queries, keys)))
        queries, keys, values = (
            rows.reshape(len(qkv), -1, arch.head_dim).transpose(1, 0, 2) for rows in (queries, keys, values)
        )
        if self._norms and not (arch.qk_norm_whole or arch.qk_norm_turned):
            queries, keys = (norm(rows) for norm, rows in zip(self._norms, (queries, keys)))
        if self._value_norm is not None:
            values = self._value_norm(values)
        return queries if arch.qk_norm_turned else queries * self._scale, keys, values

    def _alone(self, rows: Array) -> Array:
        """Queries of a layer that has no keys and values, as ``_split`` gives them."""
        queries = rows.reshape(len(rows), -1, self._arch.head_dim).transpose(1, 0, 2)
        if self._norms and not self._arch.qk_norm_turned:
            queries = self._norms[0](queries)
        return queries if self._arch.qk_norm_turned else queries * self._scale

    def _attended(self, qkv: Array, chunk: Chunk) -> Array:
        """What the tokens of one part see: (tokens, heads * head_dim)."""
        cache, kind = chunk.cache, self._kind
        store = cache.layers[self._source]
        growth, first, alone = chunk.growth, chunk.first(kind.window), len(qkv) == 1 or cache.stepwise
        if kind.reuses:
            queries = self._alone(qkv)
        else:
            queries, keys, values = self._split(qkv)
            keys = store.rounded(self._normed(1, self._turned(keys, chunk)))
            values = store.rounded(values)
            if alone:  # what a token drops it cannot see: store first, the cache is all there is
                cache.store(self._number, keys, values)
        if growth is not None:
            queries = queries * growth
        if alone and self._attention is not None:
            seen = slice(first, min(cache.total + len(qkv), cache.size))
            asked = self._queries(queries, chunk, slice(0, len(qkv)))
            return self._by_token(self._attention(asked, store, seen), len(qkv))
        if alone:
            used = min(cache.total + len(qkv), cache.size)
            all_keys, all_values = store.keys(used), store.values(used)
        elif kind.reuses:
            all_keys, all_values = chunk.lent[self._source]
        else:  # early tokens of the chunk still see what late ones overwrite
            all_keys = np.concatenate([store.keys(cache.used), keys], axis=1)
            all_values = np.concatenate([store.values(cache.used), values], axis=1)
            cache.store(self._number, keys, values)
            if self._lends:
                chunk.lent[self._number] = all_keys, all_values
        all_keys, all_values = all_keys[:, first:], all_values[:, first:]
        step = max(1, _SCORES // (self._arch.heads * all_keys.shape[1]))
        blocks = [slice(i, min(i + step, len(qkv))) for i in range(0, len(qkv), step)]
        found = [
            self._by_token(
                attend(self._queries(queries, chunk, rows), all_keys, all_values), rows.stop - rows.start
            )
            for rows in blocks
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _turned(self, heads: Array, chunk: Chunk) -> Array:
        return heads if self._kind.turn is Turn.NONE else rotate(heads, chunk.turn(self._kind.turn))

    def _asked(self, queries: Array) -> Array:
        """Queries behind their turn."""
        return self._normed(0, queries) * self._scale if self._arch.qk_norm_turned else queries

    def _normed(self, which: int, heads: Array) -> Array:
        """Behind their turn, queries (0) or keys (1)."""
        return self._norms[which](heads) if self._arch.qk_norm_turned else heads

    def _queries(self, queries: Array, chunk: Chunk, rows: slice) -> Queries:
        """Those of the tokens ``rows``, as they meet the keys from ``chunk.first``."""
        arch, turn = self._arch, self._kind.turn
        shape = (arch.kv_heads, -1, arch.head_dim)
        turned, kept, keep = self._asked(self._turned(queries, chunk))[:, rows].reshape(shape), None, 0
        if chunk.keep and turn is not Turn.NONE:
            behind = self._asked(rotate(queries, chunk.kept_turn(turn)))
            kept, keep = behind[:, rows].reshape(shape), chunk.keep
        mask = chunk.mask(self._kind.window, rows)
        tokens, sinks = rows.stop - rows.start, self._sinks
        if sinks is not None:
            sinks = np.broadcast_to(sinks, (*sinks.shape[:2], tokens)).reshape(arch.kv_heads, -1)
        return Queries(turned, tokens, kept, keep, arch.scales.score_cap or 0.0, mask, sinks)

    def _by_token(self, found: Array, tokens: int) -> Array:
        """(kv_heads, heads per kv head * tokens, head_dim) -> (tokens, heads * head_dim)."""
        heads = found.reshape(self._arch.heads, tokens, -1)
        return heads.transpose(1, 0, 2).reshape(tokens, -1)


class ShortConv:
    """A gated convolution over the last tokens, channel by channel (LFM2); its past lies where keys and values would."""

    def __init__(
        self,
        arch: Architecture,
        number: int,
        conv_in: Linear,
        conv_out: Linear,
        conv: Array,
        conv_in_bias: Optional[Array] = None,
        conv_out_bias: Optional[Array] = None,
        conv_bias: Optional[Array] = None,
    ) -> None:
        self._number, self._in, self._out, self._taps = number, conv_in, conv_out, conv
        self._in_bias, self._out_bias, self._bias = conv_in_bias, conv_out_bias, conv_bias

    def __call__(self, x: Array, parts: Parts) -> Array:
        """(tokens, hidden) -> the same."""
        given = self._in(x)
        if self._in_bias is not None:
            given = given + self._in_bias
        before, behind, x = np.split(given, 3, axis=1)
        gated = before * x
        mixed = np.concatenate([self._convolved(gated[place], chunk) for place, chunk in parts])
        out = self._out(behind * mixed)
        if self._out_bias is not None:
            out += self._out_bias
        return out

    def _convolved(self, rows: Array, chunk: Chunk) -> Array:
        cache, count = chunk.cache, len(rows)
        store = cache.layers[self._number]
        rows = store.rounded(rows)
        taps = self._taps.shape[1]
        slots = cache.latest(taps - 1)
        past = np.concatenate([half[0, slots] for half in store.arrays(cache.used)], axis=1).astype(
            np.float32
        )
        nothing = np.zeros((taps - 1 - len(past), rows.shape[1]), np.float32)
        lines = np.concatenate([nothing, past, rows])
        out = sum(lines[tap : tap + count] * self._taps[:, tap] for tap in range(taps))
        halves = np.split(rows, 2, axis=1)
        cache.store(self._number, halves[0][None], halves[1][None])
        return np.asarray(out if self._bias is None else out + self._bias)
