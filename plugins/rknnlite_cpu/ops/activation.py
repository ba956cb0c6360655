"""Element-wise functions of one operand. For int8 a table of all values replaces the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rknnlite_graph.tables import elu_alpha, hard_sigmoid_line, silu_beta
from rknnlite_graph.view import NodeView

from rknnlite.tensor import DType

from ..kernels import functions
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


def _unary_kernel(view: NodeView, function: Unary) -> Kernel:
    source, target = view.tensor(0), view.outputs[0]
    stage = view.node.stage

    def direct(values: list[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [encode(function(view, decode(values[0], source)), target)]

    if source.quant is None or source.dtype not in (DType.INT8, DType.UINT8):
        return direct
    low, high = centred_range(source)
    inputs = np.arange(low, high + 1, dtype=np.float32)
    by_table = stage is not None and stage.by_table and target.quant is not None
    table = _from_table(view, inputs) if by_table else direct([inputs])[0]

    def look_up(values: list[Array]) -> list[Array]:
        return [table.take((values[0] - low).astype(np.intp))]

    return look_up


def _from_table(view: NodeView, inputs: Array) -> Array:
    """Results for all inputs from the activation table of the file: index = stored value * multiplier + offset."""
    stage, source, target = view.node.stage, view.tensor(0).quant, view.outputs[0]
    assert stage is not None and stage.lut is not None and source is not None and target.quant is not None
    from ..kernels.lut import DenseLut

    low, high = centred_range(target)
    dense = DenseLut(
        stage.lut, stage.scale, stage.zero_point - target.quant.zero_point, float(low), float(high)
    )
    results = ((inputs + source.zero_point) * stage.lut.multiplier + stage.lut.offset).astype(np.float32)
    dense(results)
    return results


@unary("Relu")
def relu(view: NodeView, x: Array) -> Array:
    return np.maximum(x, 0)


@unary("LeakyRelu")
def leaky_relu(view: NodeView, x: Array) -> Array:
    alpha = view.attrs.get("alpha")
    if alpha is None:
        alpha = view.node.stage.slope if view.node.stage and view.node.stage.slope is not None else 0.01
    return np.where(x < 0, x * np.float32(alpha), x)


@unary("Elu", "Celu", "Selu")
def elu(view: NodeView, x: Array) -> Array:
    kind = view.node.op
    alpha = float(view.attrs.get("alpha", 1.6732632 if kind == "Selu" else 1.0))
    if kind == "Celu":
        return np.maximum(x, 0) + np.minimum(0, np.float32(alpha) * np.expm1(x / np.float32(alpha)))
    gamma = float(view.attrs.get("gamma", 1.0507009873554805)) if kind == "Selu" else 1.0
    lut = view.node.stage.lut if view.node.stage else None
    if kind == "Elu" and "alpha" not in view.attrs and lut is not None:
        alpha = elu_alpha(lut.high)
    return np.float32(gamma) * functions.elu(x, alpha)


@unary("HardSigmoid")
def hard_sigmoid(view: NodeView, x: Array) -> Array:
    alpha, beta = view.attrs.get("alpha", 0.2), view.attrs.get("beta", 0.5)
    lut = view.node.stage.lut if view.node.stage else None
    params = view.tensor(0).quant
    if "alpha" not in view.attrs and lut is not None and params is not None:
        alpha, beta = hard_sigmoid_line(
            lut.multiplier / params.scale, params.zero_point * lut.multiplier + lut.offset
        )
    return functions.hard_sigmoid(x, alpha, beta)


@unary("exSwish")
def silu(view: NodeView, x: Array) -> Array:
    lut = view.node.stage.lut if view.node.stage else None
    beta = view.attrs.get("beta")  # stored where the node has no table
    return functions.silu(x, silu_beta(lut.high) if lut is not None else 1.0 if beta is None else float(beta))


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
    low = view.constant(1).reshape(-1)[0] if view.has(1) else view.attrs.get("min", -np.inf)
    high = view.constant(2).reshape(-1)[0] if view.has(2) else view.attrs.get("max", np.inf)
    return np.clip(x, np.float32(low), np.float32(high))


@unary("Round")
def round_even(view: NodeView, x: Array) -> Array:
    return np.rint(x)


@unary("Cast")
def cast(view: NodeView, x: Array) -> Array:
    """To bool every value but 0 is true; its tensor may be int8. Rounding to other types is the output's matter."""
    return x != 0 if view.attrs.get("to") == _ONNX_BOOL else x


@unary("ThresholdedRelu")
def thresholded_relu(view: NodeView, x: Array) -> Array:
    return np.where(x > np.float32(view.attrs.get("alpha", 1.0)), x, np.float32(0))


@unary("Shrink")
def shrink(view: NodeView, x: Array) -> Array:
    limit, bias = np.float32(view.attrs.get("lambd", 0.5)), np.float32(view.attrs.get("bias", 0.0))
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, np.float32(0)))


def _plain(name: str, function: Callable[[Array], Any]) -> None:
    unary(*name.split("/"))(lambda view, x: function(x))


_PLAIN: dict[str, Callable[[Array], Any]] = {
    "Sigmoid": functions.sigmoid,
    "Softplus": functions.softplus,
    "exMish/Mish": functions.mish,
    "Tanh": np.tanh,
    "HardSwish": functions.hard_swish,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Erf": functions.erf,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Abs": np.abs,
    "Neg": np.negative,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Sign": np.sign,
    "IsNaN": np.isnan,
    "Not": np.logical_not,
    "exDataConvert": lambda x: x,
}
for _name, _function in _PLAIN.items():
    _plain(_name, _function)


@real_op("PRelu")
def prelu(view: NodeView, x: Array, slope: Array) -> Array:
    if slope.ndim < x.ndim and slope.size == x.shape[1]:
        slope = slope.reshape(1, -1, *([1] * (x.ndim - 2)))
    return np.where(x < 0, x * slope, x)


@real_op("Hardmax")
def hardmax(view: NodeView, x: Array) -> Array:
    axis = int(view.attrs.get("axis", -1))
    first = np.expand_dims(np.argmax(x, axis=axis), axis)
    places = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return (places == first).astype(np.float32)
