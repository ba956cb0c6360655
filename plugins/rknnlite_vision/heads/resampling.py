"""Maps of the network in pixels of its input, between neighbours in straight lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["around", "enlarged"]

Array = NDArray[Any]


def enlarged(values: Array, shape: tuple[int, int], rows: Array, columns: Array) -> Array:
    """Some rows and columns of ``values`` [h, w] enlarged to ``shape``; pixels are squares, their middle is where they are.

    As ``torch.nn.functional.interpolate(mode="bilinear")`` computes it, in float32.

    Examples:
        >>> enlarged(np.array([[0.0, 4.0]], np.float32), (1, 4), np.arange(1), np.arange(4)).tolist()
        [[0.0, 1.0, 3.0, 4.0]]
    """
    y, x = ((at + 0.5) * (n / size) for at, n, size in zip((rows, columns), values.shape, shape))
    above, below, low = around(y.astype(np.float32), values.shape[0])
    left, right, far = around(x.astype(np.float32), values.shape[1])
    top, bottom = values[above], values[below]
    across = [part[:, left] * (1 - far) + part[:, right] * far for part in (top, bottom)]
    mixed: Array = across[0] * (1 - low[:, None]) + across[1] * low[:, None]
    return mixed


def around(places: Array, size: int) -> tuple[Array, Array, Array]:
    """The two of ``size`` pixels whose middles lie around each place, float32, and how far it is from the first."""
    at = (places - np.float32(0.5)).clip(0, size - 1)
    first = at.astype(np.intp)
    return first, np.minimum(first + 1, size - 1), at - first
