"""Writers of nodes, by family; importing this package fills the registry with those of nearly every network."""

from __future__ import annotations

import importlib
from typing import Optional

from ..registry import Writer, writer_of
from . import activation, conv, elementwise, matmul, move, norm, pool, resize

__all__ = [
    "RARE",
    "activation",
    "conv",
    "elementwise",
    "matmul",
    "move",
    "norm",
    "pool",
    "resize",
    "writer_for",
]

RARE = ("gather", "rare", "reduce", "regions", "rnn", "scatter")
"""Families that few networks have: imported when a node is of none of the others."""


def writer_for(kind: str) -> Optional[Writer]:
    """Who writes nodes of a type, None where nobody does."""
    found = writer_of(kind)
    if found is None:
        for family in RARE:
            importlib.import_module(f".{family}", __name__)
        found = writer_of(kind)
    return found
