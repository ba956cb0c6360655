"""What the CPU reference makes of a file of the first toolkit, in stored elements, and how near that is to other answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from rknnlite_cpu.plan import ExecutionPlan
from rknnlite_cpu.values import stored_elements
from rknnlite_graph.read import read_graph

from rknnlite.formats import ModelFile

__all__ = ["Nearness", "answer", "nearness"]


class Nearness(NamedTuple):
    """The share of equal elements, and the largest difference in stored elements (of floats: real ones)."""

    equal: float
    most: float

    def __str__(self) -> str:
        return (
            "equal" if self.equal == 1 else f"{100 * self.equal:.1f} % equal, at most {self.most:.4g} apart"
        )


def answer(data: bytes, inputs: list[Any]) -> list[Any]:
    """Stored outputs for stored inputs of the graph's own shapes."""
    graph = read_graph(ModelFile(data).model)
    values = {}
    for index, given in zip(graph.inputs, inputs):
        quant = graph.tensors[index].quant
        real = np.asarray(given, np.float32)
        values[index] = real if quant is None else real - np.float32(quant.zero_point)
    out = ExecutionPlan(graph, "sweep").run(values)
    return [stored_elements(out[index], graph.tensors[index]) for index in graph.outputs]


def nearness(ours: list[Any], theirs: list[Any]) -> Nearness:
    """Over all outputs."""
    pairs = [(a.astype(np.float64).ravel(), np.asarray(b, np.float64).ravel()) for a, b in zip(ours, theirs)]
    apart = np.concatenate([np.abs(a - b) for a, b in pairs])
    return Nearness(float((apart == 0).mean()), float(apart.max()))
