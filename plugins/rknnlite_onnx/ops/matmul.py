"""Matrix products of two activations, and attention; the steps are those of the CPU reference."""

from __future__ import annotations

from math import prod

import numpy as np
from rknnlite_graph.byte_tables import exponentials

from ..lowered_values import centred_range
from ..registry import LoweredNode, lowers
from .norm import softmax_of_bytes

__all__: list[str] = []

_EXACT, _LARGEST = 1 << 24, 255
"""Float32 sums of integers below the first are the same in any order; what 8 bits are at most less their zero point."""


def _whole_operands(node: LoweredNode) -> bool:
    """Whether the factors are integers of 8 bits, whose products are added exactly; refuses what would hang on the engine."""
    whole = node.exact and node.small(0) and node.small(1)
    if node.precise and not whole:
        raise node.refuse("sums of floats behind 8 bits")
    return whole


def _exactly(node: LoweredNode, a: str, b: str, depth: int) -> str:
    """The product of integers in float32 of 9 bits at most, rounded to float32 once where it passes 2**24."""
    if depth * _LARGEST**2 < _EXACT:
        return node.emit("MatMul", a, b)
    wide = (node.emitter.cast(each, np.float64) for each in (a, b))
    return node.emitter.cast(node.emit("MatMul", *wide), np.float32)


@lowers("MatMul", "Gemm", precise=True)
def plain_product(node: LoweredNode) -> None:
    if node.view.node.op == "MatMul" and all(node.typed(i).kind in "iu" for i in (0, 1)):
        wide = np.result_type(node.typed(0), node.typed(1))
        node.store(node.emit("MatMul", *(node.emitter.cast(node.native(i), wide) for i in (0, 1))))
        return
    whole, gemm = _whole_operands(node), node.view.node.op == "Gemm"
    turned = (
        [gemm and bool(node.parameters[flag]) for flag in ("transA", "transB")] if gemm else [False, False]
    )
    factors = [
        node.emit("Transpose", name, perm=[1, 0]) if turn else name
        for name, turn in zip(((node.whole if whole else node.real)(i) for i in (0, 1)), turned)
    ]
    if whole:
        depth = node.view.tensor(0).shape[0 if turned[0] else -1]
        out = node.emit("Mul", _exactly(node, *factors, depth), node.const(node.step(0) * node.step(1)))
    else:
        out = node.emit("MatMul", *factors)
    if not gemm:
        node.store(out)
        return
    out = _times(node, out, node.parameters["alpha"])
    if node.has(2):
        out = node.emit("Add", out, _times(node, node.real(2), node.parameters["beta"]))
    node.store(out)


def _times(node: LoweredNode, name: str, factor: float) -> str:
    return name if factor == 1 else node.emit("Mul", name, node.const(factor))


def _in_steps(node: LoweredNode, real: str, step: float, limits: tuple[float, float]) -> str:
    """Rounded to steps within limits."""
    steps = node.emit("Round", node.emit("Div", real, node.const(step)))
    return node.emit("Clip", steps, node.const(limits[0]), node.const(limits[1]))


def _through_steps(node: LoweredNode, real: str, step: float, limits: tuple[float, float]) -> str:
    """Rounded to steps within limits, and back; in the form QDQ, too: onnxruntime makes one of two pairs behind each other."""
    return node.emit("Mul", _in_steps(node, real, step, limits), node.const(step))


def _flat(node: LoweredNode, name: str, position: int, turned: bool = False) -> str:
    """[B, K, 1, N] -> [B, K, N], or [B, N, K]."""
    shape = node.view.tensor(position).shape
    if len(shape) != 4 or shape[2] != 1:
        raise node.refuse(f"operand {position} of shape {list(shape)}")
    flat = node.emit("Squeeze", name, node.ints(2))
    return node.emit("Transpose", flat, perm=[0, 2, 1]) if turned else flat


