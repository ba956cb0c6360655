"""Operators, grouped by family; importing this package fills the registry with those of nearly every network."""

from __future__ import annotations

import importlib

from ..registry import Builder, builder_for
from . import activation, conv, elementwise, matmul, move, norm, pool, resize

__all__ = [
    "RARE",
    "activation",
    "builder_of",
    "conv",
    "elementwise",
    "load_rare",
    "matmul",
    "move",
    "norm",
    "pool",
    "resize",
]

RARE = ("gather", "rare", "reduce", "regions", "rnn")
"""Families that few networks have: imported when a node is of none of the others."""


def load_rare() -> None:
    """Fill the registry with the rest."""
    for family in RARE:
        importlib.import_module(f".{family}", __name__)


def builder_of(name: str) -> Builder | None:
    """The builder of a node type, None when there is none."""
    found = builder_for(name)
    if found is None:
        load_rare()
        found = builder_for(name)
    return found
