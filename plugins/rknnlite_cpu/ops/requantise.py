"""What follows the accumulation of a convolution: scaling, residual, activation, rounding.

A tail works in place on a block of channels ``[N, c, OH * OW]``: blocks stay in the cache, and cores share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import numpy as np

from rknnlite.errors import ModelUnsupported
from rknnlite.graph import ConvParams, Stage, Tensor
from rknnlite.tensor import DType

from ..kernels.buffers import empty
from ..kernels.lut import DenseLut
from ..kernels.parallel import channel_blocks, run_blocks
from ..node_view import NodeView
from ..values import Array, centred_range, encode
from .functions import FUNCTIONS

__all__ = ["TABLES", "Tail", "apply_tail", "bias_column", "elu_alpha", "make_tail", "silu_beta", "tail_of"]

TABLES = ("Sigmoid", "Tanh", "Elu", "HardSwish", "HardSigmoid", "Softplus", "ExSwish", "ExGelu", "ExMish")
"""Activations that the NPU evaluates by table."""

Tail = Callable[[Array, Optional[Array], slice, Array], None]
"""(accumulator block, operand block, its channels, output block)."""

_SPELLINGS = {"exswish": "ExSwish", "exgelu": "ExGelu", "exmish": "ExMish"}
INDEX_UNITS = {
    "Sigmoid": 2596.596, "Softplus": 2596.537, "ExSwish": 2824.787, "ExGelu": 5792.494, "ExMish": 3276.82,
    "Tanh": 5425.294, "HardSwish": 5461.29, "Elu": 3276.80,
}  # fmt: skip
"""Index units per 1.0 of each table, the same on all SoCs (docs/rknn-format.md, activations)."""
_ZERO = np.float32(0)
_BUFFER = 256
"""Rows that are shorter than numpy's buffer of 8192 elements it copies there when a factor per row comes in, which takes
twice as long as the product itself (measured). The setting is the thread's own."""


def tail_of(op_type: str) -> str:
    """The fused tail of a node type, exSwish and ExSwish made one."""
    tail = op_type[len("ConvTranspose") :] if op_type.startswith("ConvTranspose") else op_type[len("Conv") :]
    return _SPELLINGS.get(tail.lower(), tail)


def bias_column(bias: Array) -> Optional[Array]:
    """A bias [OC] to add to [N, OC, OH * OW]: float32 where that holds it exactly; None for nothing to add."""
    if not bias.any():
        return None
    column = bias.reshape(1, -1, 1)
    single = column.astype(np.float32)
    return single if (single == column).all() else column


def apply_tail(tail: Tail, acc: Array, bias: Optional[Array], operand: Optional[Array]) -> Array:
    """Run a tail over ``acc`` [N, OC, OH * OW] plus bias; the float32 result takes its place where it can."""
    out = acc if acc.dtype == np.float32 else empty(acc.shape)
    keeps = bias is not None and np.result_type(acc, bias) == acc.dtype

    def work(channels: slice) -> None:
        before = np.setbufsize(_BUFFER)
        try:
            block = acc[:, channels]
            if bias is not None:
                block = np.add(block, bias[:, channels], out=block if keeps else None)
            other = None if operand is None else operand[:, channels]
            tail(block, other, channels, out[:, channels])
        finally:
            np.setbufsize(before)

    run_blocks(work, channel_blocks(acc.shape[1], acc.shape[0] * acc.shape[2]), acc.size)
    return out


def make_tail(view: NodeView, conv: ConvParams, stage: Stage) -> Tail:
    """The tail of a node: integers for a quantised output, else real values."""
    if not (conv.quantised and view.outputs[0].quant):
        return _float_tail(view, conv, stage)
    tail = tail_of(view.node.op)
    if tail in TABLES:
        if view.tensor(0).dtype is DType.INT16:
            return _function_tail(view, conv, stage)
        if stage.lut is None:
            raise view.fail("no activation table was uploaded for it")
        if stage.by_table or tail == "HardSigmoid":  # a straight line whose slope no attribute holds
            return _table_tail(conv, stage, view.outputs[0])
        return _function_tail(view, conv, stage)
    return _quantised_tail(view, conv, stage)


