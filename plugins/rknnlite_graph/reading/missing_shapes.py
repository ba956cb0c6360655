"""Shapes of results that a file leaves out, because nothing in the network reads them."""

from __future__ import annotations

from typing import Optional

from rknnlite.errors import ModelInvalid

from ..graph import Tensor

__all__ = ["recurrent_shapes", "split_shapes"]

Shape = tuple[int, ...]


def recurrent_shapes(x: Tensor, state: Tensor, count: int) -> list[Shape]:
    """Of Y, Y_h and Y_c of an LSTM or GRU with input ``x`` [T, B, I]; one ``state`` [D, B, H] is there."""
    if len(x.shape) < 2 or not state.shape:
        raise ModelInvalid(f"tensor {state.name}: a result of shape {list(state.shape)} from {list(x.shape)}")
    return [(x.shape[0], state.shape[0], *x.shape[1:-1], state.shape[-1]), *[state.shape] * (count - 1)]


def split_shapes(whole: Tensor, part: Tensor, sizes: Optional[Tensor], count: int) -> list[Shape]:
    """Of the ``count`` parts of ``whole``, one of which is there; ``sizes`` along the axis are equal unless stored."""
    pairs = list(zip(whole.shape, part.shape))
    axis = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if axis is None or len(whole.shape) != len(part.shape):
        raise ModelInvalid(f"tensor {part.name}: {list(part.shape)} is no part of {list(whole.shape)}")
    stored = [whole.shape[axis] // count] * count
    if sizes is not None and sizes.load is not None:
        stored = [int(size) for size in sizes.value().reshape(-1)[: count + 1]]
    if len(stored) != count or sum(stored) != whole.shape[axis] or min(stored) < 0:
        raise ModelInvalid(
            f"tensor {part.name}: parts of {stored} do not make {whole.shape[axis]} of {list(whole.shape)}"
        )
    return [(*whole.shape[:axis], size, *whole.shape[axis + 1 :]) for size in stored]
