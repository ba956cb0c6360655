"""Containers read into graphs: nodes, tensors, decoded parameters of the NPU; one way to see the same network from any file.

* ``graph`` has the data classes, ``output_registers`` the integers of a stage; ``node_view`` is a node with its tensors,
  ``operators`` a row of facts per operator.
* ``read`` reads: ``reading`` from the tables of flatbuffer containers, ``rknn1`` from files of the first toolkit;
  ``shape_rules`` with ``product_shapes`` says which shapes go together.
* What is made of it: ``float_graph`` (a quantised graph in real numbers), ``activation_tables``, ``resize_coordinates``,
  ``pixel_factors`` (uint8 pictures as the NPU converts them);
  ``unary_functions``, ``byte_tables`` and ``point_tables`` (functions of one operand, in floats, as tables, between points),
  ``norms``;
  ``lowering`` is the contract of other forms of graphs.
* What is said of it: ``inspection``, ``known_hardware_issues``, ``coarse_multipliers``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.inspection import Inspector

__all__ = ["rknnlite_register_inspectors"]


@hookimpl
def rknnlite_register_inspectors(register: Callable[[Inspector], None]) -> None:
    """Offer what graphs tell of model files: operators, weights, doubts."""
    from .inspection import GraphInspector

    register(GraphInspector())
