"""The graph that is written in each form (exact, float16, float32), and a graph for several items at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.float_graph import float_graph
from rknnlite_graph.graph import Graph, Node, Tensor, TensorRole
from rknnlite_graph.lowering import Form
from rknnlite_graph.node_view import NodeView

from rknnlite.errors import ParamInvalid
from rknnlite.formats import IoTensor
from rknnlite.tensor import DType

__all__ = ["batched", "batched_io", "graph_in"]

Array = NDArray[Any]


def graph_in(form: Form, graph: Graph) -> Graph:
    """The graph whose nodes are written; nodes and tensor indices are those of ``graph``."""
    if form.as_the_npu:
        return graph
    if form is Form.FP16:
        return _half_graph(graph)
    return float_graph(graph)


def _half_graph(graph: Graph) -> Graph:
    """Every floating tensor stored as float16; a graph that has no other stays as it is."""
    strange = (DType.BFLOAT16,)
    if not any(tensor.quant or tensor.dtype in strange for tensor in graph.tensors):
        return graph
    real = float_graph(graph)
    kept = {t.index for t in graph.tensors if t.quant is None and t.dtype is DType.FLOAT32}
    tensors = [tensor if tensor.index in kept else _half_tensor(tensor) for tensor in real.tensors]
    return replace(real, tensors=tensors, nodes=[_half_node(node) for node in real.nodes])


def _half_tensor(tensor: Tensor) -> Tensor:
    if tensor.role is TensorRole.CONST or tensor.dtype is not DType.FLOAT32:
        return tensor
    return replace(tensor, dtype=DType.FLOAT16)


def _half_node(node: Node) -> Node:
    if node.conv is None or node.conv.quantised:
        return node
    return replace(node, conv=replace(node.conv, weight=_rounded(node.conv.weight)))


def _rounded(load: Callable[[], Array]) -> Callable[[], Array]:
    def rounded() -> Array:
        with np.errstate(over="ignore"):
            return load().astype(np.float16).astype(np.float32)

    return rounded


# -- several items at once ---------------------------------------------------------------------------------------


def batched(graph: Graph, count: int) -> Graph:
    """The same network on ``count`` items, one behind the other in the first axis of every tensor.

    Raises ParamInvalid where a tensor has items elsewhere.
    """
    if count == 1:
        return graph
    items = {graph.tensors[index].shape[0] if graph.tensors[index].shape else 0 for index in graph.inputs}
    if len(items) != 1:
        raise ParamInvalid(f"inputs of {sorted(items)} items cannot be made inputs of a batch; pass batch=1")
    own = items.pop()
    for node in graph.nodes:
        if _mixes_items(graph, node):
            raise ParamInvalid(
                f"node {node.label()} works along the first axis, so there is no batch; pass batch=1"
            )
    live = {index for node in graph.nodes for index in node.outputs} | set(graph.inputs)
    return replace(
        graph, tensors=[_more(each, own, count) if each.index in live else each for each in graph.tensors]
    )


def _mixes_items(graph: Graph, node: Node) -> bool:
    """Whether the first axis is more to a node than one item behind the other."""
    if node.recurrent is not None:
        return True
    if node.op == "Transpose":
        return bool((node.attrs.get("perm") or [1])[0] != 0)
    view = NodeView(graph, node)
    rank = len(view.tensor(0).shape) if view.has(0) else 0
    axes = view.ints(1, "axes") if node.op.startswith("Reduce") else [node.attrs.get("axis", 1)]
    return axes is None or any(axis in (0, -rank) for axis in axes)


def _more(tensor: Tensor, own: int, count: int) -> Tensor:
    if not tensor.shape or tensor.shape[0] != own:
        raise ParamInvalid(
            f"tensor {tensor.name} {list(tensor.shape)} does not have the {own} items of an input in its first axis, so "
            "there is no batch; pass batch=1"
        )
    return replace(tensor, shape=(own * count, *tensor.shape[1:]))


def batched_io(tensors: Sequence[IoTensor], count: int) -> list[IoTensor]:
    """Inputs or outputs of ``batched``."""
    return [io._replace(shape=(io.shape[0] * count, *io.shape[1:])) if io.shape else io for io in tensors]
