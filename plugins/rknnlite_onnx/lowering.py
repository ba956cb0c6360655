"""Graphs as ONNX: segments for engines, whole networks for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknnlite.formats import IoTensor
from rknnlite.graph import Graph, Node
from rknnlite.graph.view import NodeView
from rknnlite.spi.lowering import Form, Lowering, NotLowered, Segment
from rknnlite.tensor import DType

from . import ops
from .carrier import Carrier, Rep
from .emitter import Emitter, value_info
from .registry import LoweredNode, writer_of

__all__ = ["OnnxLowering", "write_node"]

assert ops.__all__  # importing it fills the registry


def write_node(carrier: Carrier, node: Node) -> None:
    """Write one node; raises NotLowered, ModelInvalid."""
    writer = writer_of(node.op)
    if writer is None:
        raise NotLowered("ONNX has no operator for it, and nobody writes it")
    carrier.emitter.prefix = node.name or f"{node.op}_{node.index}"
    try:
        writer(LoweredNode(NodeView(carrier.graph, node), carrier))
    except (
        ValueError,
        IndexError,
        TypeError,
        KeyError,
        ZeroDivisionError,
        OverflowError,
        AttributeError,
    ) as error:
        raise NotLowered(f"its operands do not fit: {type(error).__name__}: {error}") from error


class OnnxLowering(Lowering):
    """Writes ONNX of operator set 17."""

    name = "onnx"

    def why_not(self, graph: Graph, node: Node, form: Form) -> str:
        if writer_of(node.op) is None:
            return f"{node.op} has no form in ONNX"
        if any(graph.tensors[i].dtype is DType.BFLOAT16 for i in (*node.inputs, *node.outputs) if i >= 0):
            return "bfloat16 is not written"
        return ""

    def segment(self, graph: Graph, segment: Segment, form: Form) -> bytes:
        emitter = Emitter()
        carrier = Carrier(emitter, graph, form)
        entries = []
        for index in segment.inputs:
            name = segment.tensor_name(index)
            emitter.reserve(name)
            carrier.put(index, Rep.CENTRED if carrier.is_quantised(index) else Rep.REAL, name)
            entries.append(value_info(name, carrier.typed(index), graph.tensors[index].shape))
        for index in segment.outputs:
            emitter.reserve(segment.tensor_name(index))
        for node in segment.nodes:
            write_node(carrier, node)
        exits, taken = [], {segment.tensor_name(index) for index in segment.inputs}
        for index in segment.outputs:
            found = carrier.get(index, Rep.CENTRED if carrier.is_quantised(index) else Rep.REAL)
            if found in taken or emitter.is_constant(found):
                found = emitter.node("Identity", found)
            taken.add(found)
            emitter.rename(found, segment.tensor_name(index))
            exits.append(
                value_info(segment.tensor_name(index), carrier.typed(index), graph.tensors[index].shape)
            )
        model: bytes = emitter.model(entries, exits, "segment").SerializeToString()
        return model

    def network(
        self, graph: Graph, ins: Sequence[IoTensor], outs: Sequence[IoTensor], form: Form, **options: Any
    ) -> Any:
        from .network import write_network

        return write_network(graph, ins, outs, form, **options)
