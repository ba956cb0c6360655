"""Writes a segment of a graph as a program: the tensors it has so far, and what a node of 8 bits adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, Optional

import numpy as np
from rknnlite_graph.graph import Graph, Node, Tensor, TensorRole
from rknnlite_graph.lowering import NotLowered, Segment
from rknnlite_graph.node_view import NodeView

from rknnlite.tensor import DType

from ...values import Array, centred_range
from .kinds import FLOAT, Flag, Op, Plane
from .packing import padded_to
from .workspace import Parts

__all__ = [
    "Write",
    "Writer",
    "demand",
    "demand_bytes",
    "demand_finite",
    "demand_halves",
    "demand_rounded",
    "in_bytes",
    "in_halves",
    "output_numbers",
    "sides_of",
    "stored_offset",
]

Write = Callable[["Writer", NodeView], None]
"""Adds the ops of a node."""
_CHANNELS, _FEW_CHANNELS, _LINE = 16, 4, 64
_LARGEST = 1 << 28


def demand(holds: bool, why: str) -> None:
    """Leave a node to other engines where something does not hold."""
    if not holds:
        raise NotLowered(why)


def demand_bytes(*tensors: Tensor) -> None:
    """Values of 8 bits."""
    demand(all(map(in_bytes, tensors)), "its values are not of 8 bits")


def demand_finite(*numbers: Array) -> None:
    """No infinity, and no NaN."""
    demand(all(bool(np.isfinite(each).all()) for each in numbers), "numbers that are not finite")


def in_bytes(tensor: Tensor) -> bool:
    """Whether the values of a tensor are a byte each, in a number of axes that has items and channels."""
    return _has_sides(tensor) and tensor.quant is not None and tensor.dtype in (DType.INT8, DType.UINT8)


def in_halves(tensor: Tensor) -> bool:
    """Whether the values of a tensor are float16, in a number of axes that has items and channels."""
    return _has_sides(tensor) and tensor.quant is None and tensor.dtype is DType.FLOAT16


def _has_sides(tensor: Tensor) -> bool:
    return len(tensor.shape) in (2, 3, 4) and 0 < prod(tensor.shape) < _LARGEST


def sides_of(tensor: Tensor) -> tuple[int, int, int, int]:
    """Items, channels, height, width."""
    items, channels, *rest = tensor.shape
    height, width = (*rest, 1, 1)[:2]
    return items, channels, height, width


def demand_halves(view: NodeView, count: int) -> None:
    """``count`` operands of float16 that are no constants, and results of float16."""
    demand(all(map(in_halves, view.outputs)), "its results are not of float16")
    for position in range(count):
        demand(view.has(position) and not view.is_const(position), f"operand {position}")
        demand(in_halves(view.tensor(position)), f"operand {position} is not of float16")


def demand_rounded(view: NodeView) -> None:
    """What a caller gives is not rounded before the first node."""
    demand(view.tensor(0).role is not TensorRole.INPUT, "its operand is not rounded")


class Writer:
    """Ops so far, and where tensors lie.

    Args:
        layout: of the library: sums in a vector, vectors at a time, what is added to an int8 value to store it.
        segment: what is written, None for a node by itself.
    """

    def __init__(self, graph: Graph, layout: tuple[int, ...], segment: Optional[Segment] = None) -> None:
        self.graph = graph
        self._segment = segment
        self.done: set[int] = set()
        """Indices of nodes that the op of another one includes."""
        self.bytes_of: dict[int, tuple[Tensor, Array]] = {}
        """Floats, by their index, that nobody but the next op needs: the bytes that they are, and the float of each byte."""
        self.lanes, self.across, self.offset = layout
        self.ops: list[Op] = []
        self.parts = Parts()
        self._planes: dict[int, Plane] = {}
        self._rounded: dict[int, Plane] = {}
        self._tables: dict[Any, Array] = {}

    def only_reader(self, tensor: Tensor) -> Optional[Node]:
        """The node that alone reads a tensor, where it is written with the others."""
        if self._segment is None or tensor.index in self._segment.outputs:
            return None
        readers = [node for node in self._segment.nodes if tensor.index in node.inputs]
        return readers[0] if len(readers) == 1 else None

    def part(self, tensor: Tensor, whole: Tensor, channel: int) -> None:
        """A tensor that is nobody's yet, as some channels of another one."""
        self.parts.add(self.plane(tensor), self.plane(whole), channel)

    def may_lie_in(self, plane: Plane) -> bool:
        """Whether a plane that ops write already may become a part of another: it lies alone, and no op has folded it."""
        folded = any(
            op.kind == "DEPTHWISE" and op.depth > 1 and any(plane is each for each in (op.x, op.y, op.other))
            for op in self.ops
        )
        return (
            plane not in self.parts
            and plane.pitch % _CHANNELS == 0
            and plane.channels % _CHANNELS == 0
            and not folded
        )

    def plane(self, tensor: Tensor) -> Plane:
        """Where a tensor lies."""
        floats = in_halves(tensor)
        demand(floats or in_bytes(tensor), f"{tensor.name} is not of 8 bits")
        if tensor.index not in self._planes:
            items, channels, height, width = sides_of(tensor)
            channels *= self.unit(tensor)
            step = _LINE if floats and channels >= _LINE else _CHANNELS
            pitch = -(-channels // step) * step
            zero = 0 if floats else self.zero(tensor)
            self._planes[tensor.index] = Plane(items, height, width, channels, pitch, zero)
        return self._planes[tensor.index]

    def rounded(self, tensor: Tensor) -> Plane:
        """Where a tensor of float16 lies rounded: what a caller gives may not be."""
        plane = self.plane(tensor)
        if tensor.role is not TensorRole.INPUT:
            return plane
        if tensor.index not in self._rounded:
            self._rounded[tensor.index] = to = replace(plane)
            count = -(-plane.channels // (FLOAT * self.lanes)) * self.lanes
            arrays = {"slope": np.ones(count, np.float32), "factor": np.zeros(count, np.float32)}
            self.ops.append(Op("FLOAT_SCALE", y=to, x=plane, arrays=arrays))
        return self._rounded[tensor.index]

    def alias(self, tensor: Tensor, of: Tensor) -> None:
        """The same bytes under another name."""
        self._planes[tensor.index] = self.plane(of)

    def enter(self, number: int, tensor: Tensor, few: bool) -> None:
        """Input ``number`` of the segment; ``few`` channels may lie close together."""
        plane = self.plane(tensor)
        floats = in_halves(tensor)
        if few and plane.channels <= _FEW_CHANNELS * self.unit(tensor):
            plane.pitch = plane.channels if floats else _FEW_CHANNELS
        self.ops.append(Op("FLOAT_TAKE" if floats else "TAKE", y=plane, x=plane, place=number))

    def leave(self, number: int, tensor: Tensor) -> None:
        """Result ``number`` of the segment."""
        plane = self.plane(tensor)
        self.ops.append(Op("FLOAT_GIVE" if in_halves(tensor) else "GIVE", y=plane, x=plane, place=number))

    @staticmethod
    def unit(tensor: Tensor) -> int:
        """Bytes of a value."""
        return FLOAT if in_halves(tensor) else 1

    def zero(self, tensor: Tensor) -> int:
        """The stored value that stands for 0."""
        assert tensor.quant is not None
        return tensor.quant.zero_point + stored_offset(tensor, self.offset)

    def table(self, source: Tensor, target: Tensor, function: Callable[[Array], Array]) -> Array:
        """``function`` from centred values of one tensor to those of the other, for every stored byte."""
        low, high = centred_range(source)
        results = np.asarray(function(np.arange(low, high + 1, dtype=np.float32))).reshape(-1)
        stored = (np.arange(256) + int(low) + self.zero(source)) & 255
        table = np.zeros(256, np.uint8)
        table[stored] = (results.astype(np.int64) + self.zero(target)) & 255
        return table

    def halves_table(self, key: Any, function: Callable[[Array], Array]) -> Array:
        """``function`` of every float16, as bytes; one array for all that have the same key, whatever that is."""
        if key not in self._tables:
            every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
            with np.errstate(all="ignore"):
                found = np.asarray(function(every.astype(np.float32))).astype(np.float16)
            self._tables[key] = padded_to(found, (1 << 16) + 2).view(
                np.uint8
            )  # vectors reach two bytes further
        return self._tables[key]


def output_numbers(writer: Writer, op: Op, tensor: Tensor) -> None:
    """How an op makes integers of reals: by a quotient, rounded behind the zero point or before it, see ``values.encode``."""
    assert tensor.quant is not None
    low, high = (float(limit) for limit in centred_range(tensor))
    shift = float(tensor.quant.zero_point) if tensor.zero_first else 0.0
    op.place = writer.zero(tensor) - int(shift)
    op.flags |= Flag.ZERO_FIRST if tensor.zero_first else 0
    op.numbers |= {"step": tensor.quant.scale, "first_low": shift, "low": low + shift, "high": high + shift}


def stored_offset(tensor: Tensor, offset: int) -> int:
    """What is added to a value of a tensor to store it."""
    return offset if tensor.dtype is DType.INT8 else offset - 128
