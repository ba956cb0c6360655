"""LSTM and GRU: the recurrence in float, only the outputs are rounded; before integers of 8 bits by ``ordered_recurrence``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from rknnlite_graph.graph import RECURRENT_GATES, RecurrentParams
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.unary_functions import sigmoid

from ..registry import check_operands, op, real_kernel, real_op
from ..values import Array, Kernel
from .ordered_recurrence import Ordered

__all__: list[str] = []

_Direction = Callable[..., "tuple[Array, Array, Array]"]
"""(direction, x, h, c, lengths, backwards) -> Y, h, c"""


def _check_gates(view: NodeView) -> None:
    """Refuse what few networks have and the steps below do not do."""
    usual = ["Sigmoid", "Tanh", "Tanh"] if RECURRENT_GATES[view.node.op] == 4 else ["Sigmoid", "Tanh"]
    names = [name for name in view.attrs.get("activations") or () if name]
    if names not in ([], usual, usual * 2):
        raise view.fail(f"activations {names} are not supported, only {', '.join(usual)}")
    for name in ("clip", "input_forget"):
        if view.attrs.get(name):
            raise view.fail(f"{name} {view.attrs[name]} is not supported")


@op("exLSTM", "LSTM", "exGRU", "GRU")
def recurrent(view: NodeView) -> Kernel:
    """x [T, B, I] -> Y, Y_h [, Y_c]; Y is [T, D, B, H], or [T, B, D * H] when its tensor has rank 3."""
    check_operands(view, 1)
    _check_gates(view)
    params = view.node.recurrent
    if params is None or not view.floats_behind_bytes:
        return real_kernel(view, _recurrent)
    return real_kernel(view, partial(_sequences, Ordered(params).run), wide=False)


def _recurrent(
    view: NodeView, x: Array, lengths: Array | None = None, h0: Array | None = None, c0: Array | None = None
) -> tuple[Array, ...]:
    params = view.node.recurrent
    if params is None:
        raise view.fail("it has no decoded weights; recurrent nodes on the CPU are not supported yet")
    return _sequences(partial(_run, params), view, x, lengths, h0, c0)


def _sequences(
    run: _Direction,
    view: NodeView,
    x: Array,
    lengths: Array | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
) -> tuple[Array, ...]:
    params = view.node.recurrent
    assert params is not None
    steps, batch = x.shape[0], int(np.prod(x.shape[1:-1]))
    x = x.reshape(steps, batch, x.shape[-1])
    limits = np.full(batch, steps) if lengths is None else lengths.reshape(-1).astype(np.int64)
    sequences, last_h, last_c = [], [], []
    for d in range(params.directions):
        backwards = params.reverse or d == 1
        h, c = _state(h0, d, batch, params), _state(c0, d, batch, params)
        y, h, c = run(d, x, h, c, limits, backwards)
        sequences.append(y)
        last_h.append(h)
        last_c.append(c)
    shape = view.outputs[0].shape
    y = np.stack(sequences, axis=1) if len(shape) == 4 else np.concatenate(sequences, axis=-1)
    results = [y.reshape(shape), np.stack(last_h), np.stack(last_c)]
    return tuple(r.reshape(out.shape) for r, out in zip(results, view.outputs))


def _state(given: Array | None, direction: int, batch: int, params: RecurrentParams) -> Array:
    if given is None:
        return np.zeros((batch, params.hidden), np.float32)
    return given.reshape(params.directions, -1, params.hidden)[direction][:batch].astype(np.float32)


def _run(
    params: RecurrentParams, d: int, x: Array, h: Array, c: Array, limits: Array, backwards: bool
) -> tuple[Array, Array, Array]:
    """One direction; rows past their sequence length keep their state and give zeros."""
    step = _lstm_step if params.gates == 4 else _gru_step
    projected = np.einsum("tbi,ghi->tbgh", x, params.w[d], optimize=True) + params.w_bias[d]
    y = np.zeros((x.shape[0], x.shape[1], params.hidden), np.float32)
    order = range(x.shape[0] - 1, -1, -1) if backwards else range(x.shape[0])
    for t in order:
        alive = (t < limits)[:, None]
        new_h, new_c = step(params, d, projected[t], h, c)
        h, c = np.where(alive, new_h, h), np.where(alive, new_c, c)
        y[t] = np.where(alive, h, 0)
    return y, h, c


def _lstm_step(params: RecurrentParams, d: int, xw: Array, h: Array, c: Array) -> tuple[Array, Array]:
    gates = xw + np.einsum("bj,ghj->bgh", h, params.r[d], optimize=True) + params.r_bias[d]
    i, o, f = (sigmoid(gates[:, k]) for k in range(3))
    c = f * c + i * np.tanh(gates[:, 3])
    return o * np.tanh(c), c


def _gru_step(params: RecurrentParams, d: int, xw: Array, h: Array, c: Array) -> tuple[Array, Array]:
    r_weight, r_bias = params.r[d], params.r_bias[d]
    z = sigmoid(xw[:, 0] + h @ r_weight[0].T + r_bias[0])
    r = sigmoid(xw[:, 1] + h @ r_weight[1].T + r_bias[1])
    if params.linear_before_reset:
        candidate = np.tanh(xw[:, 2] + r * (h @ r_weight[2].T + r_bias[2]))
    else:
        candidate = np.tanh(xw[:, 2] + (r * h) @ r_weight[2].T + r_bias[2])
    return (1 - z) * candidate + z * h, c


_RNN_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Tanh": np.tanh,
    "Sigmoid": sigmoid,
    "Relu": lambda x: np.maximum(x, 0),
}


def _check_rnn(view: NodeView) -> None:
    view.choice("direction", "forward", "reverse", "bidirectional")
    if view.attrs.get("clip"):
        raise view.fail(f"clip {view.attrs['clip']} is not supported")


@real_op("RNN", check=_check_rnn)
def plain_rnn(
    view: NodeView,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    lengths: Array | None = None,
    h0: Array | None = None,
) -> tuple[Array, ...]:
    """h = f(x W^T + h R^T + bias), always on the CPU: x [T, B, I], w [D, H, I], r [D, H, H], b [D, 2 * H]."""
    directions, hidden, _ = w.shape
    names = view.attrs.get("activations") or ["Tanh"] * directions
    if len(names) != directions or any(name not in _RNN_FUNCTIONS for name in names):
        raise view.fail(
            f"activations {names} are not supported; use one of {', '.join(_RNN_FUNCTIONS)} per direction"
        )
    backwards = view.attrs.get("direction") == "reverse"
    limits = np.full(x.shape[1], x.shape[0]) if lengths is None else lengths.reshape(-1).astype(np.int64)
    y = np.zeros((x.shape[0], directions, x.shape[1], hidden), np.float32)
    last = np.zeros((directions, x.shape[1], hidden), np.float32) if h0 is None else h0.astype(np.float32)
    for d in range(directions):
        function = _RNN_FUNCTIONS[names[d]]
        bias = 0 if b is None else b[d, :hidden] + b[d, hidden:]
        order = range(x.shape[0])
        for t in order[::-1] if backwards or d == 1 else order:
            alive = (t < limits)[:, None]
            h = np.where(alive, function(x[t] @ w[d].T + last[d] @ r[d].T + bias), last[d])
            last[d], y[t, d] = h, np.where(alive, h, 0)
    return tuple(result.reshape(out.shape) for result, out in zip((y, last), view.outputs))
