"""Graphs as ONNX: segments for engines, whole networks for people. Nothing of ONNX is loaded before one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknnlite_graph.graph import Graph, Node
from rknnlite_graph.lowering import Form, Lowering, Segment

from rknnlite.formats import IoTensor

__all__ = ["OnnxLowering"]


class OnnxLowering(Lowering):
    """Writes ONNX of operator set 17."""

    name = "onnx"

    def why_not(self, graph: Graph, node: Node, form: Form) -> str:
        from . import ops

        if ops.writer_for(node.op) is None:
            return f"{node.op} has no form in ONNX"
        return ""

    def segment(self, graph: Graph, segment: Segment, form: Form) -> bytes:
        from .segment import write_segment

        return write_segment(graph, segment, form)

    def network(
        self, graph: Graph, ins: Sequence[IoTensor], outs: Sequence[IoTensor], form: Form, **options: Any
    ) -> Any:
        from .network import options_of, write_network

        return write_network(graph, ins, outs, form, options_of(options))
