"""Requantisation: what the output stage makes of a convolution's accumulator. Scaling, residual, activation, rounding.

``graph.Stage`` holds the numbers, ``graph.FusedOp`` the order of things; here they become a function. It works in place on a
block of channels ``[N, c, OH * OW]``: blocks stay in the cache, and cores share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Activation, ConvParams, FusedOp, Join, Stage, Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import TABLE_FUNCTIONS, Operator
from rknnlite_graph.unary_functions import FUNCTIONS, RATIONAL_FUNCTIONS, hard_sigmoid, in_double

from rknnlite.errors import ModelUnsupported
from rknnlite.tensor import DType

from ..kernels.buffers import empty
from ..kernels.parallel import channel_blocks, run_blocks
from ..values import Array, OutputStage, centred_range, storing

__all__ = [
    "Finish",
    "IntegerStage",
    "OutputStage",
    "apply_stage",
    "bias_column",
    "by_table",
    "finisher",
    "index_factor",
    "line_of",
    "output_stage",
    "real_function",
]

Finish = Callable[[Array, Optional[Array]], Array]
"""(accumulators, operand) -> float32 results, in the accumulators' place where that can be."""

_LIMITED = (Activation.RELU, Activation.CLIP)
_SLOPED = (Activation.LEAKY_RELU, Activation.PRELU)
_ZERO = np.zeros((), np.float32)  # an array is taken faster than a scalar
_FEW_POSITIONS, _BUFFERED, _BUFFER = 128, 8192, 256
"""Rows that are shorter than numpy's buffer of 8192 elements it copies there when a factor per row comes in, which takes
twice as long as the product itself; of very short rows a larger buffer takes many at once (measured). The setting is the
thread's own."""


def bias_column(bias: Array) -> Optional[Array]:
    """A bias [OC] to add to [N, OC, OH * OW]: float32 where that holds it exactly; None for nothing to add."""
    if not bias.any():
        return None
    column = bias.reshape(1, -1, 1)
    single = column.astype(np.float32)
    return single if (single == column).all() else column


def apply_stage(stage: OutputStage, acc: Array, bias: Optional[Array], operand: Optional[Array]) -> Array:
    """Run an output stage over ``acc`` [N, OC, OH * OW] plus bias; the float32 result takes its place where it can."""
    return finisher(stage, bias, acc.shape)(acc, operand)


def finisher(stage: OutputStage, bias: Optional[Array], shape: tuple[int, ...]) -> Finish:
    """Prepare an output stage and a bias for accumulators of ``shape`` [N, OC, OH * OW]."""
    items, count, positions = shape
    blocks = channel_blocks(count, 2 * items * positions)  # with what a function makes of them
    keeps = bias is None or bias.dtype == np.float32
    buffered = _FEW_POSITIONS < positions < _BUFFERED <= items * count * positions

    def work(
        acc: Array, added: Optional[Array], operand: Optional[Array], out: Array, channels: slice
    ) -> None:
        before = np.setbufsize(_BUFFER) if buffered else 0
        try:
            if added is not None:
                acc = np.add(acc, added, out=acc if keeps or acc.dtype == added.dtype else None)
            stage(acc, operand, channels, out)
        finally:
            if buffered:
                np.setbufsize(before)

    def finish(acc: Array, operand: Optional[Array]) -> Array:
        out = acc if acc.dtype == np.float32 else empty(acc.shape)
        if len(blocks) == 1:
            work(acc, bias, operand, out, blocks[0])
            return out

        def part(channels: slice) -> None:
            added, other = (None if array is None else array[:, channels] for array in (bias, operand))
            work(acc[:, channels], added, other, out[:, channels], channels)

        run_blocks(part, blocks, acc.size)
        return out

    return finish


