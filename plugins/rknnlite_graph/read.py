"""The graph of a model, whichever container it lies in."""

from __future__ import annotations

import weakref

from rknnlite.errors import ModelUnsupported
from rknnlite.formats.flat_model import FlatModel
from rknnlite.formats.model import NO_ATTRIBUTES, Attributes, Model

from .graph import Graph

__all__ = ["read_graph", "told_graph"]

_told: dict[int, Graph] = {}


def told_graph(model: Model) -> Graph:
    """That of the default shape, read once for all who tell of a model; nobody may change it. Raises as ``read_graph`` does."""
    found = _told.get(id(model))
    if found is None:
        found = _told[id(model)] = read_graph(model, model.default_shape)
        weakref.finalize(model, _told.pop, id(model), None)
    return found


def read_graph(model: Model, index: int = 0, attributes: Attributes = NO_ATTRIBUTES) -> Graph:
    """Build graph ``index`` of a model (one per legal set of shapes).

    ``attributes`` are those that the container leaves out (the mini format stores the attributes of few types).

    Raises:
        ModelInvalid, ModelUnsupported: the file, or what only a board runs.
        ParamInvalid: attributes of a node that is not there or has its own.
    """
    if model.board_only:
        raise ModelUnsupported(model.board_only)
    if isinstance(model, FlatModel):
        from .reading.builder import build_graph

        return build_graph(model, index, attributes)
    from rknnlite.formats.rknn1 import Rknn1Model  # few files are that old

    from .rknn1.description import describe
    from .rknn1.graph import build_graph as build_first

    if not isinstance(model, Rknn1Model):
        raise ModelUnsupported(f"no reader knows models of {type(model).__name__}")
    return build_first(describe(model))
