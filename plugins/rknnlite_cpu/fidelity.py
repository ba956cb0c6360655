"""Exactness modes: the network as the vendor's simulator computes it, as a chip does, or the same network in float.

``table_graph`` sends activations through the tables of the file.

In float the same kernels run a graph of real numbers, so that what differs between the modes is the quantisation of
activations and nothing else.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Any

from rknnlite_graph.graph import Graph, Tensor

from rknnlite.errors import ParamInvalid
from rknnlite.formats import IoTensor
from rknnlite.spi import Input
from rknnlite.tensor import TensorAttr

from .input_conversion import InputConversion
from .values import Array, decode

__all__ = ["Fidelity", "FloatFeed", "graph_for"]


class Fidelity(enum.Enum):
    """What the numbers follow.

    SIMULATOR: the vendor's simulator, which computes with the integers of the file but rounds once where the NPU rounds twice,
    and evaluates functions where the NPU has tables.
    TABLE: the same with activations from the tables that the file uploads, straight lines between their points.
    SILICON: the integers of the registers, rounded as people measured it on chips.
    FLOAT: real numbers.
    """

    SIMULATOR = "simulator"
    TABLE = "table"
    SILICON = "silicon"
    FLOAT = "float"

    @classmethod
    def of(cls, given: Any) -> Fidelity:
        """The mode of that name; raises ParamInvalid."""
        try:
            return cls(_FORMER.get(given, given))
        except (ValueError, TypeError):
            raise ParamInvalid(
                f"fidelity must be 'simulator' (or 'npu', its former name), 'table', 'silicon' or 'float', not {given!r}"
            ) from None


_FORMER = {"npu": "simulator"}
"""Names that modes once had, which are still taken."""


def graph_for(fidelity: Fidelity, graph: Graph) -> Graph:
    """The graph that a mode computes; SIMULATOR: ``graph`` itself.

    Raises:
        ModelUnsupported: a board computes something else, or the file has no registers to compute with.
    """
    if fidelity is Fidelity.FLOAT:
        from rknnlite_graph.float_graph import float_graph

        return float_graph(graph)
    graph.check_commands()
    if fidelity is Fidelity.SILICON:
        from .silicon.rules import silicon_graph

        return silicon_graph(graph)
    return table_graph(graph) if fidelity is Fidelity.TABLE else graph


class FloatFeed:
    """``InputConversion`` of a graph in float: real values, unrounded; stored elements that pass through are decoded."""

    def __init__(self, io: IoTensor, stored: Tensor, real: Tensor, native: TensorAttr) -> None:
        self._stored = stored
        self._as_stored = InputConversion(io, stored, native)
        self._as_real = InputConversion(io, real, native)

    def values(self, item: Input) -> list[Array]:
        """One value per batch item. Raises InputInvalid for wrong shape, size or values."""
        if item.pass_through:
            return [decode(value, self._stored) for value in self._as_stored.values(item)]
        return self._as_real.values(item)


def table_graph(graph: Graph) -> Graph:
    """The same network with activations from the tables of the file; ``graph`` itself stays as it is."""
    nodes = [
        replace(node, stage=replace(node.stage, by_table=True)) if node.stage and node.stage.lut else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=nodes)
