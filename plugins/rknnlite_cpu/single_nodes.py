"""Single nodes for another backend: see ``rknnlite_backend.node_runners``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from rknnlite_graph.graph import Graph, Node, Tensor
from rknnlite_graph.node_view import NodeView

from rknnlite.spi import CustomOp
from rknnlite.tensor import DType

from .plan import ExecutionPlan
from .values import Array, stored_elements

__all__ = ["SingleNodes", "runtime_value"]


def runtime_value(stored: Array, tensor: Tensor) -> Array:
    """Elements as the tensor stores them -> runtime value; the way back is ``stored_elements``."""
    if tensor.quant is not None:
        return stored.astype(np.float32) - np.float32(tensor.quant.zero_point)
    if tensor.dtype is DType.BFLOAT16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if tensor.dtype.is_float else np.ascontiguousarray(stored)


class SingleNodes:
    """A plan of one step for each node."""

    def __init__(self, plans: Mapping[int, ExecutionPlan]) -> None:
        self._plans = plans

    @classmethod
    def prepare(
        cls,
        graph: Graph,
        nodes: Collection[int],
        label: str,
        ops: Mapping[str, CustomOp],
        declared: Collection[str],
    ) -> SingleNodes:
        """See ``RunsNodes.node_runner``."""
        wanted = [node for node in graph.nodes if node.index in nodes]
        parts = {node.index: _part(graph, node) for node in wanted}
        return cls({index: ExecutionPlan(part, label, ops, declared) for index, part in parts.items()})

    def operands(self, node: int) -> Sequence[int]:
        """See ``NodeRunner.operands``."""
        return self._plans[node].graph.inputs

    def run(self, node: int, operands: Mapping[int, Array]) -> dict[int, Array]:
        """See ``NodeRunner.run``."""
        plan = self._plans[node]
        tensors = plan.graph.tensors
        results = plan.run({i: runtime_value(value, tensors[i]) for i, value in operands.items()})
        return {i: stored_elements(value, tensors[i]) for i, value in results.items()}

    def register(self, op: CustomOp) -> None:
        """See ``NodeRunner.register``."""
        for plan in self._plans.values():
            plan.register(op)

    def twin(self, ops: Mapping[str, CustomOp]) -> SingleNodes:
        """See ``NodeRunner.twin``."""
        return SingleNodes({index: plan.twin(ops) for index, plan in self._plans.items()})

    def close(self) -> None:
        """See ``NodeRunner.close``."""
        for plan in self._plans.values():
            plan.close()


def _part(graph: Graph, node: Node) -> Graph:
    """The graph of one node; what it is told of the nodes behind it stays."""
    view = NodeView(graph, node)
    part = replace(graph, nodes=[node], inputs=list(dict.fromkeys(view.live)), outputs=list(node.outputs))
    _ = view.behind_bytes
    part.behind_bytes = graph.behind_bytes
    return part
