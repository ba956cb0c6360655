"""What a normalisation node computes, for whoever computes or writes it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .node_view import NodeView

__all__ = ["NormSpec", "norm_spec"]

_EXACT = 1 << 24
_LARGEST = 510
"""Of 8 bits: twice what a value can be less its zero point."""


@dataclass(frozen=True)
class NormSpec:
    """``axes`` that are normalised over, ``count`` elements together.

    ``whole``: the operand has 8 bits, and sums of ``count`` of its integers are exact in float32. ``added`` is what ``eps``
    is under the root of whole numbers (of the sum of squares; of mode layer times ``count``).
    """

    mode: str
    eps: float
    axes: tuple[int, ...]
    count: int
    whole: bool
    added: float


def norm_spec(view: NodeView) -> NormSpec:
    """Raises ModelInvalid for a mode that nobody knows."""
    mode = view.choice("mode", "layer", "rms", "l1", "l2", "pixel")
    eps = float(view.attrs.get("eps", view.parameters["epsilon"]))
    source = view.tensor(0)
    rank = len(source.shape)
    axes = tuple(int(a) % rank for a in view.attrs.get("axes") or [int(view.parameters["axis"])])
    count = prod(source.shape[axis] for axis in axes)
    whole = source.in_eight_bits and count * _LARGEST < _EXACT
    scale = source.quant.scale if source.quant is not None else 1.0
    if mode == "l1":
        added = eps / scale
    else:
        added = eps / scale**2 * {"layer": float(count) ** 2, "rms": float(count)}.get(mode, 1.0)
    return NormSpec(mode, eps, axes, count, whole, added)
