"""What the simulator rounds on its way through a layer, and ours with the same roundings.

The NPU computes a convolution with its activation, sum or product in one pass and rounds once. For many of those the
simulator computes part by part and rounds each result to int8; its value of every such part is in what the conversion
kept, under a name that the file does not have. Here a layer is computed part by part in real numbers, from the simulator's
operands, and rounded where and how the simulator's own values are: in their step, within their range. Bytes that agree then
prove that the roundings are all there is between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_cpu.ops import builder_of
from rknnlite_cpu.ops.requantise import apply_stage, output_stage
from rknnlite_cpu.values import centred_range, decode, encode
from rknnlite_graph.float_graph import float_graph
from rknnlite_graph.graph import Activation, FusedOp, Graph, Join, Node, TensorRole
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import TABLE_FUNCTIONS
from rknnlite_graph.reading.fused_ops import fused_op

__all__ = ["DECIMALS", "Halves", "Proof", "Rounding", "Simulated", "half_unit", "rounding_of"]

Array = NDArray[Any]
Part = Callable[[Array], Array]
"""What follows in a layer: real values -> real values."""

DECIMALS = 0.5e-6
"""What values may be off that the simulator writes as text, with six decimals."""
LINES = (1 / 6, 1 / 5)
"""Slopes of HardSigmoid that exporters write."""
FACTOR = 0.1
"""How far a rounded factor may be off."""
HALF = 0.02
"""Steps: values that lie so near between two levels may be rounded to either."""


@dataclass(frozen=True)
class Rounding:
    """How the simulator stores a value: multiples of ``step`` from ``low`` to ``high``."""

    step: float
    low: float
    high: float

    def agreement(self, real: Array, kept: Array, slack: Array | float = 0.0) -> float:
        """Share of elements that round to what was kept; halves may go either way.

        ``slack``: what the real values may be off.
        """
        bounded, stored = (
            np.clip(v.astype(np.float64), self.low, self.high) for v in (real.reshape(kept.shape), kept)
        )
        allowed = (0.5 + HALF) * self.step + np.broadcast_to(slack, kept.shape)
        return float((np.abs(bounded - stored) < allowed).mean())


@dataclass(frozen=True)
class Halves:
    """How the simulator stores float16: a value of ``peak`` at most, as a sum of products in an order of its own."""

    peak: float

    def agreement(self, real: Array, kept: Array, slack: Array | float = 0.0) -> float:
        """Share of elements within two units in the last place, or one of the peak's."""
        allowed = (
            2 * half_unit(kept)
            + half_unit(np.asarray(self.peak))
            + DECIMALS
            + np.broadcast_to(slack, kept.shape)
        )
        return float((np.abs(real.reshape(kept.shape).astype(np.float64) - kept) <= allowed).mean())


def half_unit(values: Array) -> Array:
    """The unit in the last place of float16 numbers of that size."""
    exponents = np.frexp(np.maximum(np.abs(values.astype(np.float64)), 2.0**-14))[1]
    unit: Array = np.ldexp(1.0, exponents - 11)
    return unit


def rounding_of(kept: Array) -> Rounding | None:
    """Read off values that the simulator kept; None where they are not multiples of one step in 256 levels."""
    levels = np.unique(kept.astype(np.float64))
    if not 2 <= len(levels) <= 256:
        return None
    gaps = np.diff(levels)
    step = float(gaps[0])
    for gap in gaps[1:]:
        step = _common(step, float(gap))
    count = np.rint((levels[-1] - levels[0]) / step)
    if count > 255:
        return None
    return Rounding(float(levels[-1] - levels[0]) / count, float(levels[0]), float(levels[-1]))


def _common(a: float, b: float) -> float:
    """The largest number that both are multiples of, but for the errors of float32."""
    least = 0.02 * min(a, b)
    while b > least:
        a, b = b, abs(a - np.rint(a / b) * b)
    return a


def _scaled(part: Part, factor: float) -> Part:
    return lambda value: part(value * np.float32(factor))


def _stepped(values: Array, most: float, top: int) -> Array:
    """In steps of which ``top``, the largest integer, are ``most``."""
    step = float(most) / top
    stepped: Array = np.clip(np.rint(values / step), -top - 1, top) * step
    return stepped


@dataclass(frozen=True)
class Proof:
    """How a layer agrees with the simulator part by part: the least share of a part, and how many roundings lie inside.

    ``integers``: share of our own bytes that are the real numbers, computed without those roundings, rounded once.
    """

    share: float
    between: int
    integers: float = 1.0


