"""A part of a graph as an ONNX file, as engines run it: values enter and leave as a plan carries them."""

from __future__ import annotations

from rknnlite_graph.graph import Graph
from rknnlite_graph.lowering import Form, Segment

from .emitter import Emitter, value_info
from .lowered_values import LoweredValues, Rep
from .node_writer import write_node

__all__ = ["write_segment"]


def write_segment(graph: Graph, segment: Segment, form: Form) -> bytes:
    """See ``Lowering.segment``."""
    emitter = Emitter(products_only=form is Form.EXACT_PRODUCTS)
    values = LoweredValues(emitter, graph, form)
    entries = []
    for index in segment.inputs:
        name = segment.tensor_name(index)
        emitter.reserve(name)
        values.put(index, Rep.CENTRED if values.is_quantised(index) else Rep.REAL, name)
        entries.append(value_info(name, values.typed(index), graph.tensors[index].shape))
    for index in segment.outputs:
        emitter.reserve(segment.tensor_name(index))
    for node in segment.nodes:
        write_node(values, node)
    exits, taken = [], {segment.tensor_name(index) for index in segment.inputs}
    for index in segment.outputs:
        found = values.get(index, Rep.CENTRED if values.is_quantised(index) else Rep.REAL)
        if found in taken or emitter.is_constant(found):
            found = emitter.node("Identity", found)
        taken.add(found)
        emitter.rename(found, segment.tensor_name(index))
        exits.append(value_info(segment.tensor_name(index), values.typed(index), graph.tensors[index].shape))
    return emitter.content(entries, exits, "segment")
