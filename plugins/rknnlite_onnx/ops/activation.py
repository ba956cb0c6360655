"""Element-wise functions of one operand, on real values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rknnlite_graph.graph import Lut, Stage
from rknnlite_graph.tables import dense_table, elu_alpha, hard_sigmoid_line, silu_beta

from rknnlite.tensor import DType

from ..carrier import Rep, centred_range, element_zero
from ..functions import FUNCTIONS, hard_line, sloped
from ..registry import LoweredNode, Writer, lowers

__all__: list[str] = []

_PLAIN = (
    "Relu", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
    "Asinh", "Acosh", "Atanh", "Abs", "Neg", "Floor", "Ceil", "Sign", "Round", "Softsign",
)  # fmt: skip
_PARTIAL = ("Log", "Sqrt", "Asin", "Acos", "Acosh", "Atanh")
"""Not defined everywhere."""
_ONNX_BOOL = 9


def unary(*kinds: str) -> Callable[[Writer], Writer]:
    """Register who writes functions of one operand; the table of the file stands for them where the graph says so."""

    def wrap(writer: Writer) -> Writer:
        def write(node: LoweredNode) -> None:
            stage = node.view.node.stage
            small = node.has(0) and node.view.tensor(0).dtype in (DType.INT8, DType.UINT8)
            stored = small and node.view.tensor(0).quant is not None and node.outputs[0].quant is not None
            if stored and stage is not None and stage.by_table and stage.lut is not None:
                _looked_up(node, stage, stage.lut)
            else:
                writer(node)

        return lowers(*kinds)(write)

    return wrap


def _looked_up(node: LoweredNode, stage: Stage, lut: Lut) -> None:
    """The results of all 256 inputs: index = stored value * multiplier + offset."""
    x, y, carrier = node.view.tensor(0), node.outputs[0], node.carrier
    assert x.quant is not None and y.quant is not None
    first, table = dense_table(lut, stage.scale, stage.zero_point - y.quant.zero_point, *centred_range(y))
    low, high = centred_range(x)
    inputs = np.arange(low, high + 1, dtype=np.float32)
    index = ((inputs + x.quant.zero_point) * lut.multiplier + lut.offset).astype(np.float32)
    index = np.clip(index, np.float32(first), np.float32(first + len(table) - 1)) - np.float32(first)
    results = table[np.rint(index).astype(np.int32)]
    if carrier.in_bytes(x.index):
        places = carrier.get(x.index, Rep.ELEMENTS)
    else:
        places = node.emit("Sub", node.centred(0), node.const(low))
    places = node.emitter.cast(places, np.int32)
    in_bytes = carrier.in_bytes(y.index)
    stored = node.const(results + element_zero(y), np.uint8) if in_bytes else node.const(results)
    carrier.put(y.index, Rep.ELEMENTS if in_bytes else Rep.CENTRED, node.emit("Gather", stored, places))


def _plain(kind: str) -> None:
    def write(node: LoweredNode) -> None:
        whole = node.typed(0).kind in "iu" and kind in ("Abs", "Neg", "Sign")
        if whole:
            node.store_whole(node.emit(kind, node.native(0)))
        else:
            node.store(node.emit(kind, node.real(0)), nan=kind in _PARTIAL)

    unary(kind)(write)


for _kind in _PLAIN:
    _plain(_kind)


def _function(kind: str, name: str) -> None:
    unary(kind)(lambda node: node.store(FUNCTIONS[name](node.emitter, node.real(0))))


for _kind, _name in {
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
    "Softplus": "Softplus",
    "exMish": "ExMish",
    "Mish": "ExMish",
    "HardSwish": "HardSwish",
    "exGelu": "ExGelu",
    "Gelu": "ExGelu",
}.items():
    _function(_kind, _name)


@unary("exDataConvert", "CastLike")
def convert(node: LoweredNode) -> None:
    if node.typed(0) == np.float32:
        node.store_cut_off(node.native(0))
    else:
        node.store_whole(node.native(0))


@unary("LeakyRelu")
def leaky_relu(node: LoweredNode) -> None:
    alpha, stage = node.attrs.get("alpha"), node.view.node.stage
    if alpha is None:
        alpha = stage.slope if stage is not None and stage.slope is not None else 0.01
    node.store(node.emit("LeakyRelu", node.real(0), alpha=float(alpha)))


@unary("Elu", "Celu", "Selu")
def elu(node: LoweredNode) -> None:
    kind, stage = node.view.node.op, node.view.node.stage
    alpha = float(node.attrs.get("alpha", 1.6732632 if kind == "Selu" else 1.0))
    if kind == "Elu" and "alpha" not in node.attrs and stage is not None and stage.lut is not None:
        alpha = elu_alpha(stage.lut.high)
    gamma = {"gamma": float(node.attrs.get("gamma", 1.0507009873554805))} if kind == "Selu" else {}
    node.store(node.emit(kind, node.real(0), alpha=alpha, **gamma))


@unary("HardSigmoid")
def hard_sigmoid(node: LoweredNode) -> None:
    alpha, beta = node.attrs.get("alpha", 0.2), node.attrs.get("beta", 0.5)
    stage, params = node.view.node.stage, node.view.tensor(0).quant
    if "alpha" not in node.attrs and stage is not None and stage.lut is not None and params is not None:
        lut = stage.lut  # the table is 0.5 + index / 32768
        alpha, beta = hard_sigmoid_line(
            lut.multiplier / params.scale, params.zero_point * lut.multiplier + lut.offset
        )
    node.store(hard_line(node.emitter, node.real(0), alpha, beta))


@unary("exSwish")
def silu(node: LoweredNode) -> None:
    stage = node.view.node.stage
    beta = node.attrs.get("beta")  # stored where the node has no table
    beta = 1.0 if beta is None else float(beta)
    if stage is not None and stage.lut is not None:
        beta = silu_beta(stage.lut.high)
    node.store(FUNCTIONS["ExSwish"](node.emitter, node.real(0), beta))


@unary("Clip")
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


@unary("Cast")
def cast(node: LoweredNode) -> None:
    if node.attrs.get("to") == _ONNX_BOOL:
        node.store_whole(node.emitter.cast(node.native(0), bool))
    else:
        convert(node)


@unary("Not")
def logical_not(node: LoweredNode) -> None:
    node.store_whole(node.emit("Not", node.emitter.cast(node.native(0), bool)))


@unary("IsNaN")
def is_nan(node: LoweredNode) -> None:
    node.store_whole(node.emit("IsNaN", node.real(0)))


@unary("ThresholdedRelu")
def thresholded_relu(node: LoweredNode) -> None:
    node.store(node.emit("ThresholdedRelu", node.real(0), alpha=float(node.attrs.get("alpha", 1.0))))


@unary("Shrink")
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
    elif slope.ndim > rank:
        slope = slope.reshape(slope.shape[slope.ndim - rank :])
    found = sloped(node.emitter, node.real(0), slope, node.exact)
    shape = node.outputs[0].shape
    node.store(found if len(shape) == rank else node.emit("Reshape", found, node.ints(*shape)))


@lowers("Hardmax")
def hardmax(node: LoweredNode) -> None:
    node.store(node.emit("Hardmax", node.real(0), axis=int(node.attrs.get("axis", -1))))
