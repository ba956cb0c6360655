"""Containers read into graphs: nodes, tensors, decoded parameters of the NPU; one way to see the same network from any file.

``read_graph`` makes a ``Graph`` of a ``Model``; ``lowering`` is the contract of other forms of graphs.
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
