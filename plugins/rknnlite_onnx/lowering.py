"""Graphs as ONNX: segments for engines, whole networks for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknnlite.formats import IoTensor
from rknnlite.graph import Graph, Node
from rknnlite.spi.lowering import Form, Lowering, Segment

from . import ops
from .carrier import Carrier, Rep
from .emitter import Emitter, value_info
from .writing import write_node

__all__ = ["OnnxLowering"]


class OnnxLowering(Lowering):
    """Writes ONNX of operator set 17."""

    name = "onnx"

    def why_not(self, graph: Graph, node: Node, form: Form) -> str:
        if ops.writer_for(node.op) is None:
            return f"{node.op} has no form in ONNX"
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
        from .network import options_of, write_network

        return write_network(graph, ins, outs, form, options_of(options))
