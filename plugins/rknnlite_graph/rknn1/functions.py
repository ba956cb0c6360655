"""Activations, element-wise functions, normalisations, reductions."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.tensor import DType, QuantParams

from ..graph import Node
from ..operators import OPERATORS, Shape
from .description import NodeEntry
from .graph import GraphBuilder, lowers

__all__: list[str] = []

Array = NDArray[Any]
_DIGITS = 15
_POINTS = 16
_EVERY_BYTE = 256
"""Points in a power of two among which all of 8 bits are."""
_WEIGHED = (1, 1, 12)
"""Files before it name no chip: the simulator weighs their sums as RV1126 (plate detector), not as RK1808 (characters)."""
_POINTED = ("RELU", "SIGMOID", "MISH")
"""Those of one operand that are looked up; others are computed."""
_UNARY = {
    "NOOP": "Identity",
    **{name: row.names[-1] for row in OPERATORS if row.shape is Shape.UNARY for name in row.rknn1},
}
_BINARY = {name: row.names[-1] for row in OPERATORS if row.shape is Shape.BROADCAST for name in row.rknn1}
"""Those among both that have something of their own get another lowering further down."""


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


def _same(build: GraphBuilder, entry: NodeEntry, op: str, /, **attrs: Any) -> Node:
    x = build.input(entry)
    return build.emit(op, entry, [x], [build.output(entry, build.shape(x))], **attrs)


def _pointed(build: GraphBuilder, entry: NodeEntry, op: str, /, **attrs: Any) -> Node:
    node = _same(build, entry, op, **attrs)
    node.points = _POINTS
    return node


@lowers(*_UNARY)
def unary(build: GraphBuilder, entry: NodeEntry) -> None:
    if entry.index not in build.fused:  # else it is part of the layer before it
        name = entry.op[len("VSI_NN_OP_") :]
        node = (_pointed if name in _POINTED else _same)(build, entry, _UNARY[name])
        if name == "NOOP":
            node.doubts.append("the chip maker's simulator does not run it")


@lowers("ADD", "SUBTRACT")
def joined(build: GraphBuilder, entry: NodeEntry) -> None:
    """Of two results of uint8 it is a convolution of both, and a RELU behind it part of that; see ``NodeView.steps_of_sum``."""
    a, b = build.input(entry, 0), build.input(entry, 1)
    shape = np.broadcast_shapes(build.shape(a), build.shape(b))
    types = (build.tensors[a], build.tensors[b], build.type_of(entry))
    results = (
        a != b and build.shape(a) == build.shape(b) and all(build.is_between(entry, slot) for slot in (0, 1))
    )
    results = results and all(each.dtype is DType.UINT8 and each.quant is not None for each in types)
    weighed = results and build.found.ovxlib >= _WEIGHED
    last = build.relu_behind(entry) if weighed else entry
    op = _BINARY[entry.op[len("VSI_NN_OP_") :]] + ("" if last is entry else "Relu")
    node = build.emit(op, last, [a, b], [build.output(last, shape)], **({"weighed": 1} if weighed else {}))
    if results and not weighed:
        node.doubts.append(
            "a sum of two results in a file of an ovxlib before 1.1.12, which names no chip: RV1126 and RK1808 weigh such sums "
            "otherwise in the chip maker's simulator; here it is exact, up to a step away"
        )


@lowers(*(set(_BINARY) - {"ADD", "SUBTRACT"}))
def binary(build: GraphBuilder, entry: NodeEntry) -> None:
    a, b = build.input(entry, 0), build.input(entry, 1)
    name = entry.op[len("VSI_NN_OP_") :]
    y = build.output(entry, np.broadcast_shapes(build.shape(a), build.shape(b)))
    if name in ("MAXIMUM", "MINIMUM"):
        a, b = (_short(build, entry, x, y, word) for x, word in ((a, "first"), (b, "second")))
    factor = real(entry, "scale", 1.0) or 1.0  # of MULTIPLY and DIVIDE
    to = y if factor == 1 else build.add(f"{entry.name}_plain", DType.FLOAT32, build.shape(y))
    node = build.emit(_BINARY[name], entry, [a, b], [to])
    if name in ("MULTIPLY", "DIVIDE") and not entry.policy.endswith("NEAREST_EVEN"):
        node.doubts.append(
            f"its rounding policy is {entry.policy[:60] or 'absent'}: the chip maker's simulator truncates uint8 and float16 then, "
            "here they are rounded to nearest"
        )
    if to != y:
        build.emit("Mul", entry, [to, build.number(entry, np.full(1, factor), "scale")], [y])


def _short(build: GraphBuilder, entry: NodeEntry, x: int, y: int, word: str) -> int:
    """The larger of two is taken in steps of the result, and the ratio of steps has 15 binary digits, the rest cut off."""
    source, target = build.tensors[x].quant, build.tensors[y].quant
    if source is None or target is None or source == target:
        return x
    digits, power = math.frexp(source.scale / target.scale)
    ratio = math.ldexp(math.floor(digits * 2**_DIGITS), power - _DIGITS)
    made = build.helper(entry, x, build.shape(x), word)
    build.tensors[made].quant = QuantParams(ratio * target.scale, source.zero_point)
    build.emit("Reshape", entry, [x], [made])
    return made


@lowers("TANH")
def tanh(build: GraphBuilder, entry: NodeEntry) -> None:
    """scale_a * tanh(scale_b * x)."""
    x = build.input(entry)
    shape = build.shape(x)
    outer, inner = real(entry, "scale_a", 1.0), real(entry, "scale_b", 1.0)
    if (outer, inner) == (1.0, 1.0):
        _same(build, entry, "Tanh").points = 2 * _POINTS
        return
    steps = [build.add(f"{entry.name}_{word}", DType.FLOAT32, shape) for word in ("inner", "tanh")]
    build.emit("Mul", entry, [x, build.number(entry, np.full(1, inner), "scale_b")], [steps[0]])
    build.emit("Tanh", entry, [steps[0]], [steps[1]])
    build.emit(
        "Mul",
        entry,
        [steps[1], build.number(entry, np.full(1, outer), "scale_a")],
        [build.output(entry, shape)],
    )


@lowers("LINEAR")
def linear(build: GraphBuilder, entry: NodeEntry) -> None:
    """a * x + b."""
    x = build.input(entry)
    shape = build.shape(x)
    scaled = build.add(f"{entry.name}_scaled", DType.FLOAT32, shape)
    build.emit("Mul", entry, [x, build.number(entry, np.full(1, real(entry, "a", 1.0)), "a")], [scaled])
    build.emit(
        "Add",
        entry,
        [scaled, build.number(entry, np.full(1, real(entry, "b", 0.0)), "b")],
        [build.output(entry, shape)],
    )


@lowers("SWISH")
def swish(build: GraphBuilder, entry: NodeEntry) -> None:
    kind = str(entry.attrs.get("type", "VSI_NN_SWISH"))
    if kind not in ("VSI_NN_SWISH", "VSI_NN_HSWISH"):
        raise build.unsupported(entry, f"swish of type {kind[:80]!r} is not known")
    if kind == "VSI_NN_SWISH":
        _pointed(build, entry, "exSwish", beta=real(entry, "beta", 1.0) or 1.0)
    else:
        _pointed(build, entry, "HardSwish")


@lowers("CLIP")
def clip(build: GraphBuilder, entry: NodeEntry) -> None:
    _pointed(build, entry, "Clip", min=real(entry, "min", -np.inf), max=real(entry, "max", np.inf))


@lowers("RELU6")
def relu6(build: GraphBuilder, entry: NodeEntry) -> None:
    _pointed(build, entry, "Clip", min=0.0, max=6.0)


@lowers("RELU1")
def relu1(build: GraphBuilder, entry: NodeEntry) -> None:
    _pointed(build, entry, "Clip", min=-1.0, max=1.0)


@lowers("RELUN")
def relun(build: GraphBuilder, entry: NodeEntry) -> None:
    low, high = real(entry, "relu_clamp_bottom", 0.0), real(entry, "relu_clamp_top", np.inf)
    _pointed(build, entry, "Clip", min=low, max=high).doubts.append(
        "the chip maker's simulator does not run it"
    )


@lowers("LEAKY_RELU")
def leaky_relu(build: GraphBuilder, entry: NodeEntry) -> None:
    node = _same(build, entry, "LeakyRelu", alpha=real(entry, "leaky_ratio", 0.0))
    if build.tensors[node.inputs[0]].in_eight_bits and build.tensors[node.outputs[0]].quant is not None:
        node.points = _EVERY_BYTE


@lowers("ELU")
def elu(build: GraphBuilder, entry: NodeEntry) -> None:
    _pointed(build, entry, "Elu", alpha=real(entry, "alpha", 1.0) or 1.0)


@lowers("HARD_SIGMOID")
def hard_sigmoid(build: GraphBuilder, entry: NodeEntry) -> None:
    _pointed(build, entry, "HardSigmoid", alpha=real(entry, "alpha", 0.2), beta=real(entry, "beta", 0.5))


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
    channels = build.shape(x)[1]
    stored = build.values(entry, 1).reshape(-1)
    if len(stored) not in (1, channels):
        raise build.fail(entry, f"{len(stored)} slopes for {channels} channels")
    wide = np.broadcast_to(stored, channels).reshape(1, channels, *[1] * (len(build.shape(x)) - 2))
    slopes = build.number(entry, wide, "slopes")
    build.emit("PRelu", entry, [x, slopes], [build.output(entry, build.shape(x))])
