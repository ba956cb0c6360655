"""Convolutions with every fused tail: the NPU's multiply-accumulate, output stage and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np

from rknnlite.graph import ConvParams, Stage, Tensor

from ..kernels.conv import ConvSpec
from ..kernels.engine import Accumulate, accumulator
from ..kernels.lut import DenseLut
from ..registry import op
from ..view import Array, Kernel, NodeView, centred_range, decode, encode
from .functions import FUNCTIONS

__all__: list[str] = []

_TAILS = ("Relu", "Clip", "LeakyRelu", "PRelu", "Add", "AddRelu", "Mul", "ReluAdd", "ClipAdd", "LeakyReluAdd")
_TABLES = ("Sigmoid", "Tanh", "Elu", "HardSwish", "HardSigmoid", "Softplus", "ExSwish", "ExGelu", "ExMish")
_SPELLINGS = {"exswish": "ExSwish", "exgelu": "ExGelu", "exmish": "ExMish"}

# real = UNIT * (index - offset): index units per 1.0 of each table (docs/rknn-format.md, activations)
_ELU_STEP, _SILU_STEP = 3276.8, 2824.787


def _names() -> list[str]:
    tails = ["", *_TAILS, *_TABLES, "exSwish", "exGelu", "exMish"]
    return [f"{base}{tail}" for base in ("Conv", "ConvTranspose") for tail in tails]


def tail_of(op_type: str) -> str:
    """The fused tail of a node type, exSwish and ExSwish made one."""
    tail = op_type[len("ConvTranspose") :] if op_type.startswith("ConvTranspose") else op_type[len("Conv") :]
    return _SPELLINGS.get(tail.lower(), tail)


def _spec(view: NodeView, conv: ConvParams) -> ConvSpec:
    x, y = view.tensor(0), view.outputs[0]
    if x.shape[0] != y.shape[0]:
        raise view.fail(f"batch {x.shape[0]} in, {y.shape[0]} out")
    spec = ConvSpec(
        kernel=conv.weight_shape[2:], strides=conv.strides, dilations=conv.dilations, pads=conv.pads,
        in_size=x.shape[2:], out_size=y.shape[2:],
    )  # fmt: skip
    if not conv.transposed and any(abs(p) > 4096 for p in spec.padding):
        raise view.fail(f"geometry {spec} does not fit its tensors")
    return spec


@op(*_names())
def build(view: NodeView) -> Kernel:
    """Prepare weights and choose kernels; the returned kernel maps values to values."""
    conv, stage = view.node.conv, view.node.stage
    if conv is None or stage is None:
        raise view.fail("it has no decoded parameters; CPU convolutions are not supported yet")
    y = view.outputs[0]
    extra = view.tensor(1) if view.has(1) else None
    if conv.quantised and y.quant is None and not y.dtype.is_float:
        raise view.fail(f"quantised convolution with a {y.dtype.short} output")
    accumulate = _accumulator(view, conv)
    shape = y.shape
    finish = (_quantised_tail if conv.quantised and y.quant else _float_tail)(view, conv, stage)
    if extra is None:
        return lambda values: [finish(accumulate(values[0]), None).reshape(shape)]
    if view.is_const(1):
        other = np.ascontiguousarray(_like_accumulator(view.constant(1), y))
        return lambda values: [finish(accumulate(values[0]), other).reshape(shape)]

    def with_operand(values: list[Array]) -> list[Array]:
        operand = _like_accumulator(decode(values[1], extra), y)
        return [finish(accumulate(values[0]), operand).reshape(shape)]

    if len(view.live) == 1:  # the same tensor twice
        return lambda values: with_operand([values[0], values[0]])
    return with_operand


def _like_accumulator(real: Array, y: Tensor) -> Array:
    """An operand that broadcasts against [N, OC, OH * OW]."""
    if real.shape == y.shape:
        return real.reshape(y.shape[0], y.shape[1], -1)
    return np.broadcast_to(real, y.shape).reshape(y.shape[0], y.shape[1], -1)


def _accumulator(view: NodeView, conv: ConvParams) -> Accumulate:
    x = view.tensor(0)
    weight = conv.weight().astype(np.float32)
    bias = np.zeros(conv.weight_shape[0], np.float64) if conv.bias is None else conv.bias.astype(np.float64)
    low = high = 0.0
    if conv.quantised:
        assert conv.zero_point is not None and x.quant is not None
        weight -= conv.zero_point.reshape(-1, 1, 1, 1)
        bias = bias + x.quant.zero_point * weight.sum(axis=(1, 2, 3), dtype=np.float64)  # inputs are centred
        low, high = (float(v) for v in centred_range(x))
    return accumulator(weight, bias, _spec(view, conv), conv.depthwise, conv.transposed, (low, high))


# -- int8 ----------------------------------------------------------------------------------------------------


def _quantised_tail(view: NodeView, conv: ConvParams, stage: Stage) -> Callable[[Array, Optional[Array]], Array]:
    tail, y = tail_of(view.node.op), view.outputs[0]
    assert conv.multiplier is not None and y.quant is not None
    low, high = centred_range(y)
    if tail in _TABLES:
        if stage.lut is None:
            raise view.fail("no activation table was uploaded for it")
        return _table_tail(conv, stage, y)
    factor = (conv.multiplier * stage.scale * stage.slope_scale).astype(np.float32).reshape(1, -1, 1)
    inverse = np.float32(1 / y.quant.scale)

    def finish(acc: Array, operand: Optional[Array]) -> Array:
        out = np.multiply(acc, factor, dtype=np.float32, casting="unsafe")
        if tail == "LeakyReluAdd":
            out = np.where(out < 0, out * np.float32(stage.slope), out)
        elif tail in ("ReluAdd", "ClipAdd"):
            out = np.maximum(out, np.float32(0))
        if operand is not None:
            out = out * operand if tail == "Mul" else out + operand * inverse
        if tail == "LeakyRelu":
            out = np.where(out < 0, out * np.float32(stage.slope), out)
        elif tail == "PRelu" and conv.slope is not None:
            out = np.where(out < 0, out * conv.slope.reshape(1, -1, 1), out)
        np.rint(out, out=out)
        floor = max(low, np.float32(0)) if tail in ("Relu", "AddRelu") else low
        return np.clip(out, floor, high, out=out)

    if tail == "Mul" and view.has(1):
        other = view.tensor(1)
        if other.quant is not None:  # OUT_SCALE holds the operand's scale
            factor = factor / np.float32(other.quant.scale)
    return finish


def _table_tail(conv: ConvParams, stage: Stage, y: Tensor) -> Callable[[Array, Optional[Array]], Array]:
    """Index = acc * multiplier + offset, dense look-up, all in the NPU's own integers."""
    lut = stage.lut
    assert lut is not None and conv.multiplier is not None and y.quant is not None
    low, high = centred_range(y)
    dense = DenseLut(lut, stage.scale, stage.zero_point - y.quant.zero_point, float(low), float(high))
    factor = (conv.multiplier * lut.multiplier).astype(np.float32).reshape(1, -1, 1)
    offset = np.float32(lut.offset)

    def finish(acc: Array, operand: Optional[Array]) -> Array:
        index = np.multiply(acc, factor, dtype=np.float32, casting="unsafe")
        index += offset
        return dense(index)

    return finish


