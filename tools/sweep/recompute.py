"""What the vendor's simulator computes where it differs from the file, computed once more its way.

Three ways, each with the share of identical bytes that it leads to:

* ``EXACT``: the file has the scales of a convolution as 16-bit multipliers, and the limits of a Clip in steps of its
  accumulator; the simulator takes the exact numbers of the network.
* ``STORED``: the simulator stores the convolution as int8 before its activation; the file has one pass. The step is not in
  the file: it is fitted on 95 % of the values and judged on the others, twenty times.
* ``OPERANDS``: the file has constants in another form than the simulator computes with: normalisations in float where the
  simulator rounds to int8, sums in int8 where it does not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import product
from typing import Any, Optional

import numpy as np
from graph import Net
from numpy.typing import NDArray
from rknnlite_cpu.context import CpuContext
from rknnlite_cpu.plan import Step, Watch
from rknnlite_cpu.registry import builder_for
from rknnlite_cpu.values import Array, encode
from rknnlite_graph.graph import Activation, FusedOp, Graph, Node, Tensor, TensorRole
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import TABLE_FUNCTIONS
from rknnlite_graph.unary_functions import FUNCTIONS, hard_sigmoid

from rknnlite.tensor import DType

__all__ = ["Recomputed", "Way", "recompute"]

Function = Callable[[Array], Array]

_SLOPED = (Activation.LEAKY_RELU, Activation.PRELU)
_MATCHES = 2e-4
"""Largest relative difference of a 16-bit multiplier from the scale that it stands for."""
_FOLDS = 20
_REACH = 2.0
"""The step that is fitted lies at most this factor from that of the values of the run."""


class Way(Enum):
    """How the simulator differs from the file."""

    EXACT = "exact scales and limits"
    STORED = "convolution stored as int8 before its activation"
    OPERANDS = "constants in another form"


@dataclass(frozen=True)
class Recomputed:
    """``equal`` of ``values`` are the simulator's in these ``ways``."""

    ways: tuple[Way, ...]
    equal: int
    values: int

    @property
    def share(self) -> float:
        """Identical values."""
        return self.equal / self.values


class _Seen(Watch):
    """Keeps what goes into the layers."""

    def __init__(self) -> None:
        self.values: dict[int, list[Array]] = {}

    def before(self, step: Step, values: Mapping[int, Array]) -> None:
        self.values[step.node.index] = [np.array(values[i]) for i in step.sources]


def recompute(context: CpuContext, node: Node, wanted: NDArray[Any], network: Net) -> Optional[Recomputed]:
    """The best of the ways for the only layer of a network; None for layers that none of them is about.

    Args:
        context: has computed the inputs. wanted: what the simulator answers. network: as it was converted.
    """
    current, seen = context._shapes.current, _Seen()
    context._compute(current, context._inputs_for("a recomputation"), seen)
    layer = _Layer(current.plan.graph, node, seen.values[node.index], network)
    if layer.target.quant is None:
        return None
    answer = np.rint(wanted.reshape(layer.target.shape) / np.float32(layer.target.quant.scale))
    convolves = (
        node.conv is not None and node.conv.quantised and node.fused is not None and not node.fused.join
    )
    found = layer.convolved(answer) if convolves else layer.with_constants(answer)
    return max(found, key=lambda each: each.share, default=None)


