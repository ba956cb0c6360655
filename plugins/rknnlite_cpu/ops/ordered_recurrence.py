"""LSTM and GRU whose results become integers of 8 bits: the same on every engine and processor, with any number of threads.

All is float32, each sum, product and quotient rounded by itself. Products are added in the order of the inputs; their sum is
multiplied by the step of the row, where the file stores whole numbers, then the bias is added. Gates are rational functions
(``rknnlite_graph.unary_functions``). ``engines/native/recurrent.c`` does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rknnlite_graph.graph import RecurrentParams
from rknnlite_graph.unary_functions import RATIONAL_FUNCTIONS

from ..values import Array

__all__ = ["Ordered", "Rows", "rows_of"]

_sigmoid, _tanh = RATIONAL_FUNCTIONS["Sigmoid"], RATIONAL_FUNCTIONS["Tanh"]
_AT_A_TIME = 1 << 16
"""Products that are made before they are added."""


@dataclass(frozen=True)
class Rows:
    """A matrix of a node in float32: ``weights`` [directions, gates, hidden, inputs], ``step`` and bias without the last axis."""

    weights: Array
    step: Array
    bias: Array


def rows_of(params: RecurrentParams) -> tuple[Rows, Rows]:
    """W and R."""
    steps = params.steps or (None, None)
    parts = zip((params.w, params.r), steps, (params.w_bias, params.r_bias))
    first, second = (Rows(*_whole(weights, step), bias.astype(np.float32)) for weights, step, bias in parts)
    return first, second


def _whole(weights: Array, step: Any) -> tuple[Array, Array]:
    if step is None:
        return weights.astype(np.float32), np.ones(weights.shape[:-1], np.float32)
    with np.errstate(all="ignore"):  # a multiplier of 0 leaves nothing of a row
        whole = np.where(step[..., None] > 0, np.rint(weights.astype(np.float64) / step[..., None]), 0)
    return whole.astype(np.float32), step.astype(np.float32)


class Ordered:
    """The directions of one node."""

    def __init__(self, params: RecurrentParams) -> None:
        self._params = params
        self._w, self._r = (_Matrix(rows) for rows in rows_of(params))

    def run(
        self, d: int, x: Array, h: Array, c: Array, limits: Array, backwards: bool
    ) -> tuple[Array, Array, Array]:
        """x [T, B, I], h and c [B, H] -> Y [T, B, H], h, c.

        Rows past their sequence length keep their state and give zeros.
        """
        params = self._params
        given = self._w.times(d, x.reshape(-1, x.shape[-1]), range(params.gates))
        given = given.reshape(*x.shape[:2], *given.shape[1:])
        step = partial(self._lstm if params.gates == 4 else self._gru, d)
        y = np.zeros((x.shape[0], x.shape[1], params.hidden), np.float32)
        for t in range(x.shape[0] - 1, -1, -1) if backwards else range(x.shape[0]):
            alive = (t < limits)[:, None]
            new_h, new_c = step(given[t], h, c)
            h, c = np.where(alive, new_h, h), np.where(alive, new_c, c)
            y[t] = np.where(alive, h, 0)
        return y, h, c

    def _lstm(self, d: int, given: Array, h: Array, c: Array) -> tuple[Array, Array]:
        gates = given + self._r.times(d, h, range(4))
        gates[:, 3] *= 2  # tanh(x) is 2 sigmoid(2 x) - 1
        i, o, f, g = np.moveaxis(_sigmoid(gates), 1, 0)
        c = f * c + i * (g * 2 - 1)
        return o * _tanh(c), c

    def _gru(self, d: int, given: Array, h: Array, c: Array) -> tuple[Array, Array]:
        late = self._params.linear_before_reset
        recurrent = self._r.times(d, h, range(3 if late else 2))
        z, r = np.moveaxis(_sigmoid(given[:, :2] + recurrent[:, :2]), 1, 0)
        kept = r * recurrent[:, 2] if late else self._r.times(d, r * h, range(2, 3))[:, 0]
        candidate = _tanh(given[:, 2] + kept)
        return (1 - z) * candidate + z * h, c


class _Matrix:
    """Rows of a node as they are multiplied."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._hidden = rows, rows.bias.shape[-1]
        self._columns = [np.ascontiguousarray(each.reshape(-1, each.shape[-1]).T) for each in rows.weights]

    def times(self, d: int, x: Array, gates: range) -> Array:
        """[N, inputs] -> [N, gates, hidden]."""
        sums = _ordered(x, self._columns[d][:, gates.start * self._hidden : gates.stop * self._hidden])
        part = slice(gates.start, gates.stop)
        return sums.reshape(len(x), len(gates), -1) * self._rows.step[d, part] + self._rows.bias[d, part]


def _ordered(rows: Array, matrix: Array) -> Array:
    """[N, K] x [K, M]: numpy adds along the first axis of a matrix one after the other."""
    if len(rows) == 1 and matrix.size <= _AT_A_TIME and matrix.shape[1] > 1:
        return np.add.reduce(matrix * rows[0][:, None], axis=0)[None]
    found = rows[:, :1] * matrix[:1]
    for k in range(1, len(matrix)):
        found += rows[:, k : k + 1] * matrix[k]
    return found
