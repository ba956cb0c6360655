"""Writers of nodes, by family; importing this package fills the registry."""

from __future__ import annotations

from . import activation, conv, elementwise, move, pool

__all__ = ["activation", "conv", "elementwise", "move", "pool"]