@dataclass(frozen=True)
class _Layer:
    graph: Graph
    node: Node
    inputs: list[Array]
    network: Net

    @property
    def target(self) -> Tensor:
        """The result."""
        return self.graph.tensors[self.node.outputs[0]]

    def convolved(self, answer: Array) -> Iterator[Recomputed]:
        """A convolution and what follows it."""
        assert self.node.fused is not None
        stores = self.node.fused.after is Activation.TABLE or self.node.fused.after in _SLOPED
        functions = list(self._functions(self.node.fused))
        for real, ways in self._accumulated(self.node.fused):
            for function in functions:
                same = encode(function(real), self.target) == answer
                yield Recomputed(ways, int(same.sum()), same.size)
                if stores:
                    yield _stored(real, function, self.target, answer, ways, self._known_steps())

    def with_constants(self, answer: Array) -> Iterator[Recomputed]:
        """A layer with stored operands: those of the network, as they are and in steps of int8."""
        choices: list[Sequence[Tensor]] = []
        for index in self.node.inputs:
            tensor = self.graph.tensors[index] if index >= 0 else None
            if tensor is not None and tensor.role is TensorRole.CONST:
                choices.append([tensor, *self._forms(tensor)])
        for chosen in product(*choices):
            tensors = list(self.graph.tensors)
            for tensor in chosen:
                tensors[tensor.index] = tensor
            results = _computed(self.node, tensors, self.graph, self.inputs)
            yield Recomputed((Way.OPERANDS,), int((results == answer).sum()), answer.size)

    def _forms(self, tensor: Tensor) -> Iterator[Tensor]:
        """The constant of the network that a stored one comes from."""
        stored = tensor.value().astype(np.float64)
        if tensor.quant is not None:
            stored = (stored - tensor.quant.zero_point) * tensor.quant.scale
        for value in self.network.constants.values():
            near = value.size == stored.size and value.dtype.kind == "f" and np.allclose(
                value.reshape(-1), stored.reshape(-1), 1e-3, tensor.quant.scale if tensor.quant else 1e-4
            )  # fmt: skip
            if near:
                real = value.reshape(tensor.shape).astype(np.float32)
                step = np.float32(_step(real.max(), real.min()))
                zero = np.rint(-128 - min(float(real.min()), 0.0) / step)
                rounded = (np.clip(np.rint(real / step) + zero, -128, 127) - zero) * step
                for form in (real, rounded.astype(np.float32)):
                    yield replace(tensor, quant=None, dtype=DType.FLOAT32, load=lambda form=form: form)

    def _accumulated(self, fused: FusedOp) -> Iterator[tuple[Array, tuple[Way, ...]]]:
        """What the activation gets, in real numbers: with the multipliers of the file, and with exact scales."""
        conv, stage, y = self.node.conv, self.node.stage, self.target
        x = self.graph.tensors[self.node.inputs[0]].quant
        assert conv is not None and stage is not None and y.quant is not None and x is not None
        assert conv.multiplier is not None
        row = TABLE_FUNCTIONS.get(fused.function)
        if row is not None and stage.lut is not None:
            scale = stage.lut.multiplier / row.index_units / (self._line()[0] if row.line else 1.0)
        else:
            scale = stage.scale * stage.second_scale * y.quant.scale
        plain = copy(self.node)
        plain.fused, plain.op = FusedOp(fused.accumulator), fused.accumulator.value
        plain.stage = replace(stage, scale=scale, second_scale=1.0, lut=None)
        tensors = list(self.graph.tensors)
        tensors[y.index] = replace(y, quant=None, dtype=DType.FLOAT32)
        real = _computed(plain, tensors, self.graph, self.inputs)
        yield real, ()
        factors = conv.multiplier * scale
        for steps in _scales(self.network, len(factors)):
            exact = float(np.float32(x.scale)) * steps
            if (np.abs(exact - factors) <= _MATCHES * factors + factors.max() * 2.0**-15).all():
                ratio = (exact / factors).reshape(1, -1, *[1] * (real.ndim - 2))
                yield (real * ratio).astype(np.float32), (Way.EXACT,)
                return

    def _line(self) -> tuple[float, float]:
        """Alpha and beta of a HardSigmoid."""
        given = self.network.attributes("HardSigmoid")
        return given.get("alpha", 0.2), given.get("beta", 0.5)

    def _known_steps(self) -> list[float]:
        """Of a HardSigmoid, all of whose results are ties then: that of the range between its ends, to the last bit."""
        if self.node.fused is None or self.node.fused.function != "HardSigmoid":
            return []
        step = np.float32(1 / self._line()[0] / 255)
        return [float(step), float(np.nextafter(step, np.float32(0)))]

    def _functions(self, fused: FusedOp) -> Iterator[Function]:
        """What the activation may be, on real numbers."""
        conv, stage = self.node.conv, self.node.stage
        assert conv is not None and stage is not None
        if fused.after is Activation.TABLE:
            row = TABLE_FUNCTIONS[fused.function]
            parameters = self._line() if row.line else row.table_parameters(stage)
            yield lambda x: FUNCTIONS[row.name](x, *parameters)
            if fused.function == "HardSwish":  # as exporters write it
                yield lambda x: x * hard_sigmoid(x, 1 / 6, 0.5)
        elif fused.after in _SLOPED:
            slope = np.float32(stage.slope if fused.after is Activation.LEAKY_RELU else conv.slope)
            wide = slope.reshape(-1, 1, 1) if slope.ndim < 2 else slope
            yield lambda x: np.where(x < 0, x * wide, x)
        elif fused.after is Activation.CLIP:
            limits = [np.float32(v) for v in self.network.constants.values() if v.size == 1]
            yield from (
                partial(np.clip, a_min=low, a_max=high) for low in limits for high in limits if low < high
            )
        else:
            yield lambda x: np.maximum(x, np.float32(0 if fused.after is Activation.RELU else -np.inf))


