"""Reductions, arg-reductions, top-k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..registry import real_op
from ..values import Array

__all__: list[str] = []


def _axes(view: NodeView, rank: int) -> tuple[int, ...]:
    axes = view.ints(1, "axes")
    return tuple(a % rank for a in axes) if axes else tuple(range(rank))


def _reduction(name: str, function: Callable[..., Any]) -> None:
    def run(view: NodeView, x: Array, axes: Array | None = None) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x, axis=_axes(view, x.ndim))).reshape(view.outputs[0].shape)

    real_op(name)(run)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceMean": np.mean,
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, axis: np.abs(x).sum(axis=axis),
    "ReduceL2": lambda x, axis: np.sqrt(np.square(x).sum(axis=axis)),
    "ReduceSumSquare": lambda x, axis: np.square(x).sum(axis=axis),
    "ReduceLogSum": lambda x, axis: np.log(x.sum(axis=axis)),
    "ReduceLogSumExp": lambda x, axis: np.log(np.exp(x).sum(axis=axis)),
}
for _name, _function in _REDUCTIONS.items():
    _reduction(_name, _function)


@real_op("ArgMax", "ArgMin")
def arg_reduce(view: NodeView, x: Array) -> Array:
    axis = int(view.parameters["axis"])
    sign = 1 if view.node.op == "ArgMax" else -1
    signed = x * sign if x.dtype.kind == "f" else x.astype(np.int64) * sign
    if view.parameters["select_last_index"]:
        index = x.shape[axis] - 1 - np.argmax(np.flip(signed, axis), axis=axis)
    else:
        index = np.argmax(signed, axis=axis)
    return index.reshape(view.outputs[0].shape)


@real_op("TopK")
def top_k(view: NodeView, x: Array, k: Array | None = None) -> tuple[Array, Array]:
    axis = int(view.parameters["axis"]) % x.ndim
    count = view.outputs[0].shape[axis]
    key = -x if view.parameters["largest"] else x
    order = np.take(np.argsort(key, axis=axis, kind="stable"), np.arange(count), axis=axis)
    return np.take_along_axis(x, order, axis=axis), order
