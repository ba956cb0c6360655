"""Shapes that a file leaves out: of results that nothing in the network reads, of constants with rows for each item."""

from __future__ import annotations

from functools import partial
from typing import Optional

import numpy as np

from rknnlite.errors import ModelInvalid

from ..graph import Tensor

__all__ = ["give_items", "recurrent_shapes", "split_shapes"]

_BLOCKS = (4, 8, 16, 32, 64)
"""Channels that lie together."""

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


def give_items(tensor: Tensor, data: memoryview, result: tuple[int, ...]) -> None:
    """Make [N, C, 1, 1] of a constant without dims that holds a row of numbers for each item of ``result`` [N, C, H, W],
    padded with zeros to whole blocks; a single number stays."""
    kind = tensor.dtype.numpy.newbyteorder("<")
    elements = np.frombuffer(data, kind, len(data) // kind.itemsize)
    items, channels = result[0], result[1] if len(result) == 4 else 0
    for block in _BLOCKS:
        width = -(-channels // block) * block
        rows = elements[: items * width]
        if not channels or rows.size < items * width or elements[items * width :].any():
            continue
        stored = rows.reshape(items, width)
        if not stored[:, channels:].any() and stored[1:].any():
            tensor.shape = (items, channels, 1, 1)
            tensor.load = partial(np.reshape, stored[:, :channels].copy(), tensor.shape)
            return
