"""Which results must not hang on who computes: those of 8 bits, and the floats that become some later."""

from __future__ import annotations

from .byte_tables import is_small
from .graph import Activation, Graph, Node
from .node_view import NodeView
from .operators import operator_of

__all__ = ["behind_bytes", "floats_behind_bytes"]

_SUMS = ("GlobalAveragePool", "ReduceMean", "ReduceSum")
"""Exact of integers, and of floats as their order has it."""


def behind_bytes(graph: Graph, node: Node) -> bool:
    """Whether a node gives integers of 8 bits, or floats that such are made of."""
    if graph.behind_bytes is None:
        graph.behind_bytes = _found(graph)
    return node.index in graph.behind_bytes


def _found(graph: Graph) -> frozenset[int]:
    wanted, found = set[int](), set[int]()
    for node in reversed(graph.nodes):
        if any(index in wanted or is_small(graph.tensors[index]) for index in node.outputs):
            found.add(node.index)
            live = (graph.tensors[index] for index in node.inputs if index >= 0)
            wanted.update(t.index for t in live if t.quant is None and t.dtype.is_float)
    return frozenset(found)


def floats_behind_bytes(view: NodeView) -> bool:
    """Whether bytes hang on the last bit of a float that the node makes: by a function, or by a sum of floats.

    Functions of bytes, and sums of them, are exact where they are computed so.
    """
    node = view.node
    if not behind_bytes(view.graph, node):
        return False
    if node.conv is not None:
        table = node.fused is not None and node.fused.after is Activation.TABLE
        return not node.conv.quantised or (table and view.outputs[0].quant is None)
    row = operator_of(node.op)
    return row is not None and (row.floating or (row.name in _SUMS and not is_small(view.tensor(0))))
