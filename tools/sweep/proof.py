"""When a distance from the simulator is proven to be no error: four tests for cases that do not match.

* ``NEARER``: ours is no farther from the float network than the simulator is. The simulator rounds between layers that
  the file joins (a depthwise convolution and its activation, for example); an error of ours could not bring us nearer.
* ``JOINED``: the file stores what layers inside give as int8, and cuts it off at the ends of the calibrated range; the
  simulator joins them. Computed without any rounding inside, our results are the simulator's: at least 99 % of the bytes, the
  others one step off.
* ``CUT``: values of the run leave the calibrated range of a layer inside, where the file cuts them off and the simulator, which
  joins that layer with the next one, does not. With wider ranges inside our results match, or are no farther from the float
  network than the simulator's.
* ``ROUNDING``: the file rounds between layers where the simulator does not (or the other way round), and each rounding
  is off by a twelfth of a square step. Noise of that size, put on the results of the layers inside, moves the outputs far
  enough to explain both our distance to the float network and the largest difference from the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
from judge import Judge, Verdict, compare
from rknnlite_cpu.context import CpuContext
from rknnlite_cpu.plan import ExecutionPlan, Step, Watch
from rknnlite_cpu.values import Array, centred_range, decode, round_f16
from rknnlite_graph.float_graph import float_graph
from rknnlite_graph.graph import Graph

from rknnlite.quant import RANGES
from rknnlite.tensor import DType, TensorAttr

__all__ = ["Proof", "prove"]

LEAST_COSINE = 0.99
"""No proof reaches further."""
SLACK = 1.1
"""For the noise of the estimate."""
DRAWS = 12
SHARE = 1 / 12
"""Of the values inside that are moved by one step: the variance of rounding."""
WIDE_SHARE = 0.25
"""For the largest difference."""
JOINED_SHARE = 0.99
"""Of the bytes that are the simulator's, where nothing is rounded inside."""


class Proof(Enum):
    """Why a distance is no error."""

    NEARER = "n"
    JOINED = "j"
    CUT = "c"
    ROUNDING = "r"


class _Wobble(Watch):
    """Moves a share of what the layers inside give by one step of their type."""

    def __init__(self, graph: Graph, seed: int, share: float) -> None:
        self._graph = graph
        self._share = share
        self._rng = np.random.default_rng(seed)

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        for index in step.targets:
            if index not in self._graph.outputs:
                values[index] = self._moved(values[index], index)  # type: ignore[index]

    def _moved(self, value: Array, index: int) -> Array:
        tensor = self._graph.tensors[index]
        sign = self._rng.choice(np.float32([-1, 1]), value.shape)
        sign *= self._rng.random(value.shape) < self._share
        if tensor.quant is not None:
            return np.clip(value + sign, *centred_range(tensor)).astype(np.float32)
        if tensor.dtype is DType.FLOAT16:
            return round_f16(value * (1 + sign * np.float32(2**-10)))
        return value


def prove(
    context: CpuContext,
    found: Sequence[Any],
    wanted: Sequence[Any],
    truths: Sequence[Any],
    verdicts: Sequence[Verdict],
) -> Proof | None:
    """The proof that holds for every output that does not match, if there is one."""
    off = [place for place, verdict in enumerate(verdicts) if not verdict.matches]
    own = _is_its_own(context, found)
    if own and _joined(context, wanted, off):
        return Proof.JOINED
    for place in off:
        verdict = verdicts[place]
        if verdict.cosine < LEAST_COSINE or verdict.ours is None or verdict.theirs is None:
            return None
    if all((verdicts[place].ours or 0) <= (verdicts[place].theirs or 0) for place in off):
        return Proof.NEARER
    if own and _cut(context, wanted, truths, off):
        return Proof.CUT
    moves = _moves(context, SHARE), _moves(context, WIDE_SHARE)
    for place in off:
        quant = context.outputs[place].quant
        ends = _range(context.outputs[place])
        truth = np.clip(truths[place], *ends)
        expected = float(np.hypot(_rms(wanted[place], truth), np.sqrt(np.mean(np.square(moves[0][place])))))
        reach = float(np.abs(moves[1][place]).max()) + 1.01 * (quant.scale if quant else 0.0)
        largest = float(np.abs(_difference(found[place], wanted[place])).max(initial=0))
        if _rms(found[place], truth) > SLACK * expected or largest > reach:
            return None
    return Proof.ROUNDING


