"""The output stage behind a convolution: scaling, residual, activation, rounding.

It follows ``rknnlite_cpu.ops.requantise`` step by step: the same float32 operations in the same order, so that results are
the same bytes wherever no transcendental function is among them.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.activation_tables import dense_table
from rknnlite_graph.graph import Activation, ConvParams, FusedOp, Join, Stage
from rknnlite_graph.lowering import Form
from rknnlite_graph.operators import TABLE_FUNCTIONS, Operator
from rknnlite_graph.unary_functions import RATIONAL_FUNCTIONS

from rknnlite.tensor import DType

from ..emitted import Emitted
from ..functions import applied, hard_line, leaky, sloped
from ..lowered_values import TO_LAST, Rep, centred_range, element_zero
from ..registry import LoweredNode

__all__ = ["OWN_DOMAIN", "OWN_FUNCTIONS", "Sums", "in_elements", "integer_limits", "write_stage"]

Array = NDArray[Any]
_LIMITED = (Activation.RELU, Activation.CLIP)
_SLOPED = (Activation.LEAKY_RELU, Activation.PRELU)
_GUARD = float(2**40)
OWN_DOMAIN = "rknnlite.sums"
OWN_FUNCTIONS = ("Sigmoid", "exSwish", "Tanh", "exGelu", "exMish", "Elu", "HardSwish")
"""In the order of the functions of ``functions_of_sums.c``."""


class Sums(NamedTuple):
    """Accumulators of a convolution; with ``last`` their channels are last, as matrix products leave them."""

    name: str
    last: bool = False

    def per_channel(self, values: Any, dtype: Any = np.float32) -> Array:
        """Numbers per channel, to be broadcast against the sums."""
        shape = (1, 1, 1, -1) if self.last else (1, -1, 1, 1)
        return np.asarray(values, np.float64).astype(dtype).reshape(shape)

    def laid(self, array: Array) -> Array:
        """A stored array [.., C, H, W], each size whole or 1, as the sums lie."""
        if not self.last:
            return array
        return array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(TO_LAST)


def in_elements(node: LoweredNode, fused: FusedOp) -> bool:
    """Whether the stage is a factor, rounding and limits, which QLinearConv does by itself."""
    x, y, stage = node.view.tensor(0), node.outputs[0], node.view.node.stage
    small = node.values.in_bytes(x.index) and node.values.in_bytes(y.index)
    plain = fused.join is None and fused.before is None and fused.after in (None, *_LIMITED)
    return small and plain and stage is not None and stage.clip is None and not stage.precise


def integer_limits(node: LoweredNode, fused: FusedOp, stage: Stage) -> tuple[float, float]:
    """Smallest and largest centred result."""
    y = node.outputs[0]
    assert y.quant is not None
    low, high = centred_range(y)
    if fused.after is Activation.RELU:
        low = max(low, 0.0)
    if fused.after is Activation.CLIP:
        low, high = (float(np.clip(np.rint(np.float32(limit)), low, high)) for limit in _limits(stage))
    if stage.clip is not None:
        low, high = (float(np.float32(min(max(v / y.quant.scale, low), high))) for v in stage.clip)
    return low, high


def write_stage(node: LoweredNode, fused: FusedOp, conv: ConvParams, stage: Stage, acc: Sums) -> None:
    """Write what follows the accumulator."""
    if not (conv.quantised and node.outputs[0].quant):
        _float_stage(node, fused, conv, stage, acc.name)
    elif fused.after is Activation.TABLE:
        _function_stage(node, fused, conv, stage, acc)
    else:
        _integer_stage(node, fused, conv, stage, acc)


def _times(node: LoweredNode, acc: Sums, factor: Any) -> str:
    """Accumulators times a factor per channel.

    Optimisers fold a factor into the weights of a convolution, where it is no longer exact. Limits that nothing reaches
    stop them.
    """
    e, held = node.emitter, acc.name
    if not acc.last:
        held = e.node("Clip", held, e.constant(-_GUARD), e.constant(_GUARD))
    return e.node("Mul", held, e.constant(acc.per_channel(factor)))


def _precisely(node: LoweredNode, acc: Sums, factor: Any) -> str:
    """The same with the product in double, rounded there; no optimiser folds it into float32 weights."""
    e = node.emitter
    wide = e.node(
        "Mul", e.cast(acc.name, np.float64), e.constant(acc.per_channel(factor, np.float64), np.float64)
    )
    return e.cast(e.node("Round", wide), np.float32)


def _slope(node: LoweredNode, conv: ConvParams, stage: Stage, fused: FusedOp) -> Optional[Array]:
    """[1, OC, 1, 1] or [1, OC, OH, OW] factor of the negative part."""
    oh, ow = node.outputs[0].shape[2:]
    if fused.applies(Activation.PRELU) and conv.slope is not None:
        slope = conv.slope.reshape(len(conv.slope), -1)
        return slope.reshape(1, len(slope), *((1, 1) if slope.shape[1] == 1 else (oh, ow)))
    if fused.applies(Activation.LEAKY_RELU) and stage.slope is not None:
        return np.full((1, conv.weight_shape[0], 1, 1), stage.slope, np.float32)
    return None


def _operand_scale(node: LoweredNode) -> float:
    """What turns the values of the second operand into real ones; constants are real already."""
    if not node.has(1) or node.view.is_const(1):
        return 1.0
    params = node.view.tensor(1).quant
    return 1.0 if params is None else params.scale


def _operand(node: LoweredNode, unit: np.float32, acc: Sums) -> str:
    """The second operand times a factor, as the sums lie."""
    if node.view.is_const(1):
        return node.const(acc.laid(node.view.constant(1) * unit))
    if acc.last:
        return _turned(node, unit)
    if node.view.tensor(1).quant is None:
        name = node.real(1)
        return name if unit == 1 else node.emit("Mul", name, node.const(unit))
    return node.values.scaled(node.index(1), float(unit))


def _turned(node: LoweredNode, unit: np.float32) -> str:
    """The second operand times a factor, with the channels last."""
    if node.values.in_bytes(node.index(1)) and len(node.view.tensor(1).shape) == 4:
        return node.values.scaled_last(node.index(1), float(unit))
    value = node.real(1) if node.view.tensor(1).quant is None else node.centred(1)
    value = value if unit == 1 else node.emit("Mul", value, node.const(unit))
    rank = len(node.view.tensor(1).shape)
    if rank < 4:
        value = node.emit("Unsqueeze", value, node.ints(*range(4 - rank)))
    return node.emit("Transpose", value, perm=TO_LAST)


def _limits(stage: Stage) -> tuple[float, float]:
    low, high = stage.limits
    unit = stage.scale * stage.second_scale
    return -np.inf if low is None else low * unit, np.inf if high is None else high * unit


def _integer_stage(node: LoweredNode, fused: FusedOp, conv: ConvParams, stage: Stage, acc: Sums) -> None:
    y, e = node.outputs[0], node.emitter
    assert conv.multiplier is not None and y.quant is not None
    low, high = integer_limits(node, fused, stage)
    scale = conv.multiplier * stage.scale * stage.second_scale
    if fused.join is Join.MUL and node.view.is_const(1) and (stored := node.view.tensor(1).quant) is not None:
        scale = scale / stored.scale
    slope = _slope(node, conv, stage, fused)
    if slope is not None:
        slope = acc.laid(slope)
    value = _precisely(node, acc, scale) if stage.precise else _times(node, acc, scale)
    if fused.before in _LIMITED:
        first = _limits(stage) if fused.before is Activation.CLIP else (0.0, np.inf)
        value = e.node("Clip", value, e.constant(first[0]), e.constant(first[1]))
    elif fused.before in _SLOPED and slope is not None:
        value = leaky(node.emitter, value, slope)
    if fused.join is not None and node.has(1):
        if fused.join is Join.MUL:
            value = e.node("Mul", value, _plain_operand(node, acc))
        else:
            value = e.node(
                "Add", value, _operand(node, np.float32(_operand_scale(node) / y.quant.scale), acc)
            )
    if fused.after in _SLOPED and slope is not None:
        value = leaky(node.emitter, value, slope)
    whole = all(limit == np.rint(limit) for limit in (low, high))
    if whole:
        node.values.store_centred(y.index, value, (low, high), _elements(acc))
    else:  # limits between two steps, of int16: what is cut off there stays there
        clipped = e.node("Clip", e.node("Round", value), e.constant(low), e.constant(high))
        node.values.put(y.index, Rep.CENTRED, clipped)


def _plain_operand(node: LoweredNode, acc: Sums) -> str:
    """The second operand as it is carried; constants are real."""
    if node.view.is_const(1):
        return node.const(acc.laid(node.view.constant(1)))
    if acc.last:
        return _turned(node, np.float32(1))
    return node.real(1) if node.view.tensor(1).quant is None else node.centred(1)


def _function_stage(node: LoweredNode, fused: FusedOp, conv: ConvParams, stage: Stage, acc: Sums) -> None:
    """The function itself, or, of a line, the steps of its table."""
    row, e = TABLE_FUNCTIONS[fused.function], node.emitter
    assert conv.multiplier is not None
    int16 = node.view.tensor(0).dtype is DType.INT16
    if stage.lut is None and not int16:
        raise node.refuse("no activation table was uploaded for it")
    if stage.by_table or (row.line and not int16):
        _table_stage(node, conv, stage, acc)
        return
    scale = stage.lut.multiplier if stage.lut is not None else stage.index_scale
    if (
        node.form is Form.EXACT_OWN
        and row.name in OWN_FUNCTIONS
        and node.values.in_bytes(node.outputs[0].index)
    ):
        _own_function(node, row, stage, acc, conv.multiplier * scale * (1 / row.index_units))
        return
    real = _times(node, acc, conv.multiplier * scale * (1 / row.index_units))
    if row.line:
        found = hard_line(e, real, 1.0, stage.index_offset / row.index_units + 0.5)
    elif node.precise and row.floating:
        found = _same_everywhere(node, row, real, row.table_parameters(stage))
    else:
        found = applied(e, row, real, *row.table_parameters(stage))
    node.values.store_real(node.outputs[0].index, found, _elements(acc))


def _own_function(node: LoweredNode, row: Operator, stage: Stage, acc: Sums, factor: Any) -> None:
    """All in one operator of our own."""
    y, e = node.outputs[0], node.emitter
    assert y.quant is not None
    parameter = (*row.table_parameters(stage), 1.0)[0]
    first = y.quant.zero_point if y.zero_first else 0
    zero, across = element_zero(y), 0 if acc.last else prod(y.shape[2:])
    settings = [
        OWN_FUNCTIONS.index(row.name),
        parameter,
        y.quant.scale,
        first,
        *centred_range(y),
        zero,
        0,
        across,
    ]
    factors = np.asarray(factor, np.float64).astype(np.float32).reshape(-1)
    factors = np.broadcast_to(factors, (y.shape[1],))
    names = [acc.name, e.constant(factors), e.constant(settings)]
    shape = [y.shape[axis] for axis in TO_LAST] if acc.last else y.shape
    (found,) = e.nodes("FunctionOfSums", names, 1, OWN_DOMAIN)
    e.describe(found, np.uint8, shape)
    node.values.put(y.index, _elements(acc), found)


def _same_everywhere(node: LoweredNode, row: Operator, real: str, parameters: tuple[float, ...]) -> str:
    """The function by sums, products and quotients alone."""
    rational = RATIONAL_FUNCTIONS.get(row.name)
    if rational is None:
        raise node.refuse(f"{row.name} of sums, whose bytes hang on the last bit of a float")
    found: str = rational(Emitted(node.emitter, real), *parameters).name
    return found


def _elements(acc: Sums) -> Rep:
    return Rep.LAST if acc.last else Rep.ELEMENTS


def _table_stage(node: LoweredNode, conv: ConvParams, stage: Stage, acc: Sums) -> None:
    """The table of the file: rounded indices, the results of all of them stored."""
    y, e, lut = node.outputs[0], node.emitter, stage.lut
    assert lut is not None and conv.multiplier is not None and y.quant is not None
    low, high = centred_range(y)
    first, table = dense_table(lut, stage.scale, stage.zero_point - y.quant.zero_point, low, high)
    index = _times(node, acc, conv.multiplier * lut.multiplier)
    if np.float32(lut.offset):
        index = e.node("Add", index, e.constant(lut.offset))
    index = e.node("Clip", index, e.constant(float(first)), e.constant(float(first + len(table) - 1)))
    index = e.node("Round", e.node("Sub", index, e.constant(float(first))))
    shape = [y.shape[axis] for axis in TO_LAST] if acc.last else y.shape
    found = node.looked_up(table.astype(np.float32), e.cast(index, np.int32), shape)
    node.values.store_centred(y.index, found, elements=_elements(acc))


def _float_stage(node: LoweredNode, fused: FusedOp, conv: ConvParams, stage: Stage, name: str) -> None:
    y, e = node.outputs[0], node.emitter
    stored_first = not (conv.quantised or (fused.join is None and fused.after in (None, *_LIMITED)))
    if conv.quantised:
        assert conv.multiplier is not None
        name = _times(node, Sums(name), conv.multiplier * stage.scale)
    slope = _slope(node, conv, stage, fused)

    def rounded(value: str) -> str:
        return node.values.rounded(value, y) if y.quant is None else value

    if stored_first:
        name = rounded(name)
    name = _limited(node, name, fused.before, stage)
    if fused.before in _SLOPED and slope is not None:
        name = rounded(sloped(node.emitter, name, slope[0], node.exact))
    if fused.join is not None and node.has(1):
        other = _operand(node, np.float32(_operand_scale(node)), Sums(name))
        name = e.node("Mul" if fused.join is Join.MUL else "Add", name, other)
    name = _limited(node, name, fused.after, stage)
    if fused.after in _SLOPED and slope is not None:
        name = sloped(node.emitter, name, slope[0], node.exact)
    elif fused.after is Activation.TABLE:
        name = _real_function(node, fused, stage, name)
    node.store(name)


def _limited(node: LoweredNode, name: str, activation: Optional[Activation], stage: Stage) -> str:
    if activation is Activation.RELU:
        return node.emit("Relu", name)
    if activation is not Activation.CLIP or stage.clip is None:
        return name
    low, high = (np.float32(limit) for limit in stage.clip)
    return node.emit("Clip", name, node.const(low), node.const(high))


def _real_function(node: LoweredNode, fused: FusedOp, stage: Stage, name: str) -> str:
    row = TABLE_FUNCTIONS[fused.function]
    if not row.line:
        return applied(node.emitter, row, name, *row.table_parameters(stage))
    if stage.float_line is None or not stage.float_line[0]:
        raise node.refuse("the converter left its slope out of the file")
    slope, offset = stage.float_line[0] / row.index_units, 0.5 + stage.float_line[1] / row.index_units
    steps = node.stepped_view.outputs[0].quant
    if (
        steps is not None
    ):  # as the registers hold it: 1 or a little more, so that 0.5 is no tie between two steps
        told = stage.scale * row.index_units * steps.scale
        slope, offset = slope * told, offset * told
    return hard_line(node.emitter, name, slope, offset)
