"""Rows that a token has for every layer beside its embedding (Gemma 4 E2B, E4B)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture

from .linear import Linear
from .norms_and_activations import ACTIVATIONS, Normed

__all__ = ["LayerRows", "TokenRows"]

Array = NDArray[Any]


class TokenRows:
    """Of embeddings, and of what the table has behind them, the rows of all layers."""

    def __init__(self, arch: Architecture, product: Linear, norm: Normed) -> None:
        self._arch, self._product, self._norm = arch, product, norm

    def __call__(self, x: Array, embeds: Array) -> Array:
        """``x`` (tokens, hidden) as it goes into the first layer, ``embeds`` (tokens, row_size) -> (tokens, layers, layer_rows)."""
        shape = (len(x), self._arch.layers, self._arch.layer_rows)
        made = self._norm((self._product(x) * np.float32(self._arch.hidden**-0.5)).reshape(shape))
        kept = embeds[:, self._arch.hidden :].reshape(shape) * np.float32(self._arch.layer_rows**0.5)
        return np.asarray((made + kept) * np.float32(0.5**0.5))


class LayerRows:
    """What a layer makes of its rows: ``norm(out(activation(gate(x)) * row))``."""

    def __init__(self, arch: Architecture, gate: Linear, out: Linear, norm: Normed) -> None:
        self._activation, self._gate, self._out, self._norm = ACTIVATIONS[arch.activation], gate, out, norm

    def __call__(self, x: Array, rows: Optional[Array]) -> Array:
        """``x`` (tokens, hidden), ``rows`` (tokens, layer_rows) -> what is added, (tokens, hidden)."""
        assert rows is not None
        return self._norm(self._out(self._activation(self._gate(x)) * rows))
