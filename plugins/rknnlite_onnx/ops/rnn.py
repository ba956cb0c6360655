"""LSTM, GRU and RNN, as the operators of ONNX: their gates have the order of the file's."""

from __future__ import annotations

from math import prod

import numpy as np

from ..registry import LoweredNode, lowers

__all__: list[str] = []


@lowers("exLSTM", "LSTM", "exGRU", "GRU")
def recurrent(node: LoweredNode) -> None:
    """x [T, B, I] -> Y, Y_h [, Y_c]; Y is [T, D, B, H], or [T, B, D * H] when its tensor has rank 3."""
    params = node.view.node.recurrent
    if params is None:
        raise node.refuse("it has no decoded weights")
    if params.reverse and params.directions > 1:
        raise node.refuse(f"{params.directions} directions that are all reversed")
    shape, lstm = node.view.tensor(0).shape, params.gates == 4
    steps, batch, inputs = shape[0], prod(shape[1:-1]), shape[-1]
    rows = params.gates * params.hidden
    bias = np.concatenate(
        [b.reshape(params.directions, rows) for b in (params.w_bias, params.r_bias)], axis=1
    )
    names = [
        node.emit("Reshape", node.real(0), node.ints(steps, batch, inputs)),
        node.const(params.w.reshape(params.directions, rows, inputs)),
        node.const(params.r.reshape(params.directions, rows, params.hidden)),
        node.const(bias),
        _lengths(node, 1, batch),
        *(
            _state(node, position, params.directions, batch, params.hidden)
            for position in ((2, 3) if lstm else (2,))
        ),
    ]
    how = {"direction": _direction(params.directions, params.reverse), "hidden_size": params.hidden}
    if not lstm:
        how["linear_before_reset"] = int(params.linear_before_reset)
    made = node.emitter.nodes("LSTM" if lstm else "GRU", names, 3 if lstm else 2, **how)
    _store(node, made)


def _direction(directions: int, reverse: bool) -> str:
    return "bidirectional" if directions > 1 else "reverse" if reverse else "forward"


def _lengths(node: LoweredNode, position: int, batch: int) -> str:
    if not node.has(position):
        return ""
    return node.emit("Reshape", node.emitter.cast(node.native(position), np.int32), node.ints(batch))


def _state(node: LoweredNode, position: int, directions: int, batch: int, hidden: int) -> str:
    """An initial state [D, B, H], which may have been given for more rows."""
    if not node.has(position):
        return ""
    rows = prod(node.view.tensor(position).shape) // (directions * hidden)
    state = node.emit("Reshape", node.real(position), node.ints(directions, rows, hidden))
    return state if rows == batch else node.emit("Slice", state, node.ints(0), node.ints(batch), node.ints(1))


def _store(node: LoweredNode, made: list[str]) -> None:
    y = made[0]
    if len(node.outputs[0].shape) != 4:  # the directions of a step side by side
        y = node.emit("Transpose", y, perm=[0, 2, 1, 3])
    for position, (name, target) in enumerate(zip([y, *made[1:]], node.outputs)):
        node.store(node.emit("Reshape", name, node.ints(*target.shape)), position)


@lowers("RNN")
def plain_rnn(node: LoweredNode) -> None:
    """h = f(x W^T + h R^T + bias): x [T, B, I], w [D, H, I], r [D, H, H], b [D, 2 * H]."""
    directions, hidden, _ = node.view.tensor(1).shape
    batch = node.view.tensor(0).shape[1]
    names = [node.real(i) for i in range(3)]
    names += [node.real(3) if node.has(3) else "", _lengths(node, 4, batch)]
    names.append(_state(node, 5, directions, batch, hidden))
    functions = list(node.attrs.get("activations") or ["Tanh"] * directions)
    if len(functions) != directions or not set(functions) <= {"Tanh", "Sigmoid", "Relu"}:
        raise node.refuse(f"activations {functions}")
    direction = _direction(directions, node.attrs.get("direction") == "reverse")
    made = node.emitter.nodes("RNN", names, 2, activations=functions, direction=direction, hidden_size=hidden)
    for position, (name, target) in enumerate(zip(made, node.outputs)):
        node.store(node.emit("Reshape", name, node.ints(*target.shape)), position)
