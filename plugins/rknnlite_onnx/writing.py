"""One node of a graph in ONNX, by whoever writes its type."""

from __future__ import annotations

from rknnlite.graph import Node
from rknnlite.graph.view import NodeView
from rknnlite.spi.lowering import NotLowered

from . import ops
from .carrier import Carrier
from .registry import LoweredNode, writer_of

__all__ = ["write_node"]

assert ops.__all__  # importing it fills the registry

_MISFITS = (
    ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, OverflowError, AttributeError,
)  # fmt: skip


def write_node(carrier: Carrier, node: Node) -> None:
    """Write one node; raises NotLowered, ModelInvalid."""
    writer = writer_of(node.op)
    if writer is None:
        raise NotLowered("ONNX has no operator for it, and nobody writes it")
    carrier.emitter.prefix = node.name or f"{node.op}_{node.index}"
    try:
        writer(LoweredNode(NodeView(carrier.graph, node), carrier))
    except _MISFITS as error:
        raise NotLowered(f"its operands do not fit: {type(error).__name__}: {error}") from error
