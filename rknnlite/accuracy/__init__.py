"""Accuracy analysis: how far apart two runs of a network are, tensor by tensor."""

from __future__ import annotations

from .comparison import Comparison, Distance, TensorError
from .session import compare

__all__ = ["Comparison", "Distance", "TensorError", "compare"]
