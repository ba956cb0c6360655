"""Reductions, arg-reductions, top-k."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..registry import centred_kernel, check_operands, op, real_kernel, real_op
from ..values import Array, Kernel

__all__: list[str] = []


def _axes(view: NodeView, rank: int) -> tuple[int, ...]:
    axes = view.ints(1, "axes")
    return tuple(a % rank for a in axes) if axes else tuple(range(rank))


def _reduction(name: str, function: Callable[..., Any]) -> None:
    def run(view: NodeView, x: Array, axes: Array | None = None) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x, axis=_axes(view, x.ndim))).reshape(view.outputs[0].shape)

    def build(view: NodeView) -> Kernel:
        check_operands(view, 1)
        if name not in _SUMS or not view.tensor(0).in_eight_bits:
            return real_kernel(view, run)
        return centred_kernel(view, partial(sum_of_bytes, mean=name == "ReduceMean"))

    op(name)(build)


_SUMS = ("ReduceMean", "ReduceSum")


def sum_of_bytes(view: NodeView, x: Array, axes: Array | None = None, mean: bool = False) -> Array:
    """The sum or mean of integers less their zero point: exact in any order, then in real values."""
    params = view.tensor(0).quant
    assert params is not None
    over = _axes(view, x.ndim)
    total = x.sum(axis=over, dtype=np.float64).astype(np.float32) * np.float32(params.scale)
    if mean:
        total = total / np.float32(math.prod(x.shape[axis] for axis in over))
    return np.asarray(total).reshape(view.outputs[0].shape)


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