# -- fp16, and int8 convolutions with a floating output ------------------------------------------------------


def _float_tail(view: NodeView, conv: ConvParams, stage: Stage) -> Callable[[Array, Optional[Array]], Array]:
    # The vendor's simulator stores the convolution before it applies a tail; float16 shows the difference.
    tail, y = tail_of(view.node.op), view.outputs[0]
    stored_first = tail not in ("", "Relu", "Clip")
    scale: Any = None
    if conv.quantised:
        assert conv.multiplier is not None
        scale = (conv.multiplier * stage.scale).astype(np.float32).reshape(1, -1, 1)
    function = _float_function(tail, stage)

    def finish(acc: Array, operand: Optional[Array]) -> Array:
        out = acc if scale is None else np.multiply(acc, scale, dtype=np.float32, casting="unsafe")
        if stored_first and not conv.quantised:
            out = encode(out, y)
        if tail == "LeakyReluAdd":
            out = encode(np.where(out < 0, out * np.float32(stage.slope), out), y)
        elif tail in ("ReluAdd", "ClipAdd"):
            out = _bounded(out, tail, stage)
        if operand is not None:
            out = out * operand if tail == "Mul" else out + operand
        if tail in ("Relu", "AddRelu"):
            out = np.maximum(out, np.float32(0))
        elif tail == "LeakyRelu":
            out = np.where(out < 0, out * np.float32(stage.slope), out)
        elif tail == "PRelu" and conv.slope is not None:
            out = np.where(out < 0, out * conv.slope.reshape(1, -1, 1), out)
        elif tail == "Clip":
            out = _bounded(out, tail, stage)
        elif function is not None:
            out = function(out)
        return encode(out, y)

    return finish


def _bounded(out: Array, tail: str, stage: Stage) -> Array:
    if tail.startswith("Relu"):
        return np.maximum(out, np.float32(0))
    return out if stage.clip is None else np.clip(out, np.float32(stage.clip[0]), np.float32(stage.clip[1]))


def _float_function(tail: str, stage: Stage) -> Optional[Callable[[Array], Array]]:
    """The function of a fused activation; parameters that no attribute holds are read off its table."""
    if tail not in _TABLES:
        return None
    function = FUNCTIONS[tail]
    if tail == "Elu" and stage.lut is not None:
        alpha = elu_alpha(stage.lut.high)
        return lambda x: function(x, alpha)
    if tail == "HardSigmoid" and stage.float_line is not None and stage.float_line[0]:
        slope, offset = stage.float_line[0] / 32768, 0.5 + stage.float_line[1] / 32768
        return lambda x: function(x, slope, offset)
    if tail == "ExSwish" and stage.lut is not None:
        beta = silu_beta(stage.lut.high)
        return lambda x: function(x, beta)
    return function


def elu_alpha(high: Array) -> float:
    """Alpha of a fused Elu from its table: code(x) = 32768 * alpha * exp(x) - 32768 below zero."""
    below = np.flatnonzero(high < 0)
    if not len(below):
        return 1.0
    k = int(below[-1])
    x = (32 * k - 16384) / _ELU_STEP
    return round(float((high[k] + 32768) / 32768 * np.exp(-x)), 3)


def silu_beta(high: Array) -> float:
    """Beta of x * sigmoid(beta * x) from its table (1.702 is the "quick GELU")."""
    if high[512] <= 0:
        return 1.0
    x = np.arange(513) * 32 / _SILU_STEP

    def distance(beta: float) -> float:
        f = x / (1 + np.exp(-beta * x))
        return float(np.square(high / high[512] - f / f[512]).sum())

    low, high_end = 0.1, 8.0
    for _ in range(60):  # ternary search: the distance has one minimum
        a, b = low + (high_end - low) / 3, high_end - (high_end - low) / 3
        low, high_end = (low, b) if distance(a) < distance(b) else (a, high_end)
    beta = round((low + high_end) / 2, 4)
    return 1.0 if abs(beta - 1) < 0.002 else beta


