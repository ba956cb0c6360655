"""Element-wise functions of several operands, with numpy broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from rknnlite_graph.node_view import NodeView

from rknnlite.quant import RANGES

from ..registry import centred_constant, check_operands, op, real_kernel, real_op
from ..values import Array, Kernel, centred_range

__all__: list[str] = []

_SINGLE = ("Max", "Min", "Sum")  # may have one operand


def _binary(name: str, function: Callable[[Array, Array], Any]) -> None:
    """All operands are folded from the left: Add, Mul, Max, Min may have three."""

    def run(view: NodeView, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            found = np.asarray(reduce(function, [o for o in operands if o is not None]))
        # the simulator has the largest value for 0 / 0
        if name == "Div" and view.outputs[0].quant is not None:
            np.copyto(found, np.inf, where=np.isnan(found))
        return found

    def build(view: NodeView) -> Kernel:
        check_operands(view, 1 if name in _SINGLE else 2)
        kernel = real_kernel(view, run) if view.steps_of_sum is None else _sum_in_steps(view)
        shapes = [tensor.shape for tensor in view.inputs if tensor is not None]
        try:
            same = prod(np.broadcast_shapes(*shapes)) == prod(view.outputs[0].shape)
        except ValueError:
            same = False
        if not same:
            raise view.fail(f"operands {[list(s) for s in shapes]} do not give {list(view.outputs[0].shape)}")
        return kernel

    op(name)(build)


_RECTIFIED = ("AddRelu", "SubRelu")


def _sum_in_steps(view: NodeView) -> Kernel:
    """See ``NodeView.steps_of_sum``."""
    steps, (low, high) = view.steps_of_sum, centred_range(view.outputs[0])
    assert steps is not None
    low = np.float32(0) if view.node.op in _RECTIFIED else low
    fixed = [centred_constant(view, i) if view.is_const(i) else None for i in (0, 1)]

    def kernel(values: list[Array]) -> list[Array]:
        live = iter(values)
        a, b = (next(live) if each is None else each for each in fixed)
        found = ((a * steps.first + steps.start) + b * steps.second) * steps.factor
        return [np.clip(np.rint(found) - steps.zero, low, high)]

    return kernel


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return np.trunc(a / np.where(b == 0, 1, b)).astype(a.dtype)
    return np.divide(a, b)


def _power(a: Array, b: Array) -> Array:
    return np.power(a, b.astype(np.float32) if a.dtype.kind == "f" else b)


_FUNCTIONS: dict[str, Callable[[Array, Array], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Sum": np.add,
    "Pow": _power,
    "AddRelu": lambda a, b: np.maximum(a + b, 0),
    "SubRelu": lambda a, b: np.maximum(a - b, 0),
    "MulRelu": lambda a, b: np.maximum(a * b, 0),
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}
for _name, _function in _FUNCTIONS.items():
    _binary(_name, _function)


@real_op("Mean")
def mean(view: NodeView, *operands: Array) -> Array:
    return np.asarray(reduce(np.add, operands) / np.float32(len(operands)))


@real_op("Mod")
def mod(view: NodeView, a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.fmod(a, b) if view.parameters["fmod"] else np.mod(a, b)


@real_op("Where")
def where(view: NodeView, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


@real_op("QuantizeLinear")
def quantize_linear(view: NodeView, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """The converter makes exDataConvert of it; where one is left, its tensor has the steps, or its operands do."""
    if view.outputs[0].quant is not None:
        return x
    steps, zeros = _per_axis(view, scale, x), _per_axis(view, zero, x)
    low, high = RANGES.get(view.outputs[0].dtype, (-(2**31), 2**31 - 1))
    return np.clip(np.rint(x / steps) + zeros, low, high)


@real_op("DequantizeLinear")
def dequantize_linear(view: NodeView, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """Of a tensor that has its steps nothing is left to do."""
    if view.tensor(0).quant is not None:
        return x
    return (x.astype(np.float32) - _per_axis(view, zero, x)) * _per_axis(view, scale, x)


def _per_axis(view: NodeView, parameter: Array | None, x: Array) -> Array:
    """One parameter, or one per element of ``axis``, laid along it."""
    if parameter is None or parameter.size == 1:
        return np.float32(0 if parameter is None else parameter.reshape(-1)[0]) * np.ones(1, np.float32)
    axis = int(view.parameters["axis"]) % x.ndim
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    return parameter.astype(np.float32).reshape(shape)
