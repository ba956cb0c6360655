"""Operators by node type. A builder prepares one node and returns the kernel that runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from rknnlite_graph.graph import Accumulator, TensorRole
from rknnlite_graph.node_view import NodeView

from rknnlite.tensor import DType

from .values import Array, Kernel, decode, encode, round_f16

__all__ = [
    "Builder",
    "builder_for",
    "centred_constant",
    "centred_kernel",
    "check_operands",
    "move_op",
    "op",
    "real_kernel",
    "real_op",
    "stored_operand",
]

Builder = Callable[[NodeView], Kernel]
_BUILDERS: dict[str, Builder] = {}


def op(*names: str) -> Callable[[Builder], Builder]:
    """Register a builder for node types."""

    def wrap(builder: Builder) -> Builder:
        for name in names:
            _BUILDERS[name] = builder
        return builder

    return wrap


def real_op(
    *names: str, rank: int = 0, check: Callable[[NodeView], Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function on real values: ``fn(view, *operands) -> array or tuple of arrays``.

    Operands are dequantised before and results quantised after the call; absent ones are None. Parameters
    without default are operands that must be there; ``rank``, where given, is that of each of them. ``check`` refuses
    nodes when the model is opened.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        least = _needed(function)

        def build(view: NodeView) -> Kernel:
            check_operands(view, least, rank)
            if check is not None:
                check(view)
            return real_kernel(view, function)

        op(*names)(build)
        return function

    return wrap


def _needed(function: Callable[..., Any]) -> int:
    """How many operands a function insists on; the first parameter is the view."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def check_operands(view: NodeView, least: int, rank: int = 0) -> None:
    """Refuse a node without its first ``least`` operands, or with some of another rank, or an axis outside."""
    ranks = [len(view.tensor(i).shape) for i in range(least)]
    if rank and any(r != rank for r in ranks):
        raise view.fail(f"operands of rank {ranks}, all must have {rank}")
    limit = max([*ranks, *(len(tensor.shape) for tensor in view.outputs)])
    axis = view.attrs.get("axis")
    if isinstance(axis, int) and not -limit <= axis < limit:
        raise view.fail(f"axis {axis} of tensors of rank {limit}")


def real_kernel(view: NodeView, function: Callable[..., Any], wide: Optional[bool] = None) -> Kernel:
    """The kernel of a function on real values; see ``real_op``.

    Where results of 8 bits hang on the last bit of a float, reals are double: what processors and libraries differ in moves none.
    ``wide`` says otherwise, for functions that are the same everywhere.
    """
    fixed: list[Any] = [
        stored_operand(view, i) if view.is_const(i) else None for i in range(len(view.inputs))
    ]
    live = [(i, view.tensor(i)) for i in range(len(view.inputs)) if view.has(i) and not view.is_const(i)]
    outputs, where = view.outputs, f"node {view.node.label()}"
    wide = view.floats_behind_bytes if wide is None else wide
    if wide:
        fixed = [_widened(each) for each in fixed]

    def kernel(values: list[Array]) -> list[Array]:
        operands = list(fixed)
        for (position, tensor), value in zip(live, values):
            real = decode(value, tensor)
            operands[position] = _widened(real) if wide else real
        result = function(view, *operands)
        results = result if isinstance(result, tuple) else (result,)
        return [encode(r, tensor, where) for r, tensor in zip(results, outputs)]

    return kernel


def _widened(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def centred_kernel(view: NodeView, function: Callable[..., Any], count: int = 1) -> Kernel:
    """As ``real_kernel``, for a function on integers: the first ``count`` operands come less their zero points, in float32.

    They have 8 bits, so that their sums are exact in any order.
    """
    fixed: list[Any] = [None] * len(view.inputs)
    for i in range(len(view.inputs)):
        if view.is_const(i):
            fixed[i] = centred_constant(view, i) if i < count else stored_operand(view, i)
    live = [(i, view.tensor(i)) for i in range(len(view.inputs)) if view.has(i) and not view.is_const(i)]
    outputs, where = view.outputs, f"node {view.node.label()}"

    def kernel(values: list[Array]) -> list[Array]:
        operands = list(fixed)
        for (position, tensor), value in zip(live, values):
            operands[position] = value if position < count else decode(value, tensor)
        return [encode(function(view, *operands), outputs[0], where)]

    return kernel


def centred_constant(view: NodeView, position: int) -> Array:
    """A quantised constant operand less its zero point."""
    tensor = view.tensor(position)
    assert tensor.quant is not None
    return tensor.value().astype(np.float32) - np.float32(tensor.quant.zero_point)


def stored_operand(view: NodeView, position: int) -> Array:
    """A constant operand; float16 layers on the NPU round those that the file holds in float32.

    Batch normalisation does not: its offsets stay as they are (measured).
    """
    value = view.constant(position)
    fused = view.node.fused
    rounded = (
        view.node.on_npu
        and view.outputs[0].dtype is DType.FLOAT16
        and value.dtype == np.float32
        and not (fused is not None and fused.accumulator is Accumulator.BATCH_NORM)
    )
    return round_f16(value) if rounded else value


def move_op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that only moves elements of its first operand: ``fn(view) -> (array -> arrays)``.

    Works on runtime values directly; requantises only where input and output scale differ.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        op(*names)(lambda view: _move_kernel(view, function))
        return function

    return wrap


def _move_kernel(view: NodeView, function: Callable[..., Any]) -> Kernel:
    source = view.tensor(0)
    mover = function(view)
    # inputs come as the caller gave them
    unrounded = source.role is TensorRole.INPUT and source.dtype.is_float
    same = [out.quant == source.quant and out.dtype is source.dtype and not unrounded for out in view.outputs]

    def kernel(values: list[Array]) -> list[Array]:
        moved = mover(values[0])
        parts = moved if isinstance(moved, (list, tuple)) else [moved]
        return [
            part if keep else encode(decode(part, source), out)
            for part, out, keep in zip(parts, view.outputs, same)
        ]

    if not view.is_const(0):
        return kernel
    stored = encode(view.constant(0), source)
    return lambda values: kernel([stored])


def builder_for(name: str) -> Builder | None:
    """The builder of a node type, None when there is none."""
    return _BUILDERS.get(name)