class Simulated:
    """The values that the simulator kept of one conversion, and the layers of ours in real numbers."""

    def __init__(self, graph: Graph, kept: Mapping[str, Array]) -> None:
        self._graph = graph
        self._kept = kept
        self._known = {t.name for t in graph.tensors}
        self._loose: Array | float = 0.0  # of the layer at hand
        self._quantised = any(t.quant is not None for t in graph.tensors)
        self._real = float_graph(graph)
        self._makers = {i: place for place, node in enumerate(graph.nodes) for i in node.outputs}

    def fine(self, index: int) -> bool:
        """Whether the text has enough digits of the operands of the layer that gives tensor ``index``."""
        node = self._graph.nodes[self._makers[index]]
        values = [
            self._value(i) for i in NodeView(self._graph, node).live if self._graph.tensors[i].dtype.is_float
        ]
        return all(value is None or np.abs(value).max(initial=0) > 2000 * DECIMALS for value in values)

    def prove(self, index: int, ours: Array) -> Proof | None:
        """Compute the layer that gives tensor ``index``; None where the simulator did not keep what that takes.

        ``ours``: the real values of our own bytes, computed from the simulator's operands.
        """
        wanted = self._value(index)
        if wanted is None:
            return None
        own = self._own(index, wanted)
        place, last = self._makers[index], own if isinstance(own, Halves) else rounding_of(wanted) or own
        node, slack = self._real.nodes[place], self._slack(self._graph.nodes[place], wanted)
        self._loose = self._multipliers(self._graph.nodes[place], wanted.ndim)
        best, integers = None, 0.0
        for operands in self._operands(NodeView(self._real, node).live):
            ways = self._ways(node, operands, node.outputs.index(index))
            ways += self._refactored(node, ways[0][0], wanted)
            ways += self._in_steps(node, operands)
            integers = max(integers, own.agreement(ways[0][0], ours))
            for value, share, between in ways:
                share = min(share, last.agreement(value, wanted, slack))
                if best is None or share > best.share:
                    best = Proof(share, between)
        return best and replace(best, integers=integers)

    def _refactored(self, node: Node, value: Array, wanted: Array) -> Iterator[tuple[Array, float, int]]:
        """A normalisation whose factor per position, 1 / deviation, the simulator rounds: the factor that fits best."""
        if node.op != "exNorm":
            return
        view = NodeView(self._real, node)
        axes = tuple(view.attrs.get("axes") or (-1,))
        shape = [n if i in axes else 1 for i, n in enumerate(value.shape)]
        beta = view.constant(2).reshape(shape) if view.has(2) and view.is_const(2) else np.float32(0)
        plain, given = value - beta, wanted.reshape(value.shape) - beta
        factor = (plain * given).sum(axes, keepdims=True) / np.maximum(
            np.square(plain).sum(axes, keepdims=True), 1e-9
        )
        if np.abs(factor - 1).max() < FACTOR:
            yield plain * factor + beta, 1.0, 1

    def _in_steps(self, node: Node, operands: list[Array]) -> Iterator[tuple[Array, float, int]]:
        """A layer normalisation of RV1106, in the three steps, int8 or int16, that the toolkit calibrated (``norm_ranges``).

        The toolkit calls the layer by other names than the network does: each normalisation's steps are tried.
        """
        view = NodeView(self._real, node)
        if node.op != "exNorm" or (view.attrs.get("mode") or "layer") != "layer":
            return
        x = operands[0].astype(np.float64)
        axes = tuple(int(a) % x.ndim for a in view.attrs.get("axes") or (-1,))
        shape = [n if i in axes else 1 for i, n in enumerate(x.shape)]
        eps = float(view.attrs.get("eps", view.parameters["epsilon"]))
        gamma = view.constant(1).reshape(shape) if view.has(1) else 1.0
        beta = view.constant(2).reshape(shape) if view.has(2) else 0.0
        ranges = {tuple(value) for name, value in self._kept.items() if name.endswith("/norm")}
        for top, most in product((127, 32767), sorted(ranges)):
            centred = _stepped(x - x.mean(axes, keepdims=True), most[0], top)
            deviation = np.sqrt(np.square(centred).mean(axes, keepdims=True) + eps)
            yield (
                _stepped(centred * _stepped(1 / deviation, most[1], top), most[2], top) * gamma + beta,
                1.0,
                3,
            )

    def _own(self, index: int, kept: Array) -> Rounding | Halves:
        """How the file stores a tensor; of those that the simulator keeps in float, cut off only by the file."""
        tensor = self._graph.tensors[index]
        if tensor.quant is None:
            return Halves(float(np.abs(kept).max(initial=0)))
        low, high = (float(v) * tensor.quant.scale for v in centred_range(tensor))
        return Rounding(tensor.quant.scale, low, high)

    def _operands(self, indices: list[int]) -> Iterator[list[Array]]:
        """What the simulator may compute on: as it was kept, or where that is in float, rounded as the file says."""
        values = [self._value(i, "_int8") for i in indices]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return
        yield known
        # that is what our own bytes were computed from
        if any(rounding_of(value) is None for value in known):
            tensors = [self._graph.tensors[i] for i in indices]
            yield [v if t.quant is None else decode(encode(v, t), t) for v, t in zip(known, tensors)]

    def _slack(self, node: Node, wanted: Array) -> Array | float:
        """What the numbers of the file, rounded as they are, may move the result: the simulator takes them unrounded.

        Those are multipliers per channel, fractions of 2**14, and int8 or int16 constants of sums, products and batch norms.
        """
        if node.conv is not None:
            return np.abs(wanted) * self._multipliers(node, wanted.ndim)
        fused, view = node.fused, NodeView(self._graph, node)
        if fused is None or len(view.live) != 1:
            return 0.0
        constant = next((t for t in view.inputs if t is not None and t.role is TensorRole.CONST), None)
        other = self._value(view.live[0])
        if constant is None or constant.quant is None or other is None:
            return 0.0
        half = 0.5 * constant.quant.scale
        return half if fused.join is Join.ADD else half * np.abs(other)

    def _multipliers(self, node: Node, rank: int) -> Array | float:
        """What share of a convolution its multipliers, fractions of 2**14, may be off."""
        if node.conv is None or node.conv.multiplier is None:
            return 0.0
        share = 2.0**-15 / np.maximum(node.conv.multiplier, 2.0**-15)
        return share.reshape(1, -1, *([1] * (rank - 2)))

    def _value(self, index: int, form: str = "") -> Array | None:
        """What the simulator kept under a tensor's name, the quantised form of it where it kept that, too."""
        tensor = self._graph.tensors[index]
        kept = self._kept.get(tensor.name + form, self._kept.get(tensor.name))
        if kept is None or kept.size != np.prod(tensor.shape):
            return None
        return kept.reshape(tensor.shape).astype(np.float32)

    def _ways(self, node: Node, operands: list[Any], place: int) -> list[tuple[Array, float, int]]:
        """Unrounded results, with every choice of roundings between the parts; each part has the simulator's operand."""
        ways = []
        for first, parts in self._splits(node, operands, place):
            begun = [(first, 1.0, 0)]
            for part in parts:
                begun = [after for way in begun for after in self._after(part, *way)]
            ways += begun
        return ways

    def _after(
        self, part: Part, value: Array, share: float, count: int
    ) -> Iterator[tuple[Array, float, int]]:
        """A part behind a value as it is, and behind what the simulator has of it."""
        yield part(value), share, count
        twin = self._twin(value)
        if twin is not None:
            yield part(twin[0]), min(share, twin[1]), count + 1

    def _twin(self, value: Array) -> tuple[Array, float] | None:
        """The simulator's value that agrees best with this one, among those that the file does not name."""
        found = None
        for name, kept in self._kept.items():
            if name in self._known or kept.size != value.size:
                continue
            rounding = rounding_of(kept) if self._quantised else Halves(float(np.abs(kept).max(initial=0)))
            if rounding is None:
                continue
            own = kept.reshape(value.shape).astype(np.float32)
            share = rounding.agreement(value, own, np.abs(own) * self._loose)
            if found is None or share > found[1]:
                found = own, share
        return found

    def _splits(self, node: Node, operands: list[Any], place: int) -> Iterator[tuple[Array, list[Part]]]:
        """The value of the first part, and what follows."""
        fused = node.fused
        if fused is not None and node.conv is not None and node.stage is not None and fused.convolves:
            bare = replace(node, fused=FusedOp(fused.accumulator), inputs=node.inputs[:1])
            first, parts = self._run(bare, operands[:1], 0), list(self._stages(node, fused, operands[1:]))
            yield first, parts
            if fused.function in TABLE_FUNCTIONS and TABLE_FUNCTIONS[fused.function].line:
                for slope in LINES:  # the slope of the line is among the weights
                    yield first / slope, [_scaled(parts[0], slope), *parts[1:]]
        elif fused is not None and fused.after is Activation.RELU and not fused.plain:
            yield self._run(self._bare(node), operands, place), [lambda value: np.maximum(value, 0)]
        else:
            yield self._run(node, operands, place), []

    def _bare(self, node: Node) -> Node:
        op = node.op[: -len(Activation.RELU.value)]
        return replace(node, op=op, fused=fused_op(op))

    def _run(self, node: Node, operands: list[Any], place: int) -> Array:
        builder = builder_of(node.op)
        assert builder is not None
        return builder(NodeView(self._real, node))(list(operands))[place]

    def _stages(self, node: Node, fused: FusedOp, operands: list[Any]) -> Iterator[Part]:
        view = NodeView(self._real, node)
        assert node.conv is not None and node.stage is not None
        shape = view.outputs[0].shape
        other: Optional[Array] = None
        if fused.join is not None:
            given = view.constant(1) if view.is_const(1) else operands[0]
            other = np.ascontiguousarray(np.broadcast_to(given, shape)).reshape(shape[0], shape[1], -1)
        steps = (
            (FusedOp(fused.accumulator, before=fused.before), None) if fused.before else None,
            (FusedOp(fused.accumulator, join=fused.join), other) if fused.join else None,
            (FusedOp(fused.accumulator, after=fused.after, function=fused.function), None)
            if fused.after
            else None,
        )
        for step in steps:
            if step is not None:
                stage = output_stage(view, step[0], node.conv, node.stage)
                yield lambda value, stage=stage, operand=step[1]: apply_stage(
                    stage, value.reshape(shape[0], shape[1], -1).copy(), None, operand
                ).reshape(shape)
