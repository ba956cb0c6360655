"""Shapes of products: matrices, attention, recurrent layers; and what shapes have together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Optional

from .graph import Node, Tensor

__all__ = ["attended", "gemm", "item_product", "joint", "plain_recurrent", "product"]

Operands = Sequence[Optional[Tensor]]


def joint(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that shapes have together, as numpy broadcasts them; raises ValueError when they have none."""
    rank = max(map(len, shapes))
    sizes = list(zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes)))
    if any(len(set(at) - {1}) > 1 for at in sizes):
        raise ValueError("they do not go together")
    return tuple(next((n for n in at if n != 1), 1) for at in sizes)


def _multiplied(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape of ``numpy.matmul``; raises ValueError or IndexError when there is no product."""
    a, b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    if a[-1] != b[-2]:
        raise ValueError("the inner sizes differ")
    return (*joint(a[:-2], b[:-2], ()), a[-2], b[-1])


def product(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """``numpy.matmul`` of both operands."""
    b = operands[1]
    return b is not None and prod(_multiplied(x.shape, b.shape)) == prod(y.shape)


def gemm(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Either operand turned around, and something added."""
    b, c = operands[1], operands[2] if len(operands) > 2 else None
    if b is None:
        return False
    left = x.shape[::-1] if node.attrs.get("transA") else x.shape
    right = b.shape[::-1] if node.attrs.get("transB") else b.shape
    found = _multiplied(left, right)
    return prod(found if c is None else joint(found, c.shape)) == prod(y.shape)


def item_product(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """A [B, K, 1, M] and B [B, K, 1, N] give [B, M, 1, N], which a third operand may spread."""
    b, c = operands[1], operands[2] if len(operands) > 2 else None
    if b is None or len(x.shape) != 4 or len(b.shape) != 4 or x.shape[1] != b.shape[1]:
        return False
    found = (*joint(x.shape[:1], b.shape[:1]), x.shape[3], 1, b.shape[3])
    return (
        prod(found if c is None else joint(found, c.shape)) == prod(y.shape)
        and min(x.shape[2], b.shape[2]) > 0
    )


def attended(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """q, k, v [heads, d, 1, tokens] and a mask [.., tokens of k, 1, tokens of q] -> [heads, d of v, 1, tokens of q]."""
    k, v = operands[1], operands[2]
    mask = operands[3] if len(operands) > 3 else None
    if (
        k is None
        or v is None
        or any(len(tensor.shape) != 4 for tensor in (x, k, v))
        or x.shape[1] != k.shape[1]
    ):
        return False
    heads = joint(x.shape[:1], k.shape[:1])
    scores: tuple[int, ...] = (*heads, x.shape[3], k.shape[3])
    if mask is not None:
        if len(mask.shape) != 4 or mask.shape[2] < 1:
            return False
        scores = joint(scores, (mask.shape[0], mask.shape[3], mask.shape[1]))
    fits = scores[2] == v.shape[3] and len(scores) == 3
    return fits and prod((*joint(scores[:1], v.shape[:1]), v.shape[1], scores[1])) == prod(y.shape)


def plain_recurrent(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """x [T, B, I], w [D, H, I], r [D, H, H] -> [T, D, B, H]."""
    w, r = operands[1], operands[2]
    if w is None or r is None or any(len(tensor.shape) != 3 for tensor in (x, w, r)):
        return False
    directions, hidden, inputs = w.shape
    b, h0 = (operands[i] if len(operands) > i else None for i in (3, 5))
    fits = (b is None or b.shape == (directions, 2 * hidden)) and r.shape == (directions, hidden, hidden)
    fits = fits and (h0 is None or h0.shape == (directions, x.shape[1], hidden))
    return fits and inputs == x.shape[2] and prod((*x.shape[:2], directions, hidden)) == prod(y.shape)
