"""The layers of a graph and the edges between them, as the converter's hybrid quantisation takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Optional

import numpy as np
from rknnlite_graph.float_graph import weight_steps
from rknnlite_graph.graph import MARKERS, Graph, Node

from .edge import Edge

__all__ = ["LaidEdge", "edges_of", "weight_noise"]

_LAID = (
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "exDataConvert", "Concat", "Split", "Slice", "Gather"
)  # fmt: skip
"""Operators that hand on the values they get: the edges before and behind them are one."""


@dataclass(frozen=True)
class LaidEdge:
    """Tensors that hold the same values, and the layers (by the tensors that they make) on both sides, those between included."""

    tensors: frozenset[str]
    layers: frozenset[str]


def edges_of(graph: Graph) -> list[LaidEdge]:
    """In order of computation; constants are none."""
    nodes = [node for node in graph.nodes if node.op not in MARKERS]
    group: dict[int, int] = {}

    def root(index: int) -> int:
        while group.setdefault(index, index) != index:
            index = group[index]
        return index

    for node in nodes:
        for index in [*_computed(node, graph), *node.outputs]:
            root(index)
        if node.op in _LAID:
            for index in [*_computed(node, graph), *node.outputs[1:]]:
                group[root(index)] = root(node.outputs[0])
    tensors: dict[int, set[str]] = {}
    layers: dict[int, set[str]] = {}
    for index in group:
        tensors.setdefault(root(index), set()).add(graph.tensors[index].name)
    for node in nodes:
        for index in [*_computed(node, graph), *node.outputs]:
            layers.setdefault(root(index), set()).add(graph.tensors[node.outputs[0]].name)
    return [LaidEdge(frozenset(names), frozenset(layers.get(key, ()))) for key, names in tensors.items()]


def _computed(node: Node, graph: Graph) -> Iterable[int]:
    """The operands that are no constants."""
    return [index for index in node.inputs if index >= 0 and graph.tensors[index].load is None]


def weight_noise(graph: Graph, name: str, edges: Mapping[str, Edge]) -> Optional[float]:
    """The sum of squares that rounding a convolution's weights adds to the tensor ``name``, as their step and the input's size let
    expect; None where that is not known."""
    tensors = graph.tensors
    node = next((n for n in graph.nodes if n.outputs and tensors[n.outputs[0]].name == name), None)
    if node is None or node.conv is None:
        return None
    source = edges.get(tensors[node.inputs[0]].name)
    steps = weight_steps(node, graph)
    if source is None or steps is None or not source.count:
        return None
    _, into, rows, columns = node.conv.weight_shape
    energy = source.signal / source.count  # mean square of each channel
    if node.conv.depthwise:
        per = np.resize(energy, len(steps)) * rows * columns
    else:
        per = np.full(len(steps), energy.mean() * into * rows * columns)
    return float((steps**2 / 12 * per).sum()) * edges[name].count
