"""A part of a graph as a program of the native engine."""

from __future__ import annotations

from math import prod

from rknnlite_graph.graph import Graph, Node, TensorRole
from rknnlite_graph.lowering import Form, NotLowered, Segment
from rknnlite_graph.node_view import NodeView
from rknnlite_graph.operators import Shape, convolution_types, operator_of

from .convolutions import check_convolution, write_convolution
from .description import ProgramText
from .float_nodes import check_float_node, compute_what_is_read, float_writer
from .joins_and_moves import WRITERS, write_table
from .recurrent import write_convert, write_recurrent
from .workspace import place_tensors
from .writer import Write, Writer, in_halves

__all__ = ["NativeLowering"]

_CONVOLUTIONS = frozenset(convolution_types())


class NativeLowering:
    """Writes segments for a library whose weights lie in ``layout``."""

    def __init__(self, layout: tuple[int, ...]) -> None:
        self._layout = layout

    def why_not(self, graph: Graph, node: Node, form: Form) -> str:
        """Why a node is left to others, or an empty string."""
        view = NodeView(graph, node)
        try:
            floats = _of_floats(graph, node)
            if floats:
                check_float_node(view)
            if node.op in _CONVOLUTIONS:
                if not floats:
                    check_convolution(view)
            else:
                _writer_of(graph, node)(Writer(graph, self._layout), view)
        except NotLowered as error:
            return str(error)
        except Exception as error:  # a strange node: the numpy kernels say what is wrong with it
            return f"{type(error).__name__}: {error}"
        return ""

    def segment(self, graph: Graph, segment: Segment, form: Form) -> bytes:
        """The program of a segment, as it is kept. Raises NotLowered, ModelInvalid."""
        writer = Writer(graph, self._layout, segment)
        for number, index in enumerate(segment.inputs):
            readers = [node for node in segment.nodes if index in node.inputs]
            dense = all(node.conv is not None and not node.conv.depthwise for node in readers)
            few = dense and all(node.inputs[1:].count(index) == 0 for node in readers)
            writer.enter(number, graph.tensors[index], few and index not in segment.outputs)
        for node in segment.nodes:
            try:
                _writer_of(graph, node)(writer, NodeView(graph, node))
            except NotLowered as error:
                raise NotLowered(str(error), node) from None
        for number, index in enumerate(segment.outputs):
            writer.leave(number, graph.tensors[index])
        compute_what_is_read(writer)
        size = place_tensors(writer.ops, writer.parts)
        shapes = [graph.tensors[index].shape for index in segment.outputs]
        return ProgramText(writer.ops, size, self._layout, shapes).pack()


def _writer_of(graph: Graph, node: Node) -> Write:
    if _of_floats(graph, node):
        written = float_writer(node)
        if written is None:
            raise NotLowered(f"{node.op} of floats has no kernel here")
        return written
    if node.op in _CONVOLUTIONS:
        return write_convolution
    if node.recurrent is not None:
        return write_recurrent
    tensors = [graph.tensors[index] for index in (*node.inputs[:1], *node.outputs[:1])]
    if node.op == "exDataConvert" and any(tensor.quant is None for tensor in tensors):
        return write_convert
    found, row = WRITERS.get(node.op), operator_of(node.op)
    shape = row.shape if row is not None else None
    if (
        shape is Shape.BROADCAST
        and _with_numbers(graph, node)
        and (found is None or not _with_many(graph, node))
    ):
        return write_table
    if found is not None:
        return found
    if shape is Shape.UNARY:
        return write_table
    raise NotLowered(f"{node.op} has no kernel here")


def _with_many(graph: Graph, node: Node) -> bool:
    return prod(graph.tensors[node.inputs[1]].shape) > 1


def _of_floats(graph: Graph, node: Node) -> bool:
    """Whether it is one of float16; what bytes become, and recurrent layers between them, are not."""
    made_of_bytes = node.op == "exDataConvert" and graph.tensors[node.inputs[0]].quant is not None
    if node.recurrent is not None or made_of_bytes:
        return False
    return any(in_halves(graph.tensors[index]) for index in node.outputs)


def _with_numbers(graph: Graph, node: Node) -> bool:
    """Whether the second operand, and any behind it, is stored in the file."""
    others = [graph.tensors[index] for index in node.inputs[1:] if index >= 0]
    return bool(others) and all(tensor.role is TensorRole.CONST for tensor in others)
