"""Element-wise functions of one operand. For int8 a table of all values replaces the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rknnlite_graph import unary_functions as functions
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import OPERATORS, Operator

from rknnlite.tensor import DType

from ..registry import op, real_kernel, real_op
from ..values import Array, Kernel, centred_range, decode, encode

__all__: list[str] = []

Unary = Callable[[NodeView, Array], Array]
_ONNX_BOOL = 9


def unary(*names: str) -> Callable[[Unary], Unary]:
    """Register ``fn(view, real) -> real``."""

    def wrap(function: Unary) -> Unary:
        op(*names)(lambda view: _unary_kernel(view, function))
        return function

    return wrap


def _by_points(view: NodeView) -> Kernel:
    """A function known at a few points, which files of the first toolkit alone have."""
    from rknnlite_graph.point_tables import by_points

    target = view.outputs[0]

    def kernel(values: list[Array]) -> list[Array]:
        found = by_points(view, values[0])
        return [found if target.quant is not None else encode(found, target)]

    return kernel


def _unary_kernel(view: NodeView, function: Unary) -> Kernel:
    source, target = view.tensor(0), view.outputs[0]
    wide = view.floats_behind_bytes

    def direct(values: list[Array]) -> list[Array]:
        real = decode(values[0], source)
        if wide and real.dtype == np.float32:
            return [encode(functions.in_double(lambda x: function(view, x), real), target)]
        with np.errstate(all="ignore"):
            return [encode(function(view, real), target)]

    compute = _by_points(view) if view.node.points else direct
    if source.quant is None or source.dtype not in (DType.INT8, DType.UINT8):
        return compute
    from rknnlite_graph.byte_tables import function_table

    low, high = centred_range(source)
    table = function_table(view)
    if table is None:
        table = compute([np.arange(low, high + 1, dtype=np.float32)])[0]
    elif target.quant is None:
        table = encode(table, target)

    def look_up(values: list[Array]) -> list[Array]:
        return [table.take((values[0] - low).astype(np.intp))]

    return look_up


def _function(row: Operator, function: Callable[..., Any]) -> None:
    """Register a function of ``unary_functions`` with the parameters of its row."""

    def build(view: NodeView) -> Kernel:
        parameters = view.parameters.values()
        return _unary_kernel(view, lambda view, x: function(x, *parameters))

    op(*row.names)(build)


for _row in OPERATORS:
    if _row.name in functions.FUNCTIONS:
        _function(_row, functions.FUNCTIONS[_row.name])


@op("exGelu", "Gelu")
def gelu(view: NodeView) -> Kernel:
    """The exact one; the other kind is refused."""
    view.choice("approximate", "none")
    return _unary_kernel(view, lambda view, x: functions.gelu(x))


@op("Clip")
def clip(view: NodeView) -> Kernel:
    """Limits are constants, or computed by the network."""
    limits = [i for i in (1, 2) if view.has(i) and not view.is_const(i)]
    return real_kernel(view, _clip_to) if limits else _unary_kernel(view, _clip)


def _clip_to(view: NodeView, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    above = -np.inf if low is None else low.reshape(-1)[0]
    below = np.inf if high is None else high.reshape(-1)[0]
    return np.minimum(np.maximum(x, np.float32(above)), np.float32(below))


def _clip(view: NodeView, x: Array) -> Array:
    limits = view.parameters
    low = view.constant(1).reshape(-1)[0] if view.has(1) else limits["min"]
    high = view.constant(2).reshape(-1)[0] if view.has(2) else limits["max"]
    return np.clip(x, np.float32(low), np.float32(high))


@unary("Cast")
def cast(view: NodeView, x: Array) -> Array:
    """To bool every value but 0 is true; its tensor may be int8. Rounding to other types is the output's matter."""
    return x != 0 if view.attrs.get("to") == _ONNX_BOOL else x


@real_op("PRelu")
def prelu(view: NodeView, x: Array, slope: Array) -> Array:
    if slope.ndim < x.ndim and slope.size == x.shape[1]:
        slope = slope.reshape(1, -1, *([1] * (x.ndim - 2)))
    return np.where(x < 0, x * slope, x)


@real_op("Hardmax")
def hardmax(view: NodeView, x: Array) -> Array:
    axis = int(view.parameters["axis"])
    first = np.expand_dims(np.argmax(x, axis=axis), axis)
    places = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return (places == first).astype(np.float32)
