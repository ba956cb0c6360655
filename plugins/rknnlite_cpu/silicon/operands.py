"""Nodes that take tensors as they are, in the integers of their registers: sums, products, limits, slopes, tables of one or two
tensors of 8 bits.

The first operand stands where a convolution has its sum: BS adds an offset (less its zero point) and multiplies. Which numbers
a type of nodes uses is known, and whether they are those of its tensors is tried when the node is prepared: see ``trial``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Activation, Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import operator_of
from rknnlite_graph.output_registers import OutputRegisters

from rknnlite.tensor import DType

from ..values import Kernel
from .arithmetic import Array, output_converter, saturate, shift
from .moves import move_kernel, moves
from .pools import average_kernel
from .resizes import linear_kernel
from .stage import first_operand, operand_converter
from .tables import table_of_indices

__all__ = ["chip_builder", "chip_kernel"]

_NORMS = ("BatchNormalization", "BatchNormalizationRelu")
_JOINS: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "AddRelu": np.add, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply, "MulRelu": np.multiply,
    "Pow": np.multiply, "Sub": np.add, "SubRelu": np.add,
}  # fmt: skip
"""What EW does with two operands; a difference is a sum with the second one times -1."""
_LIMITED = ("AddRelu", "MulRelu", "SubRelu")
_PRODUCTS = ("Mul", "MulRelu", "Pow")
Unary = Callable[[Array], Array]
"""(values of the first operand behind BS) -> values for the output converter, in their place or not."""


def chip_builder(view: NodeView) -> Kernel:
    """``registry.Builder`` of nodes that ``rules`` has marked."""
    kernel = chip_kernel(view)
    if kernel is None:
        raise view.fail("how the NPU computes it is not known by its registers alone")
    return kernel


def chip_kernel(view: NodeView) -> Optional[Kernel]:
    """The kernel of a node of one or two tensors of 8 bits; None for types of which it is not known."""
    node = view.node
    assert node.stage is not None and node.stage.registers is not None
    registers, op = node.stage.registers, node.op
    if op in _JOINS:
        return _join_kernel(view, registers)
    if op in _NORMS:
        return _norm_kernel(view, registers)
    if op == "AveragePool":
        return average_kernel(view)
    if moves(view):
        return move_kernel(view)
    if op in ("Resize", "Upsample"):
        return linear_kernel(view, registers)
    unit = _unit(view, registers)
    return None if unit is None else _unary_kernel(view, registers, unit)


def _stored(view: NodeView, registers: OutputRegisters, unit: Unary) -> Callable[[Array], Array]:
    """What runs ``unit`` and stores its results."""
    convert = output_converter(registers, view.outputs[0])
    shape = view.outputs[0].shape

    def finish(values: Array) -> Array:
        values = unit(values)
        out = np.empty(values.shape, np.float32)
        convert(values, out)
        return out if out.shape == shape else np.ascontiguousarray(np.broadcast_to(out, shape))

    return finish


# -- one tensor ----------------------------------------------------------------------------------------------


def _unit(view: NodeView, registers: OutputRegisters) -> Optional[Unary]:
    """What stands behind BS for a node of one tensor."""
    op, stage = view.node.op, view.node.stage
    assert stage is not None
    if op == "Cast":
        return lambda values: values
    if op == "Relu":
        return lambda values: np.maximum(values, 0, out=values)
    if op == "Clip" and all(view.is_const(i) for i in (1, 2) if view.has(i)):
        return lambda values: np.clip(values, 0, registers.bs_limit, out=values)
    if op == "LeakyRelu":
        return partial(_sloped, slope=np.float64(registers.bn_multiplier))
    if op == "PRelu" and view.is_const(1) and view.tensor(1).dtype is DType.INT16:
        return partial(_sloped, slope=view.tensor(1).value().astype(np.float64))
    row = operator_of(op)
    if stage.lut is not None and row is not None and row.index_units:
        return table_of_indices(stage.lut, registers)
    return None


def _sloped(values: Array, slope: Array) -> Array:
    return np.where(values < 0, values * slope, values)


def _unary_kernel(view: NodeView, registers: OutputRegisters, unit: Unary) -> Kernel:
    stage = view.node.stage
    table = stage is not None and stage.lut is not None
    first = _raw(view) if table else first_operand(view.tensor(0), registers)
    finish = _stored(view, registers, unit)
    return lambda values: [finish(first(values[0]))]


def _raw(view: NodeView) -> Unary:
    """Stored values: nodes with a table leave BS out."""
    params = view.tensor(0).quant
    assert params is not None
    zero = params.zero_point
    return lambda values: values.astype(np.float64) + zero


def _norm_kernel(view: NodeView, registers: OutputRegisters) -> Kernel:
    """A factor (16 bits) and an offset (32 bits) per channel, of stored values."""
    rank = len(view.tensor(0).shape)
    factor, offset = (
        view.tensor(i).value().astype(np.float64).reshape(1, -1, *([1] * (rank - 2))) for i in (1, 2)
    )
    fused = view.node.fused
    limited = fused is not None and fused.after is Activation.RELU
    raw = _raw(view)

    def unit(values: Array) -> Array:
        values *= factor
        saturate(values)
        values += offset
        saturate(values)
        return np.maximum(values, 0, out=values) if limited else values

    finish = _stored(view, registers, unit)
    return lambda values: [finish(raw(values[0]))]


# -- two tensors ---------------------------------------------------------------------------------------------


def _join_kernel(view: NodeView, registers: OutputRegisters) -> Optional[Kernel]:
    op = view.node.op
    if op == "Pow":
        square = view.is_const(1) and view.constant(1).size == 1 and view.constant(1).reshape(-1)[0] == 2
        return _of_two(view, registers, 0, 0) if square else None
    if len(view.live) == 1 and view.is_const(0) != view.is_const(1):
        return _with_constant(view, registers, 1 if view.is_const(0) else 0)
    if len(view.inputs) == 2 and not (view.is_const(0) or view.is_const(1)):
        repeated = op in _PRODUCTS and np.prod(view.tensor(0).shape) < np.prod(view.tensor(1).shape)
        return _of_two(view, registers, int(repeated), int(not repeated))
    return None


def _of_two(view: NodeView, registers: OutputRegisters, one: int, other: int) -> Kernel:
    """Both are tensors of the network, or one and the same; ``one`` stands where a sum does: it is never repeated."""
    first, second = first_operand(view.tensor(one), registers), operand_converter(view, other, registers)
    unit, places = _join_unit(view, registers), tuple(min(i, len(view.live) - 1) for i in (one, other))
    finish = _stored(view, registers, lambda values: values)
    return lambda values: [finish(unit(first(values[places[0]]), second(values[places[1]])))]


def _join_unit(view: NodeView, registers: OutputRegisters) -> Callable[[Array, Array], Array]:
    function, limited = _JOINS[view.node.op], view.node.op in _LIMITED
    bits = registers.ew_product_shift if view.node.op in _PRODUCTS else 0

    def unit(values: Array, other: Array) -> Array:
        joined = shift(function(values, other), bits)
        return np.maximum(joined, 0, out=joined) if limited else joined

    return unit


def _with_constant(view: NodeView, registers: OutputRegisters, live: int) -> Optional[Kernel]:
    """The other operand is stored: whole numbers for BN or BS, steps for EW, or in the scales alone."""
    tensor, op = view.tensor(1 - live), view.node.op
    if op in _PRODUCTS and tensor.dtype.is_float and np.prod(tensor.shape) == 1:
        constant: Unary = lambda values: values  # noqa: E731  # it is in the steps of the result
    elif op in _PRODUCTS and tensor.dtype is DType.INT16:
        constant = partial(np.multiply, _whole(tensor))
    elif tensor.dtype is DType.INT32 and op not in _PRODUCTS:
        constant = partial(_JOINS[op], _whole(tensor))
    elif tensor.dtype is DType.INT8 and tensor.quant is not None:
        join, zero = _join_unit(view, registers), tensor.quant.zero_point
        other = operand_converter(view, 1 - live, registers)(_whole(tensor) - zero)
        constant = lambda values: join(values, other)  # noqa: E731
    else:
        return None
    limited, first = op in _LIMITED, first_operand(view.tensor(live), registers)

    def unit(values: Array) -> Array:
        values = saturate(constant(values))
        return np.maximum(values, 0, out=values) if limited else values

    finish = _stored(view, registers, unit)
    return lambda values: [finish(first(values[0]))]


def _whole(tensor: Tensor) -> Array:
    return tensor.value().astype(np.float64)
