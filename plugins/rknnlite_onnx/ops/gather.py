"""Indexed reads."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ..lowered_values import Rep
from ..registry import LoweredNode, lowers

__all__ = ["places"]


def places(node: LoweredNode, position: int = 1) -> str:
    """An operand of indices as int64; those below 0 count from the end, as in ONNX."""
    if node.view.is_const(position):
        return node.const(node.view.constant(position), np.int64)
    name = node.native(position)
    return name if node.typed(position) == np.int64 else node.emitter.cast(name, np.int64)


def _source(node: LoweredNode) -> tuple[str, Optional[Rep]]:
    """What is read from; a stored table of reals is rounded where the NPU does that."""
    if node.view.is_const(0) and node.typed(0).kind == "f":
        return node.real(0), None
    return node.moving()


@lowers("Gather")
def gather(node: LoweredNode) -> None:
    value, rep = _source(node)
    found = node.emit("Gather", value, places(node), axis=int(node.parameters["axis"]))
    index = node.view.tensor(1).shape
    rank = len(node.view.tensor(0).shape)
    if len(node.outputs[0].shape) != rank - 1 + len(index):
        found = node.emit("Reshape", found, node.ints(*node.outputs[0].shape))
    node.moved(found, rep)


@lowers("GatherElements")
def gather_elements(node: LoweredNode) -> None:
    value, rep = _source(node)
    node.moved(node.emit("GatherElements", value, places(node), axis=int(node.parameters["axis"])), rep)


@lowers("GatherND")
def gather_nd(node: LoweredNode) -> None:
    value, rep = _source(node)
    node.moved(node.emit("GatherND", value, places(node), batch_dims=int(node.parameters["batch_dims"])), rep)


@lowers("ReverseSequence")
def reverse_sequence(node: LoweredNode) -> None:
    time, batch = int(node.parameters["time_axis"]), int(node.parameters["batch_axis"])
    if {time, batch} != {0, 1}:
        raise node.refuse(f"time axis {time} and batch axis {batch}: ONNX has them as the first two")
    lengths = node.emit("Reshape", places(node), node.ints(-1))
    value, rep = node.moving()
    node.moved(node.emit("ReverseSequence", value, lengths, time_axis=time, batch_axis=batch), rep)
