"""Nodes that move values and store them in other steps: a task for each operand or result, whose integers are looked up among
those of the node by the steps that they make of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.output_registers import OutputRegisters

from ..ops import builder_of
from ..registry import Builder
from ..values import Kernel
from .arithmetic import Array, output_converter
from .stage import first_operand

__all__ = ["move_kernel", "moves"]

MOVES = frozenset(
    (
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "MaxPool", "Pad", "ReduceMax",
        "ReduceMin", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
        "exConvTransposePad", "exWindow",
    )
)  # fmt: skip
"""They hand on values of an operand."""
_RESIZES = ("Resize", "Upsample")
_SURE = 2.0**-9  # multipliers have 15 bits
Change = Callable[[Array], Array]
"""Centred values in the steps of one tensor -> of another."""


def moves(view: NodeView) -> bool:
    """Whether a node hands on values of its first operand, or of all."""
    return view.node.op in MOVES or (view.node.op in _RESIZES and view.parameters.get("mode") == "nearest")


def move_kernel(view: NodeView) -> Optional[Kernel]:
    """The kernel of a move; None where no task is found that makes the steps."""
    builder = builder_of(view.node.op)
    if builder is None or not view.live or any(tensor.quant is None for tensor in view.outputs):
        return None
    if view.node.op == "Concat":
        return _joined(view, builder)
    first = view.graph.tensors[view.live[0]]
    behind = [_change(view, first, tensor) for tensor in view.outputs]
    if None in behind:
        return None
    move = builder(
        _in_steps(view, {tensor.index: replace(tensor, quant=first.quant) for tensor in view.outputs})
    )
    return lambda values: [change(value) for change, value in zip(behind, move(values)) if change]


def _joined(view: NodeView, builder: Builder) -> Optional[Kernel]:
    """Each operand is brought to the steps of the result, stored ones when the node is prepared."""
    y, before, tensors = view.outputs[0], [], {}
    for tensor in view.inputs:
        change = None if tensor is None else _change(view, tensor, y)
        if tensor is None or change is None:
            return None
        tensors[tensor.index] = replace(tensor, quant=y.quant)
        if tensor.load is None:
            before.append(change)
        else:
            tensors[tensor.index].load = partial(_changed, tensor, y, change)
    move = builder(_in_steps(view, tensors))
    return lambda values: move([change(value) for change, value in zip(before, values)])


def _changed(source: Tensor, target: Tensor, change: Change) -> Array:
    """The stored elements of a constant in the steps of another tensor."""
    assert source.quant is not None and target.quant is not None
    values = change(source.value().astype(np.float32) - np.float32(source.quant.zero_point))
    return (values + np.float32(target.quant.zero_point)).astype(target.dtype.numpy)


def _in_steps(view: NodeView, others: dict[int, Tensor]) -> NodeView:
    """The same node with ``others`` in the place of some tensors."""
    tensors = [others.get(tensor.index, tensor) for tensor in view.graph.tensors]
    return NodeView(replace(view.graph, tensors=tensors), view.node)


def _change(view: NodeView, source: Tensor, target: Tensor) -> Optional[Change]:
    if source.dtype is not target.dtype or source.quant is None or target.quant is None:
        return None
    if source.quant == target.quant:
        return lambda values: values
    stage = view.node.stage
    tasks = stage.read_tasks() if stage is not None and stage.read_tasks is not None else ()
    nearest = min(tasks, key=partial(_off, source=source, target=target), default=None)
    if nearest is None or _off(nearest, source, target) > _SURE:
        return None
    return _through(nearest, source, target)


def _off(registers: OutputRegisters, source: Tensor, target: Tensor) -> float:
    """By what part these integers miss what makes steps of ``target`` of those of ``source``."""
    assert source.quant is not None and target.quant is not None
    zeros = (
        registers.bs_offset == -source.quant.zero_point and registers.out_offset == target.quant.zero_point
    )
    factor = (
        registers.bs_multiplier
        * registers.out_multiplier
        * 2.0 ** -(registers.bs_shift + registers.out_shift)
    )
    return abs(factor * target.quant.scale / source.quant.scale - 1) if zeros else np.inf


def _through(registers: OutputRegisters, source: Tensor, target: Tensor) -> Change:
    scaled, convert = first_operand(source, registers), output_converter(registers, target)

    def change(values: Array) -> Array:
        out = np.empty(values.shape, np.float32)
        convert(scaled(values), out)
        return out

    return change
