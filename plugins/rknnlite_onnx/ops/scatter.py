"""Scatter: indexed writes, and what is made of indices."""

from __future__ import annotations

from math import prod

import numpy as np

from ..registry import LoweredNode, lowers
from .gather import places

__all__: list[str] = []


def _scatter(node: LoweredNode, kind: str, **how: int) -> None:
    """A copy of the first operand with updates written or joined; those are real, like the result."""
    reduction = str(node.attrs.get("reduction") or "none")
    if reduction in ("max", "min"):
        raise node.refuse(f"reduction {reduction!r} came with operator set 18")
    whole = node.typed(0).kind in "iub"
    if whole:
        x, updates = node.native(0), node.emitter.cast(node.native(2), node.typed(0))
    else:
        x, updates = node.real(0), node.real(2)
    node.store(node.emit(kind, x, places(node), updates, reduction=reduction, **how))


@lowers("ScatterND")
def scatter_nd(node: LoweredNode) -> None:
    _scatter(node, "ScatterND")


@lowers("ScatterElements", "Scatter")
def scatter_elements(node: LoweredNode) -> None:
    _scatter(node, "ScatterElements", axis=int(node.parameters["axis"]) % len(node.view.tensor(0).shape))


@lowers("OneHot")
def one_hot(node: LoweredNode) -> None:
    """Indices equal to a count; the operator of ONNX takes few types."""
    axis = int(node.parameters["axis"])
    shape = node.outputs[0].shape
    count = shape[axis]
    whole = node.emit("Mod", places(node, 0), node.const(count, np.int64))
    hot = node.emit("Unsqueeze", whole, node.ints(axis))
    row = [1] * len(shape)
    row[axis] = count
    chosen = node.emit("Equal", hot, node.const(np.arange(count).reshape(row), np.int64))
    if node.view.is_const(2):
        off, on = (node.const(value) for value in node.constant(2).reshape(-1)[:2])
    else:
        flat = node.emit("Reshape", node.real(2), node.ints(-1))
        off, on = (node.emit("Gather", flat, node.const(i, np.int64), axis=0) for i in (0, 1))
    node.store(node.emit("Where", chosen, on, off))


@lowers("MaxUnpool")
def max_unpool(node: LoweredNode) -> None:
    """Elements back to where the maxima were, zeros elsewhere; places count through the whole output."""
    shape = node.outputs[0].shape
    flat = [node.emit("Reshape", name, node.ints(-1)) for name in (places(node), node.real(0))]
    empty = node.emit("ConstantOfShape", node.ints(prod(shape)))
    filled = node.emit("ScatterElements", empty, *flat, axis=0)
    node.store(node.emit("Reshape", filled, node.ints(*shape)))
