"""Layers with a running state: gated delta nets (Qwen3-Next, Qwen3.5) and Mamba2 (Granite 4). See ``Recurrence``."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture, Mixer
from rknnlite_llm.container.recurrence import Recurrence

from .attention_layer import Parts
from .attention_mask import Chunk
from .linear import Linear
from .norms_and_activations import ACTIVATIONS, rms_normed, sigmoid

__all__ = ["RecurrentLayer", "scan"]

Array = NDArray[Any]
_TOKENS = 64
"""Tokens that are computed at a time: their products with each other are as many as with the matrices."""
_SMALL = np.float32(1e-6)  # of the lengths of queries and keys, whatever the norms have


class RecurrentLayer:
    """One layer; its state lies in ``KvCache.states``."""

    def __init__(
        self,
        arch: Architecture,
        number: int,
        state_in: Linear,
        state_out: Linear,
        state_conv: Array,
        state_gates: Array,
        decay: Array,
        step_bias: Array,
        state_norm: Array,
        state_conv_bias: Optional[Array] = None,
        skip: Optional[Array] = None,
        state_in_bias: Optional[Array] = None,
        state_out_bias: Optional[Array] = None,
    ) -> None:
        assert arch.recurrence is not None
        self._form, self._number, self._eps = arch.recurrence, number, np.float32(arch.rms_eps)
        self._delta = arch.kind(number).mixer is Mixer.DELTA
        self._in, self._out, self._in_bias, self._out_bias = (
            state_in,
            state_out,
            state_in_bias,
            state_out_bias,
        )
        self._taps, self._conv_bias = np.ascontiguousarray(state_conv.T), state_conv_bias
        self._gates, self._decay, self._step_bias = np.ascontiguousarray(state_gates.T), decay, step_bias
        self._norm, self._skip = state_norm, skip

    def __call__(self, x: Array, parts: Parts) -> Array:
        """(tokens, hidden) -> the same."""
        form, wide, gates = self._form, self._in(x), x @ self._gates
        if self._in_bias is not None:
            wide = wide + self._in_bias
        rows, gate = wide[:, : form.channels], wide[:, form.channels :]
        found = [self._through(rows[place], gates[place], chunk) for place, chunk in parts]
        mixed = found[0] if len(found) == 1 else np.concatenate(found)
        out = self._out(self._gated(mixed, ACTIVATIONS["silu"](gate)))
        if self._out_bias is not None:
            out += self._out_bias
        return out

    def _gated(self, mixed: Array, gate: Array) -> Array:
        """A delta net normalises every head and gates that, a Mamba2 gates, and then normalises the heads that share a key."""
        form = self._form
        if self._delta:
            normed = rms_normed(mixed.reshape(len(mixed), form.heads, -1), self._norm, self._eps)
            return np.asarray(normed.reshape(mixed.shape) * gate)
        grouped = (mixed * gate).reshape(len(mixed), form.groups, -1)
        return rms_normed(grouped, self._norm.reshape(form.groups, -1), self._eps).reshape(mixed.shape)

    def _through(self, rows: Array, gates: Array, chunk: Chunk) -> Array:
        """What the tokens of one part find: (tokens, heads * value)."""
        states = chunk.cache.states
        assert states is not None
        past, matrices = states.of(self._number, chunk.cache.total)
        lines, kept = np.concatenate([past, rows]), self._form.taps - 1
        queries, keys, values = self._split(self._convolved(lines, len(rows)))
        logs, shares = self._shares(gates)
        start, found, behind = 0, [], []
        for end in states.ends(len(rows), chunk.cache.stepwise):
            while start < end:
                part = slice(start, min(start + _TOKENS, end))
                out, matrices = scan(
                    queries[:, part], keys[:, part], values[:, part], logs[:, part], shares[:, part], matrices, self._delta
                )  # fmt: skip
                found.append(out)
                start = part.stop
            behind.append((lines[end : end + kept].copy(), matrices))
        states.put(self._number, behind)
        mixed = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
        if self._skip is not None:
            mixed += self._skip[:, None, None] * values
        return np.ascontiguousarray(mixed.transpose(1, 0, 2)).reshape(len(rows), -1)

    def _convolved(self, lines: Array, count: int) -> Array:
        out = lines[:count] * self._taps[0]
        for tap in range(1, len(self._taps)):
            out += lines[tap : tap + count] * self._taps[tap]
        return ACTIVATIONS["silu"](out if self._conv_bias is None else out + self._conv_bias)

    def _split(self, rows: Array) -> tuple[Array, Array, Array]:
        """Queries and keys (heads, tokens, key), values (heads, tokens, value)."""
        form = self._form
        width = form.groups * form.key
        queries, keys = (_heads(part, form.key) for part in (rows[:, :width], rows[:, width : 2 * width]))
        if self._delta:
            queries, keys = (part / np.sqrt(_power(part) + _SMALL) for part in (queries, keys))
            queries *= np.float32(form.key**-0.5)
        queries, keys = (_shared(part, form) for part in (queries, keys))
        return queries, keys, _heads(rows[:, 2 * width :], form.value)

    def _shares(self, gates: Array) -> tuple[Array, Array]:
        """Logarithms of what is left of the matrices, and shares of what is added to them: (heads, tokens)."""
        heads = self._form.heads
        steps = np.logaddexp(np.float32(0), gates[:, -heads:] + self._step_bias)
        shares = sigmoid(gates[:, :heads]) if self._delta else steps
        return (steps * self._decay).T, shares.T


def _heads(rows: Array, width: int) -> Array:
    return rows.reshape(len(rows), -1, width).transpose(1, 0, 2)


def _power(heads: Array) -> Array:
    return np.asarray(np.einsum("hti,hti->ht", heads, heads)[..., None])


def _shared(heads: Array, form: Recurrence) -> Array:
    return heads if form.heads == form.groups else np.repeat(heads, form.heads // form.groups, axis=0)


def scan(
    queries: Array, keys: Array, values: Array, logs: Array, shares: Array, matrices: Array, delta: bool
) -> tuple[Array, Array]:
    """What some tokens find, (heads, tokens, value), and the matrices behind them.

    ``logs``, ``shares``: (heads, tokens), logarithms of what is left of the matrices and shares of what is added; with ``delta``
    of what the matrices do not say already. The numbers are those of one token after the other; together they are products of
    matrices, where what tokens add follows from those before them (a triangle of equations).
    """
    total = np.cumsum(logs, axis=1, dtype=np.float32)[..., None]
    later = total - total.transpose(0, 2, 1)
    count = logs.shape[1]
    behind = np.tri(count, dtype=bool)
    left = np.exp(np.where(behind, later, np.float32(-np.inf)))
    added, shrunk = values * shares[..., None], np.exp(total)
    turned = keys.transpose(0, 2, 1)
    if delta:
        asking = keys * shares[..., None]
        added = added - (asking * shrunk) @ matrices
        if count > 1:
            _solve((asking @ turned) * left, added)
    out = (queries * shrunk) @ matrices + ((queries @ turned) * left) @ added
    kept = (keys * np.exp(total[:, -1:] - total)).transpose(0, 2, 1)
    after = matrices * shrunk[:, -1:]
    after += kept * added if count == 1 else kept @ added  # the former is the faster one
    return out, after


def _solve(known: Array, added: Array) -> None:
    """Take from every token of ``added`` (heads, tokens, value), in place, what those before it have made known.

    ``known``: (heads, tokens, tokens), whose part below the diagonal counts. LAPACK takes five times as long for so many small
    ones.
    """
    half = known.shape[1] // 2
    if half == 0:
        return
    _solve(known[:, :half, :half], added[:, :half])
    added[:, half:] -= known[:, half:, :half] @ added[:, :half]
    _solve(known[:, half:, half:], added[:, half:])