def _is_its_own(context: CpuContext, found: Sequence[Any]) -> bool:
    """Whether ``found`` is what the context computes: what is computed in another way says nothing of other results."""
    current = context._shapes.current
    again = context._framed(current, context._compute(current, context._inputs_for("a proof"))).floats()
    return all(np.array_equal(np.reshape(a, -1), np.reshape(b, -1)) for a, b in zip(again, found))


def _joined(context: CpuContext, wanted: Sequence[Any], off: Sequence[int]) -> bool:
    """Whether the simulator's answers are those of the network without any rounding inside."""
    current, inputs = context._shapes.current, context._inputs_for("a proof")
    graph = current.plan.graph
    reals = [[decode(value, graph.tensors[i]) for value in values] for i, values in zip(graph.inputs, inputs)]
    joined = replace(current, plan=ExecutionPlan(float_graph(graph), "joined"))
    found = context._framed(joined, context._compute(joined, reals)).elements()
    for place in off:
        quant = context.outputs[place].quant
        if quant is None or context.outputs[place].dtype.is_float:  # those have a step of 1
            return False
        stored = np.rint(np.asarray(wanted[place], np.float64) / quant.scale) + quant.zero_point
        errors = np.abs(_difference(found[place], stored))
        if (errors == 0).mean() < JOINED_SHARE or errors.max(initial=0) > 1:
            return False
    return True


def _cut(context: CpuContext, wanted: Sequence[Any], truths: Sequence[Any], off: Sequence[int]) -> bool:
    """Whether the network is right where its int8 values inside have the range of int16."""
    current, inputs = context._shapes.current, context._inputs_for("a proof")
    graph = current.plan.graph
    inner = {i for node in graph.nodes for i in node.outputs} - {*graph.inputs, *graph.outputs}
    tensors = [
        replace(tensor, dtype=DType.INT16) if tensor.index in inner and tensor.dtype is DType.INT8 else tensor
        for tensor in graph.tensors
    ]
    wide = replace(current, plan=ExecutionPlan(replace(graph, tensors=tensors), "wide"))
    found = context._framed(wide, context._compute(wide, inputs)).floats()
    for place in off:
        quant = context.outputs[place].quant
        if quant is None or context.outputs[place].dtype.is_float:  # those have a step of 1
            return False
        verdict = compare(found[place], wanted[place], quant.scale, True, Judge.FUSED, truths[place])
        nearer = verdict.ours is not None and verdict.theirs is not None and verdict.ours <= verdict.theirs
        if not (verdict.matches or nearer):
            return False
    return True


def _difference(a: Any, b: Any) -> Array:
    return np.subtract(np.reshape(a, -1), np.reshape(b, -1), dtype=np.float64)


def _rms(a: Any, b: Any) -> float:
    return float(np.sqrt(np.mean(np.square(_difference(a, b)))))


def _range(attr: TensorAttr) -> tuple[float, float]:
    """Of the real values that an output can hold."""
    if attr.quant is None or attr.dtype not in RANGES:
        return -np.inf, np.inf
    low, high = RANGES[attr.dtype]
    return (low - attr.quant.zero_point) * attr.quant.scale, (high - attr.quant.zero_point) * attr.quant.scale


def _moves(context: CpuContext, share: float) -> list[Array]:
    """Per output how far noise inside moves it, one row per draw."""
    current, inputs = (
        context._shapes.current,
        context._inputs_for("a proof"),
    )  # no face of the package offers it

    def outputs(watch: Watch | None) -> list[Array]:
        return context._framed(current, context._compute(current, inputs, watch)).floats()

    still = outputs(None)
    rows: list[list[Array]] = [[] for _ in still]
    for seed in range(DRAWS):
        moved = outputs(_Wobble(current.plan.graph, seed, share))
        for place, (a, b) in enumerate(zip(moved, still)):
            rows[place].append(_difference(a, b))
    return [np.stack(row) for row in rows]
