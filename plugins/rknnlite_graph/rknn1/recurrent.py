"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import DType

from ..graph import RecurrentParams
from .description import NodeEntry
from .graph import GraphBuilder, lowers

__all__: list[str] = []

Array = NDArray[Any]
_FUNCTIONS: dict[str, tuple[str, dict[str, float]]] = {
    "NONE": ("Identity", {}), "RELU": ("Relu", {}), "RELU1": ("Clip", {"min": -1.0, "max": 1.0}),
    "RELU6": ("Clip", {"min": 0.0, "max": 6.0}), "TANH": ("Tanh", {}), "SIGMOID": ("Sigmoid", {}),
}  # fmt: skip
"""Operators and attributes by the name behind VSI_NN_ACT_."""
_IN_DOUBT = ("TANH", "SIGMOID")


@lowers("LSTM", "LSTM_OVXLIB")
def lstm(build: GraphBuilder, entry: NodeEntry) -> None:
    """Slots 3-6 and 7-10: input and recurrent weights of i, f, c, o; 14-17 their biases."""
    x = build.input(entry)
    if any(entry.attrs.get(key) for key in ("cell_clip", "proj_clip", "forget_bias")):
        raise build.unsupported(entry, "clipped cells and a forget bias are not known")
    steps, batch = build.shape(x)[0], build.shape(x)[1]
    features = int(np.prod(build.shape(x)[2:]))
    w, r = ([build.values(entry, first + gate) for gate in (0, 3, 1, 2)] for first in (3, 7))
    bias = [build.values(entry, 14 + gate).reshape(-1) for gate in (0, 3, 1, 2)]
    hidden = len(w[0])
    doubts = (
        ["an LSTM of more than one sequence at once: the chip maker's simulator has another order"]
        if batch > 1
        else []
    )
    if any(part.shape != (hidden, features) for part in w) or any(
        part.shape != (hidden, hidden) for part in r
    ):
        raise build.fail(entry, f"weights {[part.shape for part in (*w, *r)]} for {features} features")
    if len(build.shape(x)) != 3:
        flat = build.helper(entry, x, (steps, batch, features), "flat")
        build.emit("Reshape", entry, [x], [flat])
        x = flat
    shapes = [(steps, batch, hidden), (batch, hidden), (batch, hidden)]
    ports = [port for port in range(3) if port == 0 or _written(build, entry, port)]
    outputs = [build.output(entry, shapes[port], port) for port in ports]
    outputs += [
        build.helper(entry, outputs[0], shapes[port], f"last_{port}") for port in range(len(outputs), 3)
    ]
    node = build.emit("exLSTM", entry, [x], outputs)
    stacked = (np.stack(part)[None].astype(np.float32) for part in (w, r, bias))
    wide, recurrent, biases = stacked
    node.doubts = doubts
    node.recurrent = RecurrentParams(4, hidden, 1, wide, recurrent, biases, np.zeros_like(biases))


def _written(build: GraphBuilder, entry: NodeEntry, port: int) -> bool:
    return port in entry.outputs or (entry.index, port) in build.found.virtuals


