"""Matrix products of two activations, and attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
from rknnlite_graph.node_view import NodeView

from ..kernels.parallel import matmul
from ..registry import centred_kernel, check_operands, op, real_kernel
from ..values import Array, Kernel, centred_range, decode, encode
from .norm import softmax, softmax_of_bytes

__all__: list[str] = []

_EXACT, _LARGEST = 1 << 24, 255
"""Float32 sums of integers below the first are the same in any order; what 8 bits are at most less their zero point."""


def _exactly(a: Array, b: Array) -> Array:
    """The product of integers in float32 of 9 bits at most, rounded to float32 once where it passes 2**24."""
    if a.shape[-1] * _LARGEST**2 < _EXACT:
        return matmul(a, b)
    return matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)


def _step(view: NodeView, position: int) -> float:
    params = view.tensor(position).quant
    assert params is not None
    return params.scale


@op("MatMul", "Gemm")
def plain_product(view: NodeView) -> Kernel:
    check_operands(view, 2)
    if not (view.tensor(0).in_eight_bits and view.tensor(1).in_eight_bits):
        return real_kernel(view, partial(_plain_product, times=matmul))
    step = np.float32(_step(view, 0) * _step(view, 1))
    return centred_kernel(view, partial(_plain_product, times=lambda a, b: _exactly(a, b) * step), 2)


def _plain_product(
    view: NodeView, a: Array, b: Array, c: Array | None = None, *, times: Callable[[Array, Array], Array]
) -> Array:
    if view.node.op == "MatMul":
        return times(a, b)
    a = a.T if view.parameters["transA"] else a
    b = b.T if view.parameters["transB"] else b
    out = times(a, b) * np.float32(view.parameters["alpha"])
    return out if c is None else out + c * np.float32(view.parameters["beta"])


@op("exMatMul")
def ex_matmul(view: NodeView) -> Kernel:
    """A [B, K, 1, M] and B [B, K, 1, N] -> [B, M, 1, N]; a third operand multiplies or is added."""
    check_operands(view, 2, 4)
    if view.is_const(0) or view.is_const(1):
        if all(tensor.quant is not None for tensor in (view.tensor(0), view.tensor(1), view.outputs[0])):
            return _whole_product(view)
        return real_kernel(view, _ex_matmul)
    if not (view.tensor(0).in_eight_bits and view.tensor(1).in_eight_bits):
        return real_kernel(view, _ex_matmul)
    step_a, step_b, again = _step(view, 0), _step(view, 1), view.symmetric_step
    unit = np.float32(step_a * float(again or np.float32(step_b)))

    def run(_: NodeView, a: Array, b: Array, c: Array | None = None) -> Array:
        if again is not None:
            b = np.clip(np.rint(b * np.float32(step_b) / again), -128, 127)
        return _with_third(view, _items(a, b) * unit, c)

    return centred_kernel(view, run, 2)


def _ex_matmul(view: NodeView, a: Array, b: Array, c: Array | None = None) -> Array:
    step = view.symmetric_step
    b = b if step is None else np.clip(np.rint(b / step), -128, 127) * step
    return _with_third(view, _items(a, b, matmul), c)


def _items(a: Array, b: Array, times: Callable[[Array, Array], Array] = _exactly) -> Array:
    return times(a[:, :, 0].transpose(0, 2, 1), b[:, :, 0])[:, :, None]


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
        out = (
            _items(one.astype(exact, copy=False), two.astype(exact, copy=False), matmul).astype(np.float32)
            * scale
        )
        if c is not None:
            real = decode(next(live), c) if third is None else third
            out = out * real if multiplies else out + real * np.float32(1 / y.quant.scale)
        return [np.clip(np.rint(out), *centred_range(y))]

    return kernel


@op("exSDPAttention")
def attention(view: NodeView) -> Kernel:
    """[heads, d, 1, tokens] each -> softmax(scale * q^T k + mask^T) v in the same layout.

    int8 nodes store scores and softmax as int8 in between, in steps that the registers tell. A quantised mask
    swallows the scores in its own step, as the vendor's simulator has it.
    """
    check_operands(view, 3, 4)
    steps = view.attrs
    stored = "score_step" in steps and "weight_step" in steps
    if not (stored and all(view.tensor(i).in_eight_bits for i in range(3))):
        return real_kernel(view, _attention)
    unit = np.float32(_step(view, 0) * _step(view, 1) * float(np.float32(steps.get("scale", 1.0))))
    score_step, weight_step = np.float32(steps["score_step"]), np.float32(steps["weight_step"])
    value_unit = np.float32(_step(view, 2) * float(weight_step))
    from rknnlite_graph.byte_tables import exponentials

    table = exponentials(score_step)

    def run(_: NodeView, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        scores = _exactly(q[:, :, 0].transpose(0, 2, 1), k[:, :, 0]) * unit
        if mask is not None:
            scores = scores + mask[:, :, 0].transpose(0, 2, 1)
        whole = _whole(scores, score_step, steps["score_zero_point"])
        weights = _whole(softmax_of_bytes(whole, -1, table), weight_step, -128)
        return _exactly(v[:, :, 0], weights.transpose(0, 2, 1))[:, :, None] * value_unit

    return centred_kernel(view, run, 3)


def _attention(view: NodeView, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
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


def _whole(real: Array, step: np.float32, zero_point: int) -> Array:
    """Values as int8 in steps, less the zero point."""
    return np.clip(np.rint(real / step), -128 - zero_point, 127 - zero_point)


def _stored(real: Array, step: float, zero_point: int) -> Array:
    """Values rounded to int8 and back."""
    unit = np.float32(step)
    return _whole(real, unit, zero_point) * unit
