"""Nodes that move values and store them in other steps: a task for each operand or result, whose integers are looked up among
those of the node by the steps that they make of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Tensor
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.output_registers import OutputRegisters

from ..ops import builder_of
from ..values import Kernel
from .arithmetic import Array, output_converter
from .stage import first_operand

__all__ = ["MOVES", "move_kernel"]

MOVES = frozenset(
    (
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "MaxPool", "Pad", "ReduceMax",
        "ReduceMin", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
        "exConvTransposePad", "exWindow",
    )
)  # fmt: skip
"""They hand on values of an operand."""
_SURE = 2.0**-9  # multipliers have 15 bits
Change = Callable[[Array], Array]
"""Centred values in the steps of one tensor -> of another."""


def move_kernel(view: NodeView) -> Optional[Kernel]:
    """The kernel of a move; None where no task is found that makes the steps."""
    builder = builder_of(view.node.op)
    live = [view.graph.tensors[index] for index in view.live]
    y = view.outputs[0]
    if builder is None or not live:
        return None
    if view.node.op == "Concat":
        before = [_change(view, tensor, y) for tensor in live]
        if len(live) != len(view.inputs) or None in before:
            return None
        move = builder(_in_steps(view, {tensor.index: y for tensor in live}))
        return lambda values: move([change(value) for change, value in zip(before, values) if change])
    if any(tensor.quant is None for tensor in view.outputs):
        return None
    behind = [_change(view, live[0], tensor) for tensor in view.outputs]
    if None in behind:
        return None
    move = builder(_in_steps(view, {tensor.index: live[0] for tensor in view.outputs}))
    return lambda values: [change(value) for change, value in zip(behind, move(values)) if change]


def _in_steps(view: NodeView, steps: dict[int, Tensor]) -> NodeView:
    """The same node on tensors in the steps of others."""
    tensors = [
        replace(tensor, quant=steps[tensor.index].quant) if tensor.index in steps else tensor
        for tensor in view.graph.tensors
    ]
    return NodeView(replace(view.graph, tensors=tensors), view.node)


def _change(view: NodeView, source: Tensor, target: Tensor) -> Optional[Change]:
    if source.dtype is not target.dtype or source.quant is None or target.quant is None:
        return None
    if source.quant == target.quant:
        return lambda values: values
    stage = view.node.stage
    tasks = stage.tasks() if stage is not None and stage.tasks is not None else ()
    for registers in tasks:
        if _changes(registers, source, target):
            return _through(registers, source, target)
    return None


def _changes(registers: OutputRegisters, source: Tensor, target: Tensor) -> bool:
    """Whether these integers make steps of ``target`` of those of ``source``."""
    assert source.quant is not None and target.quant is not None
    factor = (
        registers.bs_multiplier
        * registers.out_multiplier
        * 2.0 ** -(registers.bs_shift + registers.out_shift)
    )
    return (
        registers.bs_offset == -source.quant.zero_point
        and registers.out_offset == target.quant.zero_point
        and abs(factor * target.quant.scale / source.quant.scale - 1) < _SURE
    )


def _through(registers: OutputRegisters, source: Tensor, target: Tensor) -> Change:
    scaled, convert = first_operand(source, registers), output_converter(registers, target)

    def change(values: Array) -> Array:
        out = np.empty(values.shape, np.float32)
        convert(scaled(values), out)
        return out

    return change
