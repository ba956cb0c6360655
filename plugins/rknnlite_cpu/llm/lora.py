"""Adapters of low rank (LoRA): what a session adds to products with the weights, which stay shared.

Sessions with different adapters, and without any, go through the weights together; each adds its own to its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .linear import Linear

__all__ = ["Adapted", "Adapter", "Enabled", "adapting"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Adapter:
    """An adapter by its name; ``pairs``: name of a matrix -> float32 (inputs, rank) and (rank, outputs), scaled.

    ``digest`` tells the contents apart.
    """

    name: str
    digest: str
    pairs: Mapping[str, tuple[Array, Array]]


Enabled = tuple[tuple[Adapter, float], ...]
"""The adapters of a session with their scales."""


class _Pass(threading.local):
    """Whose rows are which in the pass that this thread computes."""

    rows: Sequence[tuple[slice, Enabled]] = ()


_PASS = _Pass()


@contextmanager
def adapting(rows: Sequence[tuple[slice, Enabled]]) -> Iterator[None]:
    """Products that this thread computes meanwhile get what the adapters of their rows add.

    A signal handler may compute in the middle of that, with adapters of its own or with none.
    """
    before, _PASS.rows = _PASS.rows, [(place, enabled) for place, enabled in rows if enabled]
    try:
        yield
    finally:
        _PASS.rows = before


class Adapted(Linear):
    """A ``product`` to which the adapters of a pass are added."""

    def __init__(self, name: str, product: Linear) -> None:
        super().__init__(product.inputs, product.outputs)
        self._name, self.product = name, product

    def __call__(self, x: Array) -> Array:
        out = self.product(x)
        for place, enabled in _PASS.rows:
            for adapter, scale in enabled:
                if self._name in adapter.pairs:
                    down, up = adapter.pairs[self._name]
                    out[place] += (x[place] @ down) @ up * np.float32(scale)
        return out
