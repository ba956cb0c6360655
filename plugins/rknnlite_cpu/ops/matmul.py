"""Matrix products of two activations, and attention."""

from __future__ import annotations

from math import prod

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..kernels.parallel import matmul
from ..registry import check_operands, op, real_kernel, real_op
from ..values import Array, Kernel, centred_range, decode, encode
from .norm import softmax

__all__: list[str] = []

_EXACT = 1 << 24
"""Float32 sums of integers below it are the same in any order."""


@real_op("MatMul", "Gemm")
def plain_product(view: NodeView, a: Array, b: Array, c: Array | None = None) -> Array:
    if view.node.op == "MatMul":
        return matmul(a, b)
    a = a.T if view.parameters["transA"] else a
    b = b.T if view.parameters["transB"] else b
    out = matmul(a, b) * np.float32(view.parameters["alpha"])
    return out if c is None else out + c * np.float32(view.parameters["beta"])


def symmetric(view: NodeView, real: Array) -> Array:
    """B requantised without zero point, as the NPU needs what it uses in place of weights.

    The step is max(|min|, |max|) / 127 of the calibrated range (measured: makes products bit-identical), or what the
    registers tell where the file has no ranges. Not where either operand is stored: there the weights have their zero point.
    """
    tensor = view.tensor(1)
    if tensor.quant is None or tensor.dtype.bits != 8:
        return real
    step = np.float32(view.attrs.get("b_step", 0))
    if tensor.value_range is not None:
        step = np.float32(max(abs(v) for v in tensor.value_range) / 127)
    return np.clip(np.rint(real / step), -128, 127) * step if step > 0 else real


@op("exMatMul")
def ex_matmul(view: NodeView) -> Kernel:
    """A [B, K, 1, M] and B [B, K, 1, N] -> [B, M, 1, N]; a third operand multiplies or is added."""
    check_operands(view, 2, rank=4)
    stored = view.is_const(0) or view.is_const(1)
    if stored and all(tensor.quant is not None for tensor in (*view.inputs[:2], view.outputs[0]) if tensor):
        return _whole_product(view)

    def product(view: NodeView, a: Array, b: Array, c: Array | None = None) -> Array:
        return _with_third(view, _items(a, b if stored else symmetric(view, b)), c)

    return real_kernel(view, product)


def _items(a: Array, b: Array) -> Array:
    return matmul(a[:, :, 0].transpose(0, 2, 1), b[:, :, 0])[:, :, None]


def _with_third(view: NodeView, out: Array, c: Array | None) -> Array:
    if c is None:
        return out
    return out * c if view.choice("c_type", "mul", "add") == "mul" else out + c


def _whole_product(view: NodeView) -> Kernel:
    """A product with stored weights, on integers: the same sums in any order."""
    a, b, y = view.tensor(0), view.tensor(1), view.outputs[0]
    assert a.quant is not None and b.quant is not None and y.quant is not None
    fixed = [encode(view.constant(i), view.tensor(i)) if view.is_const(i) else None for i in range(2)]
    most = [float(max(abs(limit) for limit in centred_range(tensor))) for tensor in (a, b)]
    exact = np.float32 if prod(most) * a.shape[1] < _EXACT else np.float64
    scale = np.float32(a.quant.scale * b.quant.scale / y.quant.scale)
    third = view.constant(2) if view.is_const(2) else None
    c, multiplies = view.tensor(2) if view.has(2) else None, view.choice("c_type", "mul", "add") == "mul"

    def kernel(values: list[Array]) -> list[Array]:
        live = iter(values)
        one, two = (next(live) if value is None else value for value in fixed)
        out = _items(one.astype(exact, copy=False), two.astype(exact, copy=False)).astype(np.float32) * scale
        if c is not None:
            real = decode(next(live), c) if third is None else third
            out = out * real if multiplies else out + real * np.float32(1 / y.quant.scale)
        return [np.clip(np.rint(out), *centred_range(y))]

    return kernel


@real_op("exSDPAttention", rank=4)
def attention(view: NodeView, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
    """[heads, d, 1, tokens] each -> softmax(scale * q^T k + mask^T) v in the same layout.

    int8 nodes store scores and softmax as int8 in between, in steps that the registers tell. A quantised mask
    swallows the scores in its own step, as the vendor's simulator has it.
    """
    steps = view.attrs
    scores = matmul(q[:, :, 0].transpose(0, 2, 1), k[:, :, 0]) * np.float32(steps.get("scale", 1.0))
    if mask is not None:
        scores = scores + mask[:, :, 0].transpose(0, 2, 1)
    if "score_step" in steps:
        scores = _stored(scores, steps["score_step"], steps["score_zero_point"])
    elif mask is not None and (params := view.tensor(3).quant) is not None:
        scores = np.rint(scores / np.float32(params.scale)) * np.float32(params.scale)
    weights = softmax(scores, -1)
    if "weight_step" in steps:
        weights = _stored(weights, steps["weight_step"], -128)
    return matmul(v[:, :, 0], weights.transpose(0, 2, 1))[:, :, None]


def _stored(real: Array, step: float, zero_point: int) -> Array:
    """Values rounded to int8 and back."""
    unit = np.float32(step)
    return np.clip(np.rint(real / unit), -128 - zero_point, 127 - zero_point) * unit
