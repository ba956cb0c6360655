"""Outputs of one run, in the forms that the common path and the zero-copy path ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import numpy as np
from rknnlite_graph.graph import Graph, Tensor

from .values import Array, decode, encode, stored_elements

__all__ = ["RunOutputs", "to_float"]

_ZERO = np.float32(0)


@dataclass
class RunOutputs:
    """Results of one run: per batch item the values of the graph's outputs."""

    graph: Graph
    stored: Graph
    """The graph of the file: ``graph`` itself, unless that is in float."""
    items: list[list[Array]]
    post: Optional[list[Array]] = None
    """Results of the post-process plugin, where there is one."""
    number: int = 0
    """How many frames the context had computed before."""

    def outputs(self, convert: Callable[[Array, Tensor], Array]) -> list[Array]:
        """The model's outputs, batch items behind each other."""
        answers = []
        for position, index in enumerate(self.graph.outputs):
            parts = [convert(item[position], self.graph.tensors[index]) for item in self.items]
            answers.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        return answers

    def floats(self) -> list[Array]:
        """The outputs in float32."""
        return self.outputs(to_float)

    def elements(self) -> list[Array]:
        """The outputs as the file stores them."""
        tensors = [self.stored.tensors[index] for index in self.stored.outputs]
        if self.graph.tensors is self.stored.tensors:
            return self.outputs(stored_elements)
        reals = self.outputs(decode)
        return [stored_elements(encode(real, tensor), tensor) for real, tensor in zip(reals, tensors)]


def to_float(value: Array, tensor: Tensor) -> Array:
    """Runtime value -> real value in float32, a copy. No integer is a negative zero, though its runtime value may be."""
    if tensor.quant is None:
        return np.array(value, np.float32, order="C")
    real = decode(value, tensor)
    if value.dtype == np.float32:
        np.add(real, _ZERO, out=real)
        return real
    return np.asarray(np.add(real, _ZERO, dtype=np.float32, order="C"))
