"""Activations, element-wise functions, normalisations, reductions."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ...tensor import DType
from .description import NodeEntry
from .graph import GraphBuilder, lowers

__all__: list[str] = []

Array = NDArray[Any]
_SOFTMAX_HAS_AXIS = (1, 1, 7)
_UNARY = {
    "RELU": "Relu", "SIGMOID": "Sigmoid", "ABS": "Abs", "EXP": "Exp", "LOG": "Log", "SQRT": "Sqrt", "FLOOR": "Floor",
    "NEG": "Neg", "SIN": "Sin", "MISH": "Mish", "SOFTRELU": "Softplus", "NOOP": "Identity", "DATACONVERT": "exDataConvert",
    "ERF": "Erf", "ROUND": "Round", "CEIL": "Ceil",
}  # fmt: skip
_BINARY = {
    "ADD": "Add", "SUBTRACT": "Sub", "MULTIPLY": "Mul", "DIVIDE": "Div", "POW": "Pow", "MAXIMUM": "Max", "MINIMUM": "Min",
}  # fmt: skip


def real(entry: NodeEntry, key: str, default: float) -> float:
    """A number of a node."""
    value = entry.attrs.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{key} is {value!r:.80}, must be a number")
    return float(value)


def axis_of(
    build: GraphBuilder, entry: NodeEntry, rank: int, key: str = "axis", default: Optional[int] = None
) -> int:
    """An axis, counted from the innermost in the file, in numpy's order."""
    value = entry.attrs.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not -rank <= value < rank:
        raise build.fail(entry, f"{key} is {value!r:.80} of a tensor of rank {rank}")
    return rank - 1 - value % rank


def _same(build: GraphBuilder, entry: NodeEntry, op: str, /, **attrs: Any) -> None:
    x = build.input(entry)
    build.emit(op, entry, [x], [build.output(entry, build.shape(x))], **attrs)


@lowers(*_UNARY)
def unary(build: GraphBuilder, entry: NodeEntry) -> None:
    if entry.index not in build.fused:  # else it is part of the layer before it
        _same(build, entry, _UNARY[entry.op[len("VSI_NN_OP_") :]])


@lowers(*_BINARY)
def binary(build: GraphBuilder, entry: NodeEntry) -> None:
    a, b = build.input(entry, 0), build.input(entry, 1)
    if entry.attrs.get("scale", 1) not in (0, 1):  # of MULTIPLY and DIVIDE
        raise build.unsupported(entry, f"a scale of {entry.attrs['scale']!r:.40} is not known")
    shape = np.broadcast_shapes(build.shape(a), build.shape(b))
    build.emit(_BINARY[entry.op[len("VSI_NN_OP_") :]], entry, [a, b], [build.output(entry, shape)])


@lowers("TANH")
def tanh(build: GraphBuilder, entry: NodeEntry) -> None:
    if (real(entry, "scale_a", 1.0), real(entry, "scale_b", 1.0)) != (1.0, 1.0):
        raise build.unsupported(entry, "scales other than 1 are not known")
    _same(build, entry, "Tanh")


@lowers("SWISH")
def swish(build: GraphBuilder, entry: NodeEntry) -> None:
    kind = str(entry.attrs.get("type", "VSI_NN_SWISH"))
    if kind not in ("VSI_NN_SWISH", "VSI_NN_HSWISH"):
        raise build.unsupported(entry, f"swish of type {kind[:80]!r} is not known")
    _same(build, entry, "exSwish" if kind == "VSI_NN_SWISH" else "HardSwish")


@lowers("CLIP")
def clip(build: GraphBuilder, entry: NodeEntry) -> None:
    _same(build, entry, "Clip", min=real(entry, "min", -np.inf), max=real(entry, "max", np.inf))


@lowers("RELU6")
def relu6(build: GraphBuilder, entry: NodeEntry) -> None:
    _same(build, entry, "Clip", min=0.0, max=6.0)


@lowers("RELU1")
def relu1(build: GraphBuilder, entry: NodeEntry) -> None:
    _same(build, entry, "Clip", min=-1.0, max=1.0)


@lowers("LEAKY_RELU")
def leaky_relu(build: GraphBuilder, entry: NodeEntry) -> None:
    _same(build, entry, "LeakyRelu", alpha=real(entry, "leaky_ratio", 0.0))


@lowers("ELU")
def elu(build: GraphBuilder, entry: NodeEntry) -> None:
    _same(build, entry, "Elu", alpha=real(entry, "alpha", 1.0) or 1.0)


@lowers("HARD_SIGMOID")
def hard_sigmoid(build: GraphBuilder, entry: NodeEntry) -> None:
    _same(build, entry, "HardSigmoid", alpha=real(entry, "alpha", 0.2), beta=real(entry, "beta", 0.5))


@lowers("SQUARE")
def square(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    build.emit("Mul", entry, [x, x], [build.output(entry, build.shape(x))])


@lowers("RSQRT")
def rsqrt(build: GraphBuilder, entry: NodeEntry) -> None:
    x = build.input(entry)
    half = build.number(entry, np.full(1, -0.5), "exponent")
    build.emit("Pow", entry, [x, half], [build.output(entry, build.shape(x))])


@lowers("PRELU")
def prelu(build: GraphBuilder, entry: NodeEntry) -> None:
    """One slope per channel."""
    x = build.input(entry)
    slope = build.constant(entry, 1)
    channels = build.shape(x)[1]
    stored = build.elements(slope).reshape(-1).astype(np.float64)
    if slope.quant is not None:
        stored = (stored - slope.quant.zero_point) * slope.quant.scale
    if len(stored) not in (1, channels):
        raise build.fail(entry, f"{len(stored)} slopes for {channels} channels")
    wide = np.broadcast_to(stored, channels).reshape(1, channels, *[1] * (len(build.shape(x)) - 2))
    slopes = build.number(entry, wide, "slopes")
    build.emit("PRelu", entry, [x, slopes], [build.output(entry, build.shape(x))])


@lowers("SOFTMAX")
def softmax(build: GraphBuilder, entry: NodeEntry) -> None:
    """Along the innermost axis for ranks below 3, else along the channels, unless the file names another."""
    x = build.input(entry)
    shape = build.shape(x)
    rank = len(shape)
    axis = rank - 1 if rank < 3 else rank - 3
    if build.model.ovxlib >= _SOFTMAX_HAS_AXIS and "axis" in entry.attrs:
        axis = axis_of(build, entry, rank)
    beta = real(entry, "beta", 1.0)
    if beta != 1.0:
        scaled = build.add(f"{entry.name}_scaled", DType.FLOAT32, shape)
        build.emit("Mul", entry, [x, build.number(entry, np.full(1, beta), "beta")], [scaled])
        x = scaled
    build.emit("Softmax", entry, [x], [build.output(entry, shape)], axis=axis)


@lowers("BATCH_NORM")
def batch_norm(build: GraphBuilder, entry: NodeEntry) -> None:
    """Slots 1 mean, 2 variance, 3 gamma, 4 beta."""
    x = build.input(entry)
    mean, variance, gamma, beta = (
        build.elements(build.constant(entry, slot)).reshape(-1).astype(np.float64) for slot in (1, 2, 3, 4)
    )
    factor = gamma / np.sqrt(variance + real(entry, "eps", 1e-5))
    scale, offset = build.number(entry, factor, "gamma"), build.number(entry, beta - mean * factor, "beta")
    node = build.emit("BatchNormalization", entry, [x, scale, offset], [build.output(entry, build.shape(x))])
    node.doubts.append("the order of its operands is as documented, and was not measured")
