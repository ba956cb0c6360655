"""Activation tables of the NPU as it reads them: an integer index, a straight line between two points, slopes past the ends.

What was measured: a step's line has full resolution (RK3576), results of a genuine table lie within one count of it. How the
line rounds was not; it is taken to go to nearest, halves to even, as every other shift does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rknnlite_graph.activation_tables import interpolate
from rknnlite_graph.graph import Lut
from rknnlite_graph.output_registers import OutputRegisters

from .arithmetic import Array, shift

__all__ = ["table_of_indices"]

_REACH = 1 << 20
"""Indices beyond the ends that a dense table holds: values saturate before."""


def table_of_indices(lut: Lut, registers: OutputRegisters) -> Callable[[Array], Array]:
    """Sums behind their multipliers become values of the table, in place."""
    first, last = lut.low_start, lut.high_start + 512 * lut.high_step
    low = first - (_REACH if lut.low_slope else 0)
    high = last + (_REACH if lut.high_slope else 0)
    if not 0 < high - low < 1 << 22:
        raise ValueError(f"its activation table covers the indices {low} to {high}")
    dense = np.rint(interpolate(lut, np.arange(low, high + 1, dtype=np.float64)))
    factor, offset, bits = registers.bn_multiplier, registers.bn_offset, registers.bn_shift

    def look_up(values: Array) -> Array:
        if registers.bn_offset_first:
            values += offset
            values *= factor
        else:
            values *= factor
            values += offset
        shift(values, bits)
        np.clip(values, low, high, out=values)
        values -= low
        values[...] = dense.take(values.astype(np.intp))
        return values

    return look_up
