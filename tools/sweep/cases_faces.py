"""L2 and L1 normalisation as exporters of face, re-identification and speaker models write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from graph import Case, Net

__all__ = ["cases"]

Shape = tuple[int, ...]
_MAP = (1, 20, 9, 7)
"""Height and width differ, and neither they nor the channels fill the lanes of any NPU."""


def _length(n: Net, how: str, x: str, axis: int) -> str:
    """The length of ``x`` along an axis, dimension kept."""
    if how in ("ReduceL1", "ReduceL2"):
        return n.op(how, x, axes=[axis], keepdims=1)
    if how == "ReduceSumSquare":
        return n.op("Sqrt", n.op("ReduceSumSquare", x, axes=[axis], keepdims=1))
    square = n.op("Mul", x, x) if how == "Mul" else n.op("Pow", x, n.const(2.0))
    return n.op("Sqrt", n.op("ReduceSum", square, n.ints(axis), keepdims=1))


def _divided(how: str, shape: Shape, axis: int, eps: float = 0.0) -> Callable[[Net], str]:
    """x / (length + eps)."""

    def build(n: Net) -> str:
        x = n.x(*shape)
        length = _length(n, how, x, axis)
        return n.op("Div", x, n.op("Add", length, n.const(eps)) if eps else length)

    return build


def _within_root(square: str, shape: Shape, axis: int, eps: float, size: float = 0.0) -> Callable[[Net], str]:
    """x / sqrt(sum(x^2) + eps)."""

    def build(n: Net) -> str:
        x = n.x(*shape, low=-size, high=size)
        squares = n.op("Mul", x, x) if square == "Mul" else n.op("Pow", x, n.const(2.0))
        total = n.op("ReduceSum", squares, n.ints(axis), keepdims=1)
        return n.op("Div", x, n.op("Sqrt", n.op("Add", total, n.const(eps))))

    return build


def _torch(
    how: str, limit: str, shape: Shape, axis: int, eps: float = 1e-12, size: float = 0.0
) -> Callable[[Net], str]:
    """torch.nn.functional.normalize: the length limited from below and expanded, old and new exporter.

    ``size``: values from -size to size, else standard normal.
    """

    def build(n: Net) -> str:
        x = n.x(*shape, low=-size, high=size)
        length = _length(n, how, x, axis)
        least = n.const(eps)
        length = n.op("Clip", length, least) if limit == "Clip" else n.op("Max", length, least)
        return n.op("Div", x, n.op("Expand", length, n.ints(*shape)))

    return build


def _reciprocal(kind: str, shape: Shape, axis: int) -> Callable[[Net], str]:
    """x times one over its length: TensorFlow's l2_normalize."""

    def build(n: Net) -> str:
        x = n.x(*shape)
        total = n.op("ReduceSum", n.op("Mul", x, x), n.ints(axis), keepdims=1)
        total = n.op("Max", total, n.const(1e-12))
        if kind == "Pow":
            return n.op("Mul", x, n.op("Pow", total, n.const(-0.5)))
        return n.op("Mul", x, n.op("Reciprocal", n.op("Sqrt", total)))

    return build


def _lp(p: int, shape: Shape, axis: int) -> Callable[[Net], str]:
    return lambda n: n.op("LpNormalization", n.x(*shape), axis=axis, p=p)


def _scaled(n: Net) -> str:
    """SSD's L2Norm: a factor per channel behind."""
    x = n.x(*_MAP)
    length = n.op("Add", n.op("Sqrt", n.op("ReduceSum", n.op("Pow", x, n.const(2.0)), n.ints(1), keepdims=1)),
                  n.const(1e-10))  # fmt: skip
    return n.op("Mul", n.op("Div", x, length), n.const(n.rng.uniform(5, 20, (1, 20, 1, 1))))


def _head(how: str) -> Callable[[Net], str]:
    """The end of a face embedding: depthwise convolution over everything, linear layer, normalisation."""

    def build(n: Net) -> str:
        x = n.op("PRelu", n.conv(n.x(1, 3, 14, 12), 3, 24), n.const(n.rng.uniform(0.1, 0.4, (24, 1, 1))))
        x = n.op("Conv", x, n.weight(24, 1, 14, 12), n.weight(24), group=24)
        x = n.op("Gemm", n.op("Flatten", x), n.weight(50, 24), n.weight(50), transB=1)
        if how == "LpNormalization":
            return n.op("LpNormalization", x, axis=1, p=2)
        length = n.op("Clip", _length(n, how, x, 1), n.const(1e-12))
        return n.op("Div", x, n.op("Expand", length, n.ints(1, 50)))

    return build


