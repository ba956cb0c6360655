"""Partitions a plan: the parts that an engine can run, maximal runs of nodes that are lowered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod

from rknnlite_graph.graph import Graph, Node, TensorRole
from rknnlite_graph.lowering import Segment

__all__ = ["islands_of", "pays", "segment_of"]

_PRODUCTS = ("MatMul", "Gemm", "exMatMul", "exSDPAttention")
_SMALLEST = 3
"""Nodes that make an island without a convolution or a product among them."""
_WORK_PER_VALUE = 500
"""Products of a convolution in the time that a value takes from one engine to the next and back (measured)."""


def islands_of(nodes: Sequence[Node], lowered: Collection[int]) -> list[list[Node]]:
    """Runs of nodes, in order of execution, whose indices are among ``lowered``; very small ones are left out."""
    runs: list[list[Node]] = [[]]
    for node in nodes:
        if node.index in lowered:
            runs[-1].append(node)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) >= _SMALLEST or any(_is_heavy(node) for node in run)]


def _is_heavy(node: Node) -> bool:
    return node.conv is not None or node.recurrent is not None or node.op in _PRODUCTS


def segment_of(graph: Graph, part: Sequence[Node], others: Iterable[Node]) -> Segment:
    """What enters a part of a graph, and which of its results ``others`` or the caller read."""
    made = {index for node in part for index in node.outputs}
    stored = {tensor.index for tensor in graph.tensors if tensor.role is TensorRole.CONST}
    entering = dict.fromkeys(
        i for node in part for i in node.inputs if i >= 0 and i not in made and i not in stored
    )
    wanted = {i for node in others for i in node.inputs} | set(graph.outputs)
    leaving = dict.fromkeys(index for node in part for index in node.outputs if index in wanted)
    return Segment(tuple(part), tuple(entering), tuple(leaving))


def pays(graph: Graph, part: Sequence[Node]) -> bool:
    """Whether an engine that is faster should have a part of a graph, although the next one could have it with its neighbours.

    It should where it has half of the graph, or where the work is worth the way of the values that enter and leave.
    """
    nodes = [node for node in graph.nodes if node.op not in ("InputOperator", "OutputOperator")]
    if 2 * len(part) >= len(nodes):
        return True
    inside = {node.index for node in part}
    segment = segment_of(graph, part, [node for node in nodes if node.index not in inside])
    edges = sum(prod(graph.tensors[index].shape) for index in (*segment.inputs, *segment.outputs))
    work = sum(
        prod(node.conv.weight_shape) * prod(graph.tensors[node.outputs[0]].shape[2:])
        for node in part
        if node.conv is not None
    )
    return work >= _WORK_PER_VALUE * edges
