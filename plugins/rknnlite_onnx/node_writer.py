"""Writes one node of a graph in ONNX, by whoever writes its type."""

from __future__ import annotations

from rknnlite_graph.graph import Node
from rknnlite_graph.lowering import NotLowered
from rknnlite_graph.node_view import NodeView

from . import ops
from .lowered_values import LoweredValues
from .registry import LoweredNode, hangs_on_engines

__all__ = ["FLOATS_BEHIND_BYTES", "write_node"]

FLOATS_BEHIND_BYTES = "its bytes hang on the last bit of a float"

_MISFITS = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError)


def write_node(values: LoweredValues, node: Node) -> None:
    """Write one node; raises NotLowered, which names the node, or ModelInvalid."""
    writer = ops.writer_for(node.op)
    if writer is None:
        raise NotLowered("ONNX has no operator for it, and nobody writes it", node)
    values.emitter.prefix = node.name or f"{node.op}_{node.index}"
    lowered = LoweredNode(NodeView(values.graph, node), values)
    if hangs_on_engines(lowered):
        raise NotLowered(FLOATS_BEHIND_BYTES, node)
    values.emitter.strict = lowered.precise
    try:
        writer(lowered)
    except NotLowered as error:
        raise NotLowered(str(error), node) from None
    except _MISFITS as error:
        raise NotLowered(f"its operands do not fit: {type(error).__name__}: {error}", node) from error