@lowers("exMatMul", precise=True)
def ex_matmul(node: LoweredNode) -> None:
    """A [B, K, 1, M] and B [B, K, 1, N] -> [B, M, 1, N]; a third operand multiplies or is added."""
    stored = node.view.is_const(0) or node.view.is_const(1)
    y = node.outputs[0]
    if stored and y.quant is not None and all(node.view.tensor(i).quant is not None for i in range(2)):
        _whole_product(node)
        return
    whole, step, b = _whole_operands(node), node.stepped_view.symmetric_step, node.real(1)
    if whole:
        b = node.whole(1) if step is None else _in_steps(node, b, step, (-128, 127))
        factors = _flat(node, node.whole(0), 0, True), _flat(node, b, 1)
        unit = node.step(0) * float(np.float32(node.step(1)) if step is None else step)
        product = _exactly(node, *factors, node.view.tensor(0).shape[1])
        product = node.emit("Mul", product, node.const(unit))
    else:
        b = b if step is None else _through_steps(node, b, step, (-128, 127))
        product = node.emit("MatMul", _flat(node, node.real(0), 0, True), _flat(node, b, 1))
    node.store(_third(node, node.emit("Unsqueeze", product, node.ints(2)), 1.0))


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
    wide = prod(most) * a.shape[1] >= _EXACT
    one, two = (e.cast(name, np.float64) if wide else name for name in names)
    out = node.emit("MatMul", _flat(node, one, 0, True), _flat(node, two, 1))
    out = node.emit("Unsqueeze", e.cast(out, np.float32) if wide else out, node.ints(2))
    out = _times(node, out, np.float32(a.quant.scale * b.quant.scale / y.quant.scale))
    node.values.store_centred(y.index, _third(node, out, 1 / y.quant.scale))


@lowers("exSDPAttention", precise=True)
def attention(node: LoweredNode) -> None:
    """[heads, d, 1, tokens] each -> softmax(scale * q^T k + mask^T) v in the same layout."""
    steps = node.stepped_view.attrs
    stored = "score_step" in steps and "weight_step" in steps
    if node.exact and stored and all(node.small(i) for i in range(3)):
        _attention_of_bytes(node)
        return
    if node.precise:
        raise node.refuse("an attention with sums of floats behind 8 bits")
    products = node.emit("MatMul", _flat(node, node.real(0), 0, True), _flat(node, node.real(1), 1))
    scores = _times(node, products, np.float32(steps.get("scale", 1.0)))
    if node.has(3):
        scores = node.emit("Add", scores, _flat(node, node.real(3), 3, True))
    if "score_step" in steps:
        zero = steps["score_zero_point"]
        scores = _through_steps(node, scores, steps["score_step"], (-128 - zero, 127 - zero))
    elif (
        "score_step" not in steps
        and node.has(3)
        and (params := node.stepped_view.tensor(3).quant) is not None
    ):
        unit = node.const(params.scale)
        scores = node.emit("Mul", node.emit("Round", node.emit("Div", scores, unit)), unit)
    weights = node.emit("Softmax", scores, axis=-1)
    if "weight_step" in steps:
        weights = _through_steps(node, weights, steps["weight_step"], (0, 255))
    turned = node.emit("Transpose", weights, perm=[0, 2, 1])
    out = node.emit("MatMul", _flat(node, node.real(2), 2), turned)
    node.store(node.emit("Unsqueeze", out, node.ints(2)))


def _attention_of_bytes(node: LoweredNode) -> None:
    """Scores and weights are integers in between, and all sums are of integers; step by step as the CPU reference."""
    steps, shape = node.attrs, node.view.tensor(0).shape
    heads, depth, _, rows = shape
    columns = node.view.tensor(1).shape[3]
    products = _exactly(node, _flat(node, node.whole(0), 0, True), _flat(node, node.whole(1), 1), depth)
    unit = node.step(0) * node.step(1) * float(np.float32(steps.get("scale", 1.0)))
    scores = node.emit("Mul", products, node.const(unit))
    if node.has(3):
        scores = node.emit("Add", scores, _flat(node, node.real(3), 3, True))
    zero = steps["score_zero_point"]
    whole = _in_steps(node, scores, steps["score_step"], (-128 - zero, 127 - zero))
    table = exponentials(steps["score_step"])
    weights = softmax_of_bytes(node, whole, (heads, rows, columns), 2, table)
    weights = _in_steps(node, weights, steps["weight_step"], (0, 255))
    turned = node.emit("Transpose", weights, perm=[0, 2, 1])
    out = _exactly(node, _flat(node, node.whole(2), 2), turned, columns)
    unit = node.step(2) * float(np.float32(steps["weight_step"]))
    node.store(node.emit("Unsqueeze", node.emit("Mul", out, node.const(unit)), node.ints(2)))
