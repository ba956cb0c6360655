"""Matrix products of two activations, and attention; the steps are those of the CPU reference."""

from __future__ import annotations

from math import prod

import numpy as np

from ..lowered_values import centred_range
from ..registry import LoweredNode, lowers

__all__: list[str] = []

_EXACT = 1 << 24
"""Float32 sums of integers below it are the same in any order."""


@lowers("MatMul", "Gemm")
def plain_product(node: LoweredNode) -> None:
    if node.view.node.op == "MatMul":
        if all(node.typed(i).kind in "iu" for i in (0, 1)):
            wide = np.result_type(node.typed(0), node.typed(1))
            node.store(node.emit("MatMul", *(node.emitter.cast(node.native(i), wide) for i in (0, 1))))
        else:
            node.store(node.emit("MatMul", node.real(0), node.real(1)))
        return
    factors = [
        node.emit("Transpose", node.real(i), perm=[1, 0]) if node.parameters[flag] else node.real(i)
        for i, flag in ((0, "transA"), (1, "transB"))
    ]
    out = _times(node, node.emit("MatMul", *factors), node.parameters["alpha"])
    if node.has(2):
        out = node.emit("Add", out, _times(node, node.real(2), node.parameters["beta"]))
    node.store(out)


def _times(node: LoweredNode, name: str, factor: float) -> str:
    return name if factor == 1 else node.emit("Mul", name, node.const(factor))


def _symmetric(node: LoweredNode) -> str:
    """B requantised without zero point, as the NPU needs what it uses in place of weights; see the CPU reference."""
    tensor, real = node.view.tensor(1), node.real(1)
    if tensor.quant is None or tensor.dtype.bits != 8:
        return real
    step = np.float32(node.attrs.get("b_step", 0))
    if tensor.value_range is not None:
        step = np.float32(max(abs(v) for v in tensor.value_range) / 127)
    return _through_steps(node, real, step, (-128, 127)) if step > 0 else real


def _through_steps(node: LoweredNode, real: str, step: float, limits: tuple[float, float]) -> str:
    """Rounded to steps within limits, and back."""
    unit = node.const(step)
    steps = node.emit("Round", node.emit("Div", real, unit))
    return node.emit("Mul", node.emit("Clip", steps, node.const(limits[0]), node.const(limits[1])), unit)


def _flat(node: LoweredNode, name: str, position: int, turned: bool = False) -> str:
    """[B, K, 1, N] -> [B, K, N], or [B, N, K]."""
    shape = node.view.tensor(position).shape
    if len(shape) != 4 or shape[2] != 1:
        raise node.refuse(f"operand {position} of shape {list(shape)}")
    flat = node.emit("Squeeze", name, node.ints(2))
    return node.emit("Transpose", flat, perm=[0, 2, 1]) if turned else flat


@lowers("exMatMul")
def ex_matmul(node: LoweredNode) -> None:
    """A [B, K, 1, M] and B [B, K, 1, N] -> [B, M, 1, N]; a third operand multiplies or is added."""
    stored = node.view.is_const(0) or node.view.is_const(1)
    y = node.outputs[0]
    if stored and y.quant is not None and all(node.view.tensor(i).quant is not None for i in range(2)):
        _whole_product(node)
        return
    second = node.real(1) if stored else _symmetric(node)
    node.store(_third(node, _items(node, node.real(0), second), 1.0))


def _items(node: LoweredNode, a: str, b: str) -> str:
    product = node.emit("MatMul", _flat(node, a, 0, True), _flat(node, b, 1))
    return node.emit("Unsqueeze", product, node.ints(2))


def _third(node: LoweredNode, out: str, unit: float) -> str:
    """The third operand, if there is one; what is added is in units of the product."""
    if not node.has(2):
        return out
    if node.attrs.get("c_type", "mul") == "mul":
        return node.emit("Mul", out, node.real(2))
    return node.emit("Add", out, _times(node, node.real(2), np.float32(unit)))


def _whole_product(node: LoweredNode) -> None:
    """A product with stored weights, on integers: exact sums, in double where float32 does not hold them."""
    a, b, y, e = node.view.tensor(0), node.view.tensor(1), node.outputs[0], node.emitter
    assert a.quant is not None and b.quant is not None and y.quant is not None
    most = [max(abs(limit) for limit in centred_range(tensor)) for tensor in (a, b)]
    names = []
    for i, tensor in enumerate((a, b)):
        assert tensor.quant is not None
        whole = (
            np.rint(node.view.constant(i) / np.float32(tensor.quant.scale)) if node.view.is_const(i) else None
        )
        names.append(node.centred(i) if whole is None else node.const(whole))
    if prod(most) * a.shape[1] >= _EXACT:
        names = [e.cast(name, np.float64) for name in names]
        out = e.cast(_items(node, *names), np.float32)
    else:
        out = _items(node, *names)
    out = _times(node, out, np.float32(a.quant.scale * b.quant.scale / y.quant.scale))
    node.values.store_centred(y.index, _third(node, out, 1 / y.quant.scale))


@lowers("exSDPAttention")
def attention(node: LoweredNode) -> None:
    """[heads, d, 1, tokens] each -> softmax(scale * q^T k + mask^T) v in the same layout."""
    steps = node.attrs
    products = node.emit("MatMul", _flat(node, node.real(0), 0, True), _flat(node, node.real(1), 1))
    scores = _times(node, products, np.float32(steps.get("scale", 1.0)))
    if node.has(3):
        scores = node.emit("Add", scores, _flat(node, node.real(3), 3, True))
    if "score_step" in steps:
        zero = steps["score_zero_point"]
        scores = _through_steps(node, scores, steps["score_step"], (-128 - zero, 127 - zero))
    elif "score_step" not in steps and node.has(3) and (params := node.view.tensor(3).quant) is not None:
        unit = node.const(params.scale)
        scores = node.emit("Mul", node.emit("Round", node.emit("Div", scores, unit)), unit)
    weights = node.emit("Softmax", scores, axis=-1)
    if "weight_step" in steps:
        weights = _through_steps(node, weights, steps["weight_step"], (0, 255))
    turned = node.emit("Transpose", weights, perm=[0, 2, 1])
    out = node.emit("MatMul", _flat(node, node.real(2), 2), turned)
    node.store(node.emit("Unsqueeze", out, node.ints(2)))
