"""Element-wise functions of several operands, with broadcasting."""

from __future__ import annotations

import numpy as np

from ..registry import LoweredNode, lowers

__all__: list[str] = []

_FOLDED = {
    "Add": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "Max": "Max",
    "Min": "Min",
    "Sum": "Add",
    "AddRelu": "Add",
    "SubRelu": "Sub",
    "MulRelu": "Mul",
}
_COMPARED = {
    "Less": "Less",
    "Greater": "Greater",
    "LessOrEqual": "LessOrEqual",
    "GreaterOrEqual": "GreaterOrEqual",
    "Equal": "Equal",
}


def _operands(node: LoweredNode) -> list[str]:
    """All that are given: reals, or integers where all of them are."""
    positions = [i for i in range(len(node.view.inputs)) if node.has(i)]
    kinds = [node.typed(i) for i in positions]
    if all(kind.kind in "iu" for kind in kinds):
        wide = np.result_type(*kinds)
        return [
            node.native(i) if kind == wide else node.emitter.cast(node.native(i), wide)
            for i, kind in zip(positions, kinds)
        ]
    return [node.real(i) for i in positions]


def _whole(node: LoweredNode) -> bool:
    """Whether all operands are integers."""
    return all(node.typed(i).kind in "iu" for i in range(len(node.view.inputs)) if node.has(i))


def _folded(kind: str, onnx: str) -> None:
    def write(node: LoweredNode) -> None:
        if node.view.steps_of_sum is not None:
            _sum_in_steps(node, kind)
            return
        first, *others = _operands(node)
        for other in others:
            first = node.emit(onnx, first, other)
        if kind.endswith("Relu"):
            node.store(node.emit("Relu", first))
        elif _whole(node):
            node.store_whole(first)
        else:
            node.store(first)

    lowers(kind)(write)


def _sum_in_steps(node: LoweredNode, kind: str) -> None:
    """As the CPU reference, see ``NodeView.steps_of_sum``."""
    steps = node.view.steps_of_sum
    assert steps is not None
    zero = node.const(steps.zero)
    a, b = (node.emit("Mul", node.centred(i), node.const(factor)) for i, factor in enumerate(steps[:2]))
    found = node.emit(
        "Mul", node.emit("Add", node.emit("Add", a, node.const(steps.start)), b), node.const(steps.factor)
    )
    whole = node.emit("Sub", node.emit("Round", found), zero)
    node.values.store_centred(
        node.outputs[0].index, node.emit("Relu", whole) if kind.endswith("Relu") else whole
    )


for _kind, _onnx in _FOLDED.items():
    _folded(_kind, _onnx)


def _compared(kind: str, onnx: str) -> None:
    def write(node: LoweredNode) -> None:
        first, second = _operands(node)
        node.store_whole(node.emit(onnx, first, second))

    lowers(kind)(write)


for _kind, _onnx in _COMPARED.items():
    _compared(_kind, _onnx)


@lowers("And", "Or", "Xor")
def logical(node: LoweredNode) -> None:
    first, second = (node.emitter.cast(node.native(i), bool) for i in (0, 1))
    node.store_whole(node.emit(node.view.node.op, first, second))


@lowers("Div")
def divide(node: LoweredNode) -> None:
    """Integers are cut off, and what is divided by 0 is as if divided by 1. Quantised, 0 / 0 is the largest value."""
    first, second = _operands(node)
    if _whole(node):
        zero, one = (node.emitter.constant(v, node.typed(1)) for v in (0, 1))
        second = node.emit("Where", node.emit("Equal", second, zero), one, second)
        node.store_whole(node.emit("Div", first, second))
        return
    found = node.emit("Div", first, second)
    if node.outputs[0].quant is not None:
        found = node.emit("Where", node.emit("IsNaN", found), node.const(np.inf), found)
    node.store(found)


@lowers("Pow")
def power(node: LoweredNode) -> None:
    node.store(node.emit("Pow", *_operands(node)), nan=True)


@lowers("Mean")
def mean(node: LoweredNode) -> None:
    first, *others = _operands(node)
    for other in others:
        first = node.emit("Add", first, other)
    node.store(node.emit("Div", first, node.const(len(others) + 1)))


@lowers("Where")
def where(node: LoweredNode) -> None:
    condition = node.emitter.cast(node.native(0), bool)
    node.store(node.emit("Where", condition, node.real(1), node.real(2)))
