"""Reductions, arg-reductions, top-k."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..registry import LoweredNode, lowers

__all__ = ["sum_of_bytes"]

_EXACT, _LARGEST = 1 << 24, 255

_NOT_DEFINED = ("ReduceLogSum", "ReduceLogSumExp")
_WIDE = (np.int32, np.int64, np.float32, np.float64)


@lowers(
    "ReduceMax",
    "ReduceMin",
    "ReduceMean",
    "ReduceSum",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
def reduction(node: LoweredNode) -> None:
    """The CPU reference adds exponentials as they are, the operator of ONNX less the largest."""
    kind, rank = node.view.node.op, len(node.view.tensor(0).shape)
    axes = [a % rank for a in node.view.ints(1, "axes") or range(rank)]
    if kind in ("ReduceMean", "ReduceSum") and node.small(0) and node.exact:
        found = sum_of_bytes(node, axes, mean=kind == "ReduceMean")
        node.store(node.emit("Reshape", found, node.ints(*node.outputs[0].shape)))
        return
    x = _wide(node, exact_means=kind == "ReduceMean")
    if kind == "ReduceLogSumExp":
        x, kind = node.emit("Exp", x), "ReduceLogSum"
    if kind == "ReduceSum":
        found = node.emit(kind, x, node.ints(*axes), keepdims=1)
    elif kind == "ReduceLogSum":
        found = node.emit("Log", node.emit("ReduceSum", x, node.ints(*axes), keepdims=1))
    else:
        found = node.emit(kind, x, axes=axes, keepdims=1)
    shaped = node.emit("Reshape", found, node.ints(*node.outputs[0].shape))
    if node.typed(0).kind in "iub":
        node.store_whole(shaped)
    else:
        node.store(shaped, nan=node.view.node.op in _NOT_DEFINED)


def sum_of_bytes(node: LoweredNode, axes: Sequence[int], mean: bool) -> str:
    """The sum or mean of integers less their zero point: exact in any order, then in real values."""
    count, x = prod(node.view.tensor(0).shape[axis] for axis in axes), node.whole(0)
    if count * _LARGEST < _EXACT:
        total = node.emit("ReduceSum", x, node.ints(*axes), keepdims=1)
    else:
        wide = node.emit("ReduceSum", node.emitter.cast(x, np.float64), node.ints(*axes), keepdims=1)
        total = node.emitter.cast(wide, np.float32)
    total = node.emit("Mul", total, node.const(node.step(0)))
    return node.emit("Div", total, node.const(count)) if mean else total


def _wide(node: LoweredNode, exact_means: bool) -> str:
    """Reals, or integers in a type that engines reduce."""
    if node.typed(0).kind not in "iub":
        return node.real(0)
    return node.emitter.cast(node.native(0), np.float64 if exact_means else np.int64)


@lowers("ArgMax", "ArgMin")
def arg_reduce(node: LoweredNode) -> None:
    """The order of quantised values is that of their integers."""
    axis, last = int(node.parameters["axis"]), int(bool(node.parameters["select_last_index"]))
    if not node.view.is_const(0) and node.view.tensor(0).quant is not None:
        x = node.centred(0)
    else:
        x = node.native(0)
        if node.typed(0) not in (np.dtype(np.float32), np.dtype(np.int32)):
            x = node.emitter.cast(x, np.float64)
    found = node.emit(node.view.node.op, x, axis=axis, keepdims=1, select_last_index=last)
    node.store_whole(node.emit("Reshape", found, node.ints(*node.outputs[0].shape)))


@lowers("TopK")
def top_k(node: LoweredNode) -> None:
    axis = int(node.parameters["axis"]) % len(node.view.tensor(0).shape)
    x = node.native(0)
    if node.typed(0) not in [np.dtype(kind) for kind in _WIDE]:
        x = node.emitter.cast(x, np.int64)
    how = {"axis": axis, "largest": int(node.parameters["largest"]), "sorted": 1}
    count = node.ints(node.outputs[0].shape[axis])
    for position, name in enumerate(node.emitter.nodes("TopK", [x, count], 2, **how)):
        if position >= len(node.outputs):
            break
        if position or node.typed(0).kind in "iub":
            node.store_whole(name, position)
        else:
            node.store(name)