def _computed(node: Node, tensors: list[Tensor], graph: Graph, inputs: list[Array]) -> Array:
    """The first result of a node with other tensors."""
    builder = builder_for(node.op)
    assert builder is not None
    view = NodeView(Graph(tensors, [node], graph.inputs, graph.outputs), node)
    return builder(view)(inputs)[0].reshape(tensors[node.outputs[0]].shape)


def _scales(network: Net, channels: int) -> Iterator[NDArray[np.float64]]:
    """Steps of int8 per channel that the weights of the network may have."""
    for weight in network.constants.values():
        if weight.dtype.kind != "f" or weight.ndim < 2:
            continue
        views = [np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1) for axis in (0, 1)]
        groups = channels // weight.shape[1]
        if groups > 1 and channels % weight.shape[1] == 0 and weight.shape[0] % groups == 0:  # transposed
            parts = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
            views.append(parts.transpose(0, 2, 1, 3).reshape(channels, -1))
        yield from (_step(view.max(axis=1), view.min(axis=1)) for view in views if len(view) == channels)
        yield np.full(channels, _step(weight.max(), weight.min()))


def _step(high: Any, low: Any) -> Any:
    return (np.maximum(high, 0).astype(np.float64) - np.minimum(low, 0)) / 255


def _stored(
    real: Array, function: Function, target: Tensor, answer: Array, ways: tuple[Way, ...], known: list[float]
) -> Recomputed:
    """With ``real`` rounded to a step and cut off at the ends of its range: both are fitted on some of the values and judged
    on the others, in turns."""

    def same(step: float, zero: Optional[int] = None) -> Array:
        stored = np.rint(real / np.float32(step))
        if zero is not None:
            stored = np.clip(stored, -128 - zero, 127 - zero)
        results: Array = encode(function(stored * np.float32(step)), target) == answer
        return results.reshape(-1)

    def best(steps: Any, chosen: Array) -> float:
        scores = np.array([same(step)[chosen].sum() for step in steps])
        highest = np.flatnonzero(scores == scores.max())
        return float(steps[highest[len(highest) // 2]])  # all of them fit: the one in the middle

    everything = np.ones(real.size, bool)
    about = best(_step(real.max(), real.min()) * np.geomspace(1 / _REACH, _REACH, 1400), everything)
    zero = max((None, *range(-128, 128)), key=lambda zero: same(about, zero).sum())
    equal, number = 0, np.arange(real.size)
    for fold in range(_FOLDS):
        judged, step = number % _FOLDS == fold, about
        for width in (1e-3, 1e-4, 1e-5):
            step = best(step * (1 + width * np.linspace(-1, 1, 21)), ~judged)
        if known:
            step = best([*known, step], ~judged)
        equal += int(same(step, zero)[judged].sum())
    return Recomputed((*ways, Way.STORED), equal, real.size)
