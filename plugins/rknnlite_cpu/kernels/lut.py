"""The NPU's activation tables as a dense look-up over the integer index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.activation_tables import dense_table
from rknnlite_graph.graph import Lut

__all__ = ["DenseLut"]

Array = NDArray[Any]


class DenseLut:
    """Output values for every integer index up to where the result saturates; see ``dense_table``."""

    def __init__(self, lut: Lut, scale: float, offset: float, low: float, high: float) -> None:
        first, self._table = dense_table(lut, scale, offset, low, high)
        last = first + len(self._table) - 1
        self._first, self._last = np.asarray(first, np.float32), np.asarray(last, np.float32)

    def __call__(self, values: Array) -> None:
        """float32 indices become float32 outputs, in place."""
        values.clip(self._first, self._last, out=values)
        np.subtract(values, self._first, out=values)
        np.rint(values, out=values)
        # all are inside: no second look is needed
        values[...] = self._table.take(values.astype(np.intp), mode="clip")