def _operand_scale(view: NodeView) -> float:
    """What turns the values of the second operand into real ones; constants are real already."""
    other = view.tensor(1) if view.has(1) and not view.is_const(1) else None
    return other.quant.scale if other is not None and other.quant is not None else 1.0


def _factor(values: Array) -> Array:
    return np.asarray(values, np.float64).astype(np.float32).reshape(1, -1, 1)


def _leaky(out: Array, slope: Array | float) -> None:
    """Scale the negative part in place: x = max(x, 0) + slope * min(x, 0)."""
    negative = np.minimum(out, _ZERO)
    np.maximum(out, _ZERO, out=out)
    negative *= slope
    out += negative


def _slope(conv: ConvParams, stage: Stage, tail: str) -> Array | None:
    """[1, OC or 1, 1] factor of the negative part, None for tails without."""
    if tail == "PRelu" and conv.slope is not None:
        return conv.slope.reshape(1, -1, 1)
    if tail.startswith("LeakyRelu") and stage.slope is not None:
        return np.full((1, conv.weight_shape[0], 1), stage.slope, np.float32)
    return None


# -- int8 ----------------------------------------------------------------------------------------------------


def _quantised_tail(view: NodeView, conv: ConvParams, stage: Stage) -> Tail:
    tail, y = tail_of(view.node.op), view.outputs[0]
    assert conv.multiplier is not None and y.quant is not None
    low, high = centred_range(y)
    if tail in ("Relu", "AddRelu"):
        low = np.maximum(low, _ZERO)
    scale = conv.multiplier * stage.scale * stage.second_scale
    operand_scale = _operand_scale(view)
    operand_unit = np.float32(operand_scale / y.quant.scale)
    if tail == "Mul" and view.is_const(1) and (stored := view.tensor(1).quant) is not None:
        scale = scale / stored.scale  # constants come as real values
    factor = _factor(scale)  # with Mul the output scale of the registers already holds the operand's
    slope = _slope(conv, stage, tail)
    before, after = _activations(tail)
    if stage.clip is not None:  # int16: real limits; int8 has them in the output's range
        low, high = (np.float32(min(max(v / y.quant.scale, low), high)) for v in stage.clip)

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        np.multiply(acc, factor[:, channels], out=out, dtype=np.float32, casting="unsafe")
        if before == "relu":
            np.maximum(out, _ZERO, out=out)
        elif before == "leaky" and slope is not None:
            _leaky(out, slope[:, channels])
        if operand is not None:
            if tail == "Mul":
                out *= operand
            else:
                out += operand * operand_unit
        if after == "leaky" and slope is not None:
            _leaky(out, slope[:, channels])
        np.rint(out, out=out)
        np.clip(out, low, high, out=out)

    return run


def _activations(tail: str) -> tuple[str, str]:
    """(activation before, activation after the second operand)."""
    if tail in ("ReluAdd", "ClipAdd"):
        return "relu", ""
    if tail == "LeakyReluAdd":
        return "leaky", ""
    return "", "leaky" if tail in ("LeakyRelu", "PRelu") else ""


def _table_tail(conv: ConvParams, stage: Stage, y: Tensor) -> Tail:
    """Index = acc * multiplier + offset, dense look-up, all in the NPU's own integers."""
    lut = stage.lut
    assert lut is not None and conv.multiplier is not None and y.quant is not None
    low, high = centred_range(y)
    dense = DenseLut(lut, stage.scale, stage.zero_point - y.quant.zero_point, float(low), float(high))
    factor = _factor(conv.multiplier * lut.multiplier)
    offset = np.float32(lut.offset)

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        np.multiply(acc, factor[:, channels], out=out, dtype=np.float32, casting="unsafe")
        if offset:
            np.add(out, offset, out=out)
        dense(out)

    return run


