"""Element-wise functions of one operand, on real values."""

from __future__ import annotations

import numpy as np

from rknnlite.graph.tables import elu_alpha, silu_beta

from ..functions import FUNCTIONS, hard_line
from ..registry import LoweredNode, lowers

__all__: list[str] = []

_PLAIN = (
    "Relu", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
    "Asinh", "Acosh", "Atanh", "Abs", "Neg", "Floor", "Ceil", "Sign", "Round", "Softsign",
)  # fmt: skip
_ONNX_BOOL = 9


def _plain(kind: str) -> None:
    def write(node: LoweredNode) -> None:
        whole = node.typed(0).kind in "iu"
        node.store(
            node.emit(kind, node.native(0) if whole and kind in ("Abs", "Neg", "Sign") else node.real(0))
        )

    lowers(kind)(write)


for _kind in _PLAIN:
    _plain(_kind)


def _function(kind: str, name: str) -> None:
    lowers(kind)(lambda node: node.store(FUNCTIONS[name](node.emitter, node.real(0))))


for _kind, _name in {
    "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Softplus": "Softplus", "exMish": "ExMish", "Mish": "ExMish",
    "HardSwish": "HardSwish", "exGelu": "ExGelu", "Gelu": "ExGelu",
}.items():  # fmt: skip
    _function(_kind, _name)


@lowers("exDataConvert")
def convert(node: LoweredNode) -> None:
    node.store(node.native(0))


@lowers("LeakyRelu")
def leaky_relu(node: LoweredNode) -> None:
    alpha, stage = node.attrs.get("alpha"), node.view.node.stage
    if alpha is None:
        alpha = stage.slope if stage is not None and stage.slope is not None else 0.01
    node.store(node.emit("LeakyRelu", node.real(0), alpha=float(alpha)))


@lowers("Elu", "Celu", "Selu")
def elu(node: LoweredNode) -> None:
    kind, stage = node.view.node.op, node.view.node.stage
    alpha = float(node.attrs.get("alpha", 1.6732632 if kind == "Selu" else 1.0))
    if kind == "Elu" and "alpha" not in node.attrs and stage is not None and stage.lut is not None:
        alpha = elu_alpha(stage.lut.high)
    gamma = {"gamma": float(node.attrs.get("gamma", 1.0507009873554805))} if kind == "Selu" else {}
    node.store(node.emit(kind, node.real(0), alpha=alpha, **gamma))


@lowers("HardSigmoid")
def hard_sigmoid(node: LoweredNode) -> None:
    alpha, beta = node.attrs.get("alpha", 0.2), node.attrs.get("beta", 0.5)
    stage, params = node.view.node.stage, node.view.tensor(0).quant
    if "alpha" not in node.attrs and stage is not None and stage.lut is not None and params is not None:
        lut = stage.lut  # the table is 0.5 + index / 32768
        alpha = lut.multiplier / params.scale / 32768
        beta = 0.5 + (params.zero_point * lut.multiplier + lut.offset) / 32768
    node.store(hard_line(node.emitter, node.real(0), alpha, beta))


@lowers("exSwish")
def silu(node: LoweredNode) -> None:
    stage = node.view.node.stage
    beta = silu_beta(stage.lut.high) if stage is not None and stage.lut is not None else 1.0
    node.store(FUNCTIONS["ExSwish"](node.emitter, node.real(0), beta))


@lowers("Clip")
def clip(node: LoweredNode) -> None:
    low, high = (node.attrs.get(name, limit) for name, limit in (("min", -np.inf), ("max", np.inf)))
    limits = []
    for position, limit in ((1, low), (2, high)):
        if not node.has(position):
            limits.append(node.const(limit))
        elif node.view.is_const(position):
            limits.append(node.const(node.view.constant(position).reshape(-1)[0]))
        else:
            limits.append(
                node.emit("Reshape", node.real(position), node.emitter.constant(np.zeros(0), np.int64))
            )
    above = node.emit("Max", node.real(0), limits[0])
    node.store(node.emit("Min", above, limits[1]))


@lowers("Cast")
def cast(node: LoweredNode) -> None:
    value = node.native(0)
    if node.attrs.get("to") == _ONNX_BOOL:
        value = node.emitter.cast(value, bool)
    node.store(value)


@lowers("Not")
def logical_not(node: LoweredNode) -> None:
    node.store(node.emit("Not", node.emitter.cast(node.native(0), bool)))


@lowers("IsNaN")
def is_nan(node: LoweredNode) -> None:
    node.store(node.emit("IsNaN", node.real(0)))


@lowers("ThresholdedRelu")
def thresholded_relu(node: LoweredNode) -> None:
    node.store(node.emit("ThresholdedRelu", node.real(0), alpha=float(node.attrs.get("alpha", 1.0))))


@lowers("Shrink")
def shrink(node: LoweredNode) -> None:
    lambd, bias = float(node.attrs.get("lambd", 0.5)), float(node.attrs.get("bias", 0.0))
    node.store(node.emit("Shrink", node.real(0), lambd=lambd, bias=bias))


@lowers("PRelu")
def prelu(node: LoweredNode) -> None:
    rank = len(node.view.tensor(0).shape)
    if not node.view.is_const(1):
        node.store(node.emit("PRelu", node.real(0), node.real(1)))
        return
    slope = node.constant(1)
    if slope.ndim < rank and slope.size == node.view.tensor(0).shape[1]:
        slope = slope.reshape(-1, *([1] * (rank - 2)))
    node.store(node.emit("PRelu", node.real(0), node.const(slope)))
