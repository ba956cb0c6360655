"""Proof that an engine computes what the numpy kernels do: every node is judged alone, on the engine's own operands.

Integers of 8 bits must be the same bytes. Where a transcendental function or a sum of floats is behind wider ones, engines and
numpy differ in the last bit: 99.9 % of them must be the same and the rest neighbours, as of 8 bits where a caller wants what is
fast (``engine_precise=False``). Floating results may differ by what another order of adding makes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rknnlite_graph.graph import Activation, Graph, Node, Tensor
from rknnlite_graph.operators import TABLE_FUNCTIONS, operator_of

from rknnlite.quant import RANGES
from rknnlite.tensor import DType

from ..values import Array

__all__ = ["agrees", "is_floating", "random_value"]

_SHARE, _FEW = 0.999, 3
_HALF_PRECISION, _SINGLE = 2e-3, 1e-4


def random_value(tensor: Tensor, random: np.random.Generator) -> Array:
    """A value of a tensor over its whole range, as a plan carries it."""
    if tensor.quant is not None:
        low, high = RANGES.get(tensor.dtype, (-(1 << 15), (1 << 15) - 1))
        drawn = random.integers(low, high + 1, tensor.shape)
        return (drawn - tensor.quant.zero_point).astype(np.float32)
    if tensor.dtype.is_float:
        low, high = tensor.value_range or (-1.0, 1.0)
        real = random.uniform(low, high, tensor.shape).astype(np.float32)
        return real.astype(np.float16).astype(np.float32) if tensor.dtype is DType.FLOAT16 else real
    return random.integers(0, 2, tensor.shape).astype(tensor.dtype.numpy)


def agrees(
    graph: Graph, node: Node, expected: Sequence[Array], found: Sequence[Array], precise: bool = True
) -> bool:
    """Whether the results of one node are those of its numpy kernel; ``precise``: 8 bits to the byte."""
    floating = is_floating(node)
    return all(
        _same(
            graph.tensors[index],
            a.reshape(graph.tensors[index].shape),
            b,
            floating and not (precise and graph.tensors[index].in_eight_bits),
        )
        for index, a, b in zip(node.outputs, expected, found)
    )


def is_floating(node: Node) -> bool:
    """Whether results of a node hang on the last bit of a float."""
    fused = node.fused
    if fused is not None and fused.after is Activation.TABLE:
        row = TABLE_FUNCTIONS.get(fused.function)
        return row is None or row.floating
    row = operator_of(node.op)
    return row is not None and row.floating


def _same(tensor: Tensor, expected: Array, found: Array, floating: bool) -> bool:
    if expected.shape != found.shape:
        return False
    if tensor.quant is None and tensor.dtype.is_float:
        finite = np.isfinite(expected)
        if not np.array_equal(finite, np.isfinite(found)):
            return False
        allowed = _HALF_PRECISION if tensor.dtype is DType.FLOAT16 else _SINGLE
        largest = float(np.abs(expected[finite]).max(initial=1e-6))
        return bool(np.abs(expected[finite] - found[finite]).max(initial=0) <= allowed * largest)
    if not floating:
        return bool(np.array_equal(expected, found))
    distance = np.abs(expected.astype(np.float64) - found.astype(np.float64))
    allowed = max(_FEW, (1 - _SHARE) * distance.size)  # 99.9 % of a few elements is none
    return bool(distance.max(initial=0) <= 1 and np.count_nonzero(distance) <= allowed)