def _cosine_classifier(n: Net) -> str:
    """Normalised embedding against normalised class vectors (the vectors are constants)."""
    x = n.x(3, 40)
    unit = n.op("Div", x, n.op("ReduceL2", x, axes=[1], keepdims=1))
    weight = n.rng.standard_normal((40, 11))
    return n.op("MatMul", unit, n.const(weight / np.linalg.norm(weight, axis=0)))


def cases() -> Iterator[Case]:
    """All cases of this family."""
    rows: dict[str, tuple[Shape, int]] = {"map": (_MAP, 1), "vector": ((1, 130), 1), "batch": ((3, 50), 1)}
    for name, (shape, axis) in rows.items():
        yield Case(f"l2_{name}_l2", _divided("ReduceL2", shape, axis))
        yield Case(f"l2_{name}_l2_eps", _divided("ReduceL2", shape, axis, 0.02))
        yield Case(f"l2_{name}_mul", _divided("Mul", shape, axis))
        yield Case(f"l2_{name}_pow_eps", _divided("Pow", shape, axis, 0.05))
        yield Case(f"l2_{name}_pow_eps_within", _within_root("Pow", shape, axis, 3.0))
        yield Case(f"l2_{name}_mul_eps_within", _within_root("Mul", shape, axis, 3.0))
        yield Case(f"l2_{name}_sum_square", _divided("ReduceSumSquare", shape, axis))
        yield Case(f"l2_{name}_torch", _torch("ReduceL2", "Clip", shape, axis))
        yield Case(f"l2_{name}_reciprocal", _reciprocal("Reciprocal", shape, axis))
        yield Case(f"l2_{name}_lp", _lp(2, shape, axis))
    yield Case("l2_map_torch_max", _torch("ReduceL2", "Max", _MAP, 1))
    yield Case("l2_map_torch_sum_square", _torch("ReduceSumSquare", "Clip", _MAP, 1))
    yield Case("l2_map_limited", _torch("ReduceL2", "Clip", _MAP, 1, eps=4.5))
    yield Case("l2_map_limited_sum_square", _torch("ReduceSumSquare", "Max", _MAP, 1, eps=4.5))
    yield Case("l2_map_large", _torch("ReduceL2", "Clip", _MAP, 1, size=90.0))
    yield Case("l2_map_large_written", _within_root("Mul", _MAP, 1, 1e-6, 90.0))
    yield Case("l2_map_small", _torch("ReduceL2", "Clip", _MAP, 1, size=2e-3))
    yield Case("l2_map_small_written", _within_root("Mul", _MAP, 1, 1e-6, 2e-3))
    yield Case("l2_map_rsqrt", _reciprocal("Pow", _MAP, 1))
    yield Case("l2_map_scaled", _scaled)
    yield Case("l2_map_width", _divided("ReduceL2", _MAP, 3, 0.01))
    yield Case("l2_map_height", _torch("ReduceL2", "Clip", _MAP, 2))
    yield Case("l2_map_batch", _divided("ReduceL2", (2, 20, 5, 3), 1, 0.01))
    yield Case("l2_tokens", _torch("ReduceL2", "Clip", (1, 9, 28), 2))
    yield Case("l2_tokens_negative", _divided("ReduceL2", (1, 9, 28), -1, 0.01))
    yield Case("l2_heads", _torch("ReduceL2", "Clip", (1, 3, 9, 20), 3))
    yield Case("l1_map", _divided("ReduceL1", _MAP, 1))
    yield Case("l1_map_torch", _torch("ReduceL1", "Clip", _MAP, 1))
    yield Case("l1_map_eps", _divided("ReduceL1", _MAP, 1, 0.5))
    yield Case("l1_map_lp", _lp(1, _MAP, 1))
    yield Case("face_head", _head("ReduceL2"))
    yield Case("face_head_sum_square", _head("ReduceSumSquare"))
    yield Case("face_head_lp", _head("LpNormalization"))
    yield Case("cosine_classifier", _cosine_classifier)
