"""When a distance from the simulator is proven to be no error: two tests for cases that do not match.

* ``NEARER``: ours is no farther from the float network than the simulator is. The simulator rounds between layers that
  the file joins (a depthwise convolution and its activation, for example); an error of ours could not bring us nearer.
* ``ROUNDING``: every layer may round one step differently. Such differences, put by chance on the results of the layers
  inside, move the output at least as far as it is from the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from judge import Verdict
from rknnlite_cpu.context import CpuContext
from rknnlite_cpu.plan import Step, Watch
from rknnlite_cpu.values import Array, centred_range, round_f16

from rknnlite.graph import Graph
from rknnlite.tensor import DType

__all__ = ["Proof", "prove"]

LEAST_COSINE = 0.999
"""No proof reaches further."""
SLACK = 1.02
"""What the mean distance of ours to the float network may be of the simulator's with ROUNDING."""
DRAWS = 6
SHARE = 0.25
"""Of the values inside that are moved by one step."""


class Proof(Enum):
    """Why a distance is no error."""

    NEARER = "n"
    ROUNDING = "r"


class _Wobble(Watch):
    """Moves a share of what the layers inside give by one step of their type."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self._graph = graph
        self._rng = np.random.default_rng(seed)

    def after(self, step: Step, seconds: float, values: Mapping[int, Array]) -> None:
        for index in step.targets:
            if index not in self._graph.outputs:
                values[index] = self._moved(values[index], index)  # type: ignore[index]

    def _moved(self, value: Array, index: int) -> Array:
        tensor = self._graph.tensors[index]
        sign = self._rng.choice(np.float32([-1, 1]), value.shape)
        sign *= self._rng.random(value.shape) < SHARE
        if tensor.quant is not None:
            return np.clip(value + sign, *centred_range(tensor)).astype(np.float32)
        if tensor.dtype is DType.FLOAT16:
            return round_f16(value * (1 + sign * np.float32(2**-10)))
        return value


def prove(
    context: CpuContext, found: Sequence[Any], wanted: Sequence[Any], verdicts: Sequence[Verdict]
) -> Proof | None:
    """The proof that holds for every output that does not match, if there is one."""
    off = [place for place, verdict in enumerate(verdicts) if not verdict.matches]
    if any(verdicts[place].cosine < LEAST_COSINE or verdicts[place].ours is None for place in off):
        return None
    if all(_ratio(verdicts[place]) <= 1 for place in off):
        return Proof.NEARER
    if any(_ratio(verdicts[place]) > SLACK for place in off):
        return None
    reach = _reach(context, found)
    off_by = [float(np.abs(np.subtract(a, b, dtype=np.float64)).max()) for a, b in zip(found, wanted)]
    steps = [attr.quant.scale if attr.quant else 0.0 for attr in context.outputs]
    fits = all(off_by[place] <= reach[place] + 1.01 * steps[place] for place in off)
    return Proof.ROUNDING if fits else None


def _ratio(verdict: Verdict) -> float:
    assert verdict.ours is not None and verdict.theirs is not None
    return verdict.ours / verdict.theirs if verdict.theirs else float("inf")


def _reach(context: CpuContext, found: Sequence[Any]) -> list[float]:
    """How far the outputs move at most when the layers inside round otherwise."""
    graph = context._shapes.current.plan.graph  # of this repository: no face of the package offers it
    reach = [0.0] * len(found)
    for seed in range(DRAWS):
        moved = context._framed(context._compute(_Wobble(graph, seed))).floats()
        for place, (a, b) in enumerate(zip(moved, found)):
            reach[place] = max(reach[place], float(np.abs(a.reshape(-1) - b.reshape(-1)).max(initial=0)))
    return reach