def _function_tail(view: NodeView, conv: ConvParams, stage: Stage) -> Tail:
    """The function itself at index / (index units per 1.0).

    Nearer to the vendor's simulator than the table with its straight lines between points (99.9 against 98 to
    99.9 % identical bytes per layer, docs/rknn-format.md); int16 files hold no tables at all.
    """
    tail, y = tail_of(view.node.op), view.outputs[0]
    assert conv.multiplier is not None
    scale = stage.lut.multiplier if stage.lut is not None else stage.index_scale
    if tail == "HardSigmoid":  # a straight line in the index
        unit, function = 1 / 32768, _line(stage.index_offset / 32768 + 0.5)
    else:
        unit, function = 1 / INDEX_UNITS[tail], _float_function(view, tail, stage)
    factor = _factor(conv.multiplier * scale * unit)

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        real = np.multiply(acc, factor[:, channels], dtype=np.float32, casting="unsafe")
        out[...] = encode(function(real), y)

    return run


def _line(offset: float) -> Callable[[Array], Array]:
    return lambda x: np.clip(x + np.float32(offset), 0, 1)


# -- fp16, and int8 convolutions with a floating output ------------------------------------------------------


def _float_tail(view: NodeView, conv: ConvParams, stage: Stage) -> Tail:
    # The vendor's simulator stores the convolution before it applies a tail; float16 shows the difference.
    tail, y = tail_of(view.node.op), view.outputs[0]
    stored_first = tail not in ("", "Relu", "Clip") and not conv.quantised
    factor, operand_scale = None, np.float32(_operand_scale(view))
    if conv.quantised:
        assert conv.multiplier is not None
        factor = _factor(conv.multiplier * stage.scale)
    slope = _slope(conv, stage, tail)
    before, after = _activations(tail)
    function = _float_function(view, tail, stage) if tail in TABLES else None

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        real = (
            acc
            if factor is None
            else np.multiply(acc, factor[:, channels], dtype=np.float32, casting="unsafe")
        )
        if stored_first:
            real = encode(real, y)
        if before == "relu":
            real = _bounded(real, tail, stage)
        elif before == "leaky" and slope is not None:
            real = encode(np.where(real < 0, real * slope[:, channels], real), y)
        if operand is not None:
            other = operand * operand_scale
            real = real * other if tail == "Mul" else real + other
        if after == "leaky" and slope is not None:
            real = np.where(real < 0, real * slope[:, channels], real)
        elif tail in ("Relu", "AddRelu", "Clip"):
            real = _bounded(real, tail, stage)
        elif function is not None:
            real = function(real)
        out[...] = encode(real, y)

    return run


def _bounded(real: Array, tail: str, stage: Stage) -> Array:
    if "Relu" in tail:
        return np.maximum(real, _ZERO)
    return real if stage.clip is None else np.clip(real, np.float32(stage.clip[0]), np.float32(stage.clip[1]))


def _float_function(view: NodeView, tail: str, stage: Stage) -> Callable[[Array], Array]:
    """The function of a fused activation; parameters that no attribute holds are read off its table."""
    function = FUNCTIONS[tail]
    if tail == "Elu" and stage.lut is not None:
        alpha = elu_alpha(stage.lut.high)
        return lambda x: function(x, alpha)
    if tail == "HardSigmoid":
        if stage.float_line is None or not stage.float_line[0]:
            raise ModelUnsupported(
                f"node {view.node.label()}: the converter left its slope out of the file; convert this layer in "
                "float16 or int8"
            )
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
    x = (32 * k - 16384) / INDEX_UNITS["Elu"]
    return round(float((high[k] + 32768) / 32768 * np.exp(-x)), 3)


def silu_beta(high: Array) -> float:
    """Beta of x * sigmoid(beta * x) from its table (1.702 is the "quick GELU")."""
    if high[512] <= 0:
        return 1.0
    x = np.arange(513) * 32 / INDEX_UNITS["ExSwish"]

    def distance(beta: float) -> float:
        f = x / (1 + np.exp(-beta * x))
        return float(np.square(high / high[512] - f / f[512]).sum())

    low, top = 0.1, 8.0
    for _ in range(60):  # ternary search: the distance has one minimum
        a, b = low + (top - low) / 3, top - (top - low) / 3
        low, top = (low, b) if distance(a) < distance(b) else (a, top)
    beta = round((low + top) / 2, 4)
    return 1.0 if abs(beta - 1) < 0.002 else beta