def output_stage(view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> OutputStage:
    """The output stage of a node: integers for a quantised output, else real values."""
    if not (conv.quantised and view.outputs[0].quant):
        return _float_stage(view, fused, conv, stage)
    if stage.in_registers:
        from ..silicon.stage import chip_stage  # few ask for a chip's arithmetic

        return chip_stage(view, fused, conv, stage)
    if fused.after is not Activation.TABLE:
        return _integer_stage(view, fused, conv, stage)
    if view.tensor(0).dtype is DType.INT16:
        return _function_stage(view, fused, conv, stage)
    if stage.lut is None:
        raise view.fail("no activation table was uploaded for it")
    if by_table(fused, stage):
        return _table_stage(conv, stage, view.outputs[0])
    return _function_stage(view, fused, conv, stage)


def _operand_scale(view: NodeView) -> float:
    """What turns the values of the second operand into real ones; constants are real already."""
    other = view.tensor(1) if view.has(1) and not view.is_const(1) else None
    return other.quant.scale if other is not None and other.quant is not None else 1.0


def _factor(values: Array) -> Array:
    return np.asarray(values, np.float64).astype(np.float32).reshape(1, -1, 1)


def _scaled(operand: Array, scale: np.float32) -> Array:
    return np.multiply(operand, scale, out=empty(operand.shape) if operand.dtype == np.float32 else None)


def _leaky(out: Array, slope: Array, gentle: bool) -> None:
    """Scale the negative part in place; ``gentle`` slopes between 0 and 1 do by taking the larger of two."""
    scaled = empty(out.shape)
    if gentle:
        np.multiply(out, slope, out=scaled)
        np.maximum(out, scaled, out=out)
    else:
        np.minimum(out, _ZERO, out=scaled)
        np.maximum(out, _ZERO, out=out)
        scaled *= slope
        out += scaled


def _slope(conv: ConvParams, stage: Stage, fused: FusedOp) -> Array | None:
    """[1, OC, 1 or positions] factor of the negative part, None for nodes without."""
    if fused.applies(Activation.PRELU) and conv.slope is not None:
        return conv.slope.reshape(1, len(conv.slope), -1)
    if fused.applies(Activation.LEAKY_RELU) and stage.slope is not None:
        return np.full((1, conv.weight_shape[0], 1), stage.slope, np.float32)
    return None


# -- int8 ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IntegerStage:
    """The output stage of sums that become integers without a table, as numbers: what ``_integer_stage`` runs, and engines.

    ``factor`` [OC] and ``slope`` [1, OC, 1 or positions] are per channel, limits in steps of the output. ``first_low`` and
    ``first_high`` hold before the operand comes in.
    """

    factor: Array
    precise: bool
    operand_unit: np.float32
    multiplies: bool
    limited: bool
    first_low: np.float32
    first_high: np.float32
    slope: Optional[Array]
    gentle: bool
    early: bool
    late: bool
    low: np.float32
    high: np.float32

    @classmethod
    def of(cls, view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> IntegerStage:
        """What the registers of a node say."""
        y = view.outputs[0]
        assert conv.multiplier is not None and y.quant is not None
        low, high = centred_range(y)
        if fused.after is Activation.RELU:
            low = np.maximum(low, _ZERO)
        scale = conv.multiplier * stage.scale * stage.second_scale
        if fused.join is Join.MUL and view.is_const(1) and (stored := view.tensor(1).quant) is not None:
            scale = scale / stored.scale  # constants come as real values
        slope = _slope(conv, stage, fused)
        first_low, first_high = (
            _limits(stage) if fused.before is Activation.CLIP else (np.float32(0), np.float32(np.inf))
        )
        if fused.after is Activation.CLIP:
            low, high = (np.clip(np.rint(limit), low, high) for limit in _limits(stage))
        if stage.clip is not None:  # int16: real limits; int8 has them in the output's range
            low, high = (np.float32(min(max(v / y.quant.scale, low), high)) for v in stage.clip)
        return cls(
            # with Mul the output scale of the registers already holds the operand's
            factor=np.asarray(scale, np.float64 if stage.precise else np.float32).reshape(-1),
            precise=stage.precise,
            operand_unit=np.float32(_operand_scale(view) / y.quant.scale),
            multiplies=fused.join is Join.MUL,
            limited=fused.before in _LIMITED,
            first_low=first_low,
            first_high=first_high,
            slope=slope,
            gentle=slope is not None and bool(((slope >= 0) & (slope <= 1)).all()),
            early=fused.before in _SLOPED,
            late=fused.after in _SLOPED,
            low=np.float32(low),
            high=np.float32(high),
        )


def _integer_stage(view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> OutputStage:
    of = IntegerStage.of(view, fused, conv, stage)
    factor, least, most = of.factor.reshape(1, -1, 1), np.asarray(of.low), np.asarray(of.high)
    early, late = (of.slope if applies else None for applies in (of.early, of.late))

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        if of.precise:
            np.rint(acc * factor[:, channels], out=out, casting="unsafe")
        else:
            np.multiply(acc, factor[:, channels], out=out, dtype=np.float32, casting="unsafe")
        if of.limited:
            np.clip(out, of.first_low, of.first_high, out=out)
        elif early is not None:
            _leaky(out, early[:, channels], of.gentle)
        if operand is not None:
            if of.multiplies:
                out *= operand
            else:
                out += _scaled(operand, of.operand_unit)
        if late is not None:
            _leaky(out, late[:, channels], of.gentle)
        np.rint(out, out=out)
        out.clip(least, most, out=out)

    return run


def _limits(stage: Stage) -> tuple[np.float32, np.float32]:
    """The limits of an int8 Clip in steps of its output, infinite where the file does not tell them."""
    low, high = stage.limits
    unit = stage.scale * stage.second_scale
    return np.float32(-np.inf if low is None else low * unit), np.float32(
        np.inf if high is None else high * unit
    )


def index_factor(conv: ConvParams, stage: Stage) -> Array:
    """What makes indices of a table of sums, per channel, in double."""
    assert conv.multiplier is not None
    return conv.multiplier * (stage.lut.multiplier if stage.lut is not None else stage.index_scale)


def by_table(fused: FusedOp, stage: Stage) -> bool:
    """Whether a function of 8 bits is the table of the file: no attribute holds the slope of a line."""
    return stage.by_table or TABLE_FUNCTIONS[fused.function].line


def _table_stage(conv: ConvParams, stage: Stage, y: Tensor) -> OutputStage:
    """Index = acc * multiplier + offset, dense look-up, all in the NPU's own integers."""
    lut = stage.lut
    assert lut is not None and conv.multiplier is not None and y.quant is not None
    from ..kernels.lut import DenseLut  # few networks have a table that is used

    low, high = centred_range(y)
    dense = DenseLut(lut, stage.scale, stage.zero_point - y.quant.zero_point, float(low), float(high))
    factor = _factor(index_factor(conv, stage))
    offset = np.float32(lut.offset)

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        np.multiply(acc, factor[:, channels], out=out, dtype=np.float32, casting="unsafe")
        if offset:
            np.add(out, offset, out=out)
        dense(out)

    return run


def _function_stage(view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> OutputStage:
    """The function itself at index / (index units per 1.0).

    Nearer to the vendor's simulator than the table with its straight lines between points (99.9 against 98 to
    99.9 % identical bytes per layer, docs/rknn-format.md); int16 files hold no tables at all.
    """
    y, row = view.outputs[0], TABLE_FUNCTIONS[fused.function]
    assert conv.multiplier is not None
    if row.line:
        function = partial(hard_sigmoid, alpha=1.0, beta=stage.index_offset / row.index_units + 0.5)
    else:
        function = _same_everywhere(row, stage) if y.dtype.bits == 8 else real_function(view, fused, stage)
    factor, store = _factor(index_factor(conv, stage) * (1 / row.index_units)), storing(y)

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        np.multiply(acc, factor[:, channels], out=out, dtype=np.float32, casting="unsafe")
        store(function(out), out)

    return run


def _same_everywhere(row: Operator, stage: Stage) -> Callable[[Array], Array]:
    """A function whose results are the same bits on every machine: by IEEE 754, or in double and rounded once."""
    parameters = row.table_parameters(stage)
    rational = RATIONAL_FUNCTIONS.get(row.name) if row.floating else FUNCTIONS[row.name]
    if rational is None:
        return lambda x: in_double(FUNCTIONS[row.name], x, *parameters)
    return lambda x: rational(x, *parameters)


# -- fp16, and int8 convolutions with a floating output ------------------------------------------------------


def _float_stage(view: NodeView, fused: FusedOp, conv: ConvParams, stage: Stage) -> OutputStage:
    # The vendor's simulator stores the convolution before anything but limits; float16 shows the difference.
    y = view.outputs[0]
    stored_first = not (conv.quantised or (fused.join is None and fused.after in (None, *_LIMITED)))
    factor, operand_scale = None, np.float32(_operand_scale(view))
    if conv.quantised:
        assert conv.multiplier is not None
        factor = _factor(conv.multiplier * stage.scale)
    slope, multiplies = _slope(conv, stage, fused), fused.join is Join.MUL
    early, late = (slope if activation in _SLOPED else None for activation in (fused.before, fused.after))
    gentle = slope is not None and slope.dtype == np.float32 and bool(((slope > 0) & (slope <= 1)).all())
    function = real_function(view, fused, stage) if fused.after is Activation.TABLE else None
    if function is not None and view.floats_behind_bytes:
        function = partial(in_double, function)

    limit_before, limit_after = _limiter(fused.before, stage), _limiter(fused.after, stage)
    store = storing(y)

    def run(acc: Array, operand: Optional[Array], channels: slice, out: Array) -> None:
        real = acc
        if factor is not None:
            real = np.multiply(acc, factor[:, channels], out=out, dtype=np.float32, casting="unsafe")
        # the block is ours; float64 stays so until it is rounded
        place = real if real.dtype == np.float32 else None
        if stored_first:
            store(real, out)
            real = place = out
        if limit_before is not None:
            real = limit_before(real, out=place)
        if early is not None:
            store(_sloped(real, early[:, channels], gentle), out)
            real = place = out
        if operand is not None:
            other = operand if operand_scale == 1 else _scaled(operand, operand_scale)
            real = np.multiply(real, other, out=place) if multiplies else np.add(real, other, out=place)
        if limit_after is not None:
            real = limit_after(real, out=place)
        if late is not None:
            real = _sloped(real, late[:, channels], gentle)
        elif function is not None:
            real = function(real)
        store(real, out)

    return run


def _sloped(real: Array, slope: Array, gentle: bool) -> Array:
    """Real values, the negative ones times ``slope``; where that is ``gentle`` they are the larger of two."""
    if not gentle or real.dtype != np.float32:
        return np.where(real < 0, real * slope, real)
    scaled = np.multiply(real, slope, out=empty(real.shape))
    return np.maximum(real, scaled, out=scaled)


def _limiter(activation: Optional[Activation], stage: Stage) -> Optional[Callable[..., Array]]:
    """Relu and Clip of real values, ``(real, out=place or None)``; None for anything else, which is not done here."""
    if activation is Activation.RELU:
        return lambda real, out: np.maximum(real, _ZERO, out=out)
    if activation is not Activation.CLIP or stage.clip is None:
        return None
    low, high = (np.asarray(limit, np.float32) for limit in stage.clip)
    return lambda real, out: real.clip(low, high, out=out)


def real_function(view: NodeView, fused: FusedOp, stage: Stage) -> Callable[[Array], Array]:
    """The function of a fused activation; parameters that no attribute holds are read off its stage."""
    row = TABLE_FUNCTIONS[fused.function]
    function = FUNCTIONS[row.name]
    parameters = line_of(view, fused, stage) if row.line else row.table_parameters(stage)
    return lambda x: function(x, *parameters)


def line_of(view: NodeView, fused: FusedOp, stage: Stage) -> tuple[float, float]:
    """Slope and offset of a function that is a line between limits."""
    row = TABLE_FUNCTIONS[fused.function]
    if stage.float_line is None or not stage.float_line[0]:
        raise ModelUnsupported(
            f"node {view.node.label()}: the converter left its slope out of the file; convert this layer in "
            "float16 or int8"
        )
    return stage.float_line[0] / row.index_units, 0.5 + stage.float_line[1] / row.index_units
