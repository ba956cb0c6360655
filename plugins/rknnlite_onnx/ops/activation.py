"""Element-wise functions of one operand, on real values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.byte_tables import function_table
from rknnlite_graph.operators import OPERATORS, Shape, operator_of

from ..functions import applied, sloped
from ..lowered_values import Rep, centred_range, element_zero
from ..registry import LoweredNode, Writer, lowers, writer_of

__all__: list[str] = []

Array = NDArray[Any]

_WHOLE = ("Abs", "Neg", "Sign")
"""ONNX has them for integers, too."""
_ONNX_BOOL = 9


def unary(*kinds: str) -> Callable[[Writer], Writer]:
    """Register who writes functions of one operand; of 8 bits all results may be stored instead, see ``function_table``."""

    def wrap(writer: Writer) -> Writer:
        def write(node: LoweredNode) -> None:
            table = function_table(node.view) if node.small(0) and not node.view.is_const(0) else None
            stage = node.view.node.stage
            if table is not None and (node.precise or (stage is not None and stage.by_table)):
                _looked_up(node, table)
            elif node.precise and node.view.node.points:
                raise node.refuse("a function known at a few points")
            elif node.precise and node.view.floats_behind_bytes:
                raise node.refuse("a function of floats behind 8 bits")
            else:
                writer(node)

        return lowers(*kinds, precise=True)(write)

    return wrap


def _looked_up(node: LoweredNode, table: Array) -> None:
    """The results of all 256 values."""
    x, y, values = node.view.tensor(0), node.outputs[0], node.values
    if values.in_bytes(x.index):
        places = node.emitter.cast(values.get(x.index, Rep.ELEMENTS), np.int32)
    else:
        places = node.emitter.cast(
            node.emit("Sub", node.centred(0), node.const(centred_range(x)[0])), np.int32
        )
    if y.quant is None:
        node.store(node.looked_up(table, places, y.shape))
    elif values.in_bytes(y.index):
        stored = (table + element_zero(y)).astype(np.uint8)
        values.put(y.index, Rep.ELEMENTS, node.looked_up(stored, places, y.shape))
    else:
        values.put(y.index, Rep.CENTRED, node.looked_up(table, places, y.shape))


@unary("exDataConvert", "CastLike")
def convert(node: LoweredNode) -> None:
    if node.typed(0) == np.float32:
        node.store_cut_off(node.native(0))
    else:
        node.store_whole(node.native(0))


@unary("Clip")
def clip(node: LoweredNode) -> None:
    limits = []
    for position, limit in enumerate(node.parameters.values(), 1):
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


@unary("IsNaN", "IsInf")
def is_special(node: LoweredNode) -> None:
    signs = {name: int(value) for name, value in node.parameters.items()}
    node.store_whole(node.emit(node.view.node.op, node.real(0), **signs))


@unary("exGelu", "Gelu")
def gelu(node: LoweredNode) -> None:
    """The exact one; the other kind is refused, as the CPU reference does."""
    if str(node.attrs.get("approximate") or "none") != "none":
        raise node.refuse(f"approximate {node.attrs['approximate']!r}")
    _write_function(node)


def _write_function(node: LoweredNode) -> None:
    row = operator_of(node.view.node.op)
    assert row is not None
    if row.name in _WHOLE and node.typed(0).kind in "iu":
        node.store_whole(node.emit(row.name, node.native(0)))
        return
    found = applied(node.emitter, row, node.real(0), *node.parameters.values())
    node.store(found, nan=row.partial)


for _row in OPERATORS:
    if _row.shape is Shape.UNARY and writer_of(_row.name) is None:
        unary(*_row.names)(_write_function)


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
    node.store(node.emit("Hardmax", node.real(0), axis=int(node.parameters["axis"])))