@lowers("GRU_OVXLIB")
def gru(build: GraphBuilder, entry: NodeEntry) -> None:
    """Slots 2-5, 10 and 11: weights of r and z, of input and state, then those of the candidate; 6-9, 12 and 13 biases."""
    x = build.input(entry)
    usual = {
        "activation": "VSI_NN_ACT_TANH",
        "recurrent_activation": "VSI_NN_ACT_SIGMOID",
        "use_cudnn_implementation": 0,
    }
    for key, value in usual.items():
        if entry.attrs.get(key, value) != value:
            raise build.unsupported(entry, f"{key} {entry.attrs[key]!r:.60} is not known")
    if not entry.attrs.get("time_major"):
        raise build.unsupported(entry, "sequences whose first axis is not the time are not known")
    steps, batch, features = build.shape(x)
    w, r = (np.stack([build.values(entry, slot) for slot in slots]) for slots in ((3, 2, 10), (5, 4, 11)))
    biases = [
        np.stack([_vector(build, entry, slot, w.shape[1]) for slot in slots])
        for slots in ((7, 6, 12), (9, 8, 13))
    ]
    hidden = w.shape[1]
    if w.shape != (3, hidden, features) or r.shape != (3, hidden, hidden):
        raise build.fail(entry, f"weights {list(w.shape)} and {list(r.shape)} for {features} features")
    ports = [port for port in range(2) if port == 0 or _written(build, entry, port)]
    every = bool(entry.attrs.get("return_sequences"))
    shapes = [(steps, batch, hidden) if every else (batch, hidden), (batch, hidden)]
    outputs = [build.output(entry, shapes[port], port) for port in ports]
    wide = outputs[0] if every else build.helper(entry, outputs[0], (steps, batch, hidden), "sequence")
    last = outputs[1] if len(outputs) > 1 else build.helper(entry, outputs[0], shapes[1], "last")
    state = [build.input(entry, 1)] if build.has(entry, 1) else []
    node = build.emit("exGRU", entry, [x, -1, -1, -1, -1, *state] if state else [x], [wide, last])
    node.recurrent = RecurrentParams(
        3, hidden, 1, w[None], r[None], biases[0][None], biases[1][None],
        linear_before_reset=bool(entry.attrs.get("linear_before_reset")),
    )  # fmt: skip
    source, before = build.tensors[x].quant, bool(entry.attrs.get("linear_before_reset"))
    if source is not None and build.tensors[x].dtype is not DType.UINT8 and not before:
        node.doubts.append(
            "a GRU in fixed point without linear_before_reset: results of the chip maker's simulator are no GRU's"
        )
    if not every:
        build.emit("Identity", entry, [last], [outputs[0]])


def _vector(build: GraphBuilder, entry: NodeEntry, slot: int, count: int) -> Array:
    found = build.values(entry, slot).reshape(-1) if build.has(entry, slot) else np.zeros(count, np.float32)
    if len(found) != count:
        raise build.fail(entry, f"{len(found)} biases for {count} units")
    return found


@lowers("RNN")
def cell(build: GraphBuilder, entry: NodeEntry) -> None:
    """One step: f(x W^T + h R^T + b), to the state and to the result; slots 1 to 4: W, R, b and h."""
    x, state = build.input(entry), build.input(entry, 4)
    w, r, bias = (build.values(entry, slot) for slot in (1, 2, 3))
    name = str(entry.attrs.get("activation", "VSI_NN_ACT_NONE"))[len("VSI_NN_ACT_") :]
    if name not in _FUNCTIONS or build.tensors[x].quant is not None:
        raise build.unsupported(
            entry, f"a cell of {build.tensors[x].dtype.short} with function {name[:40]!r} is not known"
        )
    shape = (build.shape(x)[0], len(w))
    if w.shape != (len(w), build.shape(x)[1]) or r.shape != (len(w), len(w)) or bias.shape != (len(w),):
        raise build.fail(
            entry, f"weights {list(w.shape)}, {list(r.shape)} and {list(bias.shape)} for {build.shape(x)}"
        )
    parts = []
    for word, read, weight in (("input", x, w), ("state", state, r)):
        parts.append(build.add(f"{entry.name}_{word}", DType.FLOAT32, shape))
        build.emit("MatMul", entry, [read, build.number(entry, weight.T, f"{word}_weight")], [parts[-1]])
    both, total = (build.add(f"{entry.name}_{word}", DType.FLOAT32, shape) for word in ("both", "total"))
    build.emit("Add", entry, parts, [both])
    build.emit("Add", entry, [both, build.number(entry, bias, "bias")], [total])
    op, attrs = _FUNCTIONS[name]
    for port in range(2):
        if _written(build, entry, port):
            node = build.emit(op, entry, [total], [build.output(entry, shape, port)], **attrs)
            if name in _IN_DOUBT:
                node.doubts.append(
                    f"a cell with the function {name}: the chip maker's simulator leaves the function out"
                )
