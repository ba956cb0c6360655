"""Maps of the network in pixels of its input, between neighbours in straight lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["enlarged"]

Array = NDArray[Any]


def enlarged(values: Array, shape: tuple[int, int], rows: Array, columns: Array) -> Array:
    """Some rows and columns of ``values`` [h, w] enlarged to ``shape``; pixels are squares, their middle is where they are.

    As ``torch.nn.functional.interpolate(mode="bilinear")`` computes it, in float32.

    Examples:
        >>> enlarged(np.array([[0.0, 4.0]], np.float32), (1, 4), np.arange(1), np.arange(4)).tolist()
        [[0.0, 1.0, 3.0, 4.0]]
    """
    above, below, low = _between(rows, values.shape[0], shape[0])
    left, right, far = _between(columns, values.shape[1], shape[1])
    top, bottom = values[above], values[below]
    across = [part[:, left] * (1 - far) + part[:, right] * far for part in (top, bottom)]
    mixed: Array = across[0] * (1 - low[:, None]) + across[1] * low[:, None]
    return mixed


def _between(at: Array, count: int, size: int) -> tuple[Array, Array, Array]:
    """Of pixels of the larger: the two neighbours in the smaller, and how far from the first."""
    source = ((at + 0.5) * (count / size) - 0.5).clip(0).astype(np.float32)
    first = np.minimum(source.astype(np.intp), count - 1)
    return first, np.minimum(first + 1, count - 1), source - first.astype(np.float32)
