"""Functions as the first toolkit's NPU looks them up: a few points in each power of two, and straight lines between them.

Measured against the chip maker's simulator. The places are stored values less their zero point, or floats: powers of two times
1 + k / points. The values there and the result, in steps of its tensor, have 16 binary digits; of halves the even stored value
is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.quant import RANGES

from .node_view import NodeView
from .operators import operator_of
from .unary_functions import FUNCTIONS

__all__ = ["by_points", "on_lines"]

Array = NDArray[Any]
_DIGITS = 16


def by_points(view: NodeView, values: Array) -> Array:
    """The results of a node with ``points`` for runtime values of its operand, float32: centred integers, else reals."""
    source, target, points = view.tensor(0), view.outputs[0], view.node.points
    unit, step = (tensor.quant.scale if tensor.quant is not None else 1.0 for tensor in (source, target))
    function = _function(view)
    with np.errstate(all="ignore"):
        found = _rounded(
            on_lines(lambda x: _rounded(function(x * unit) / step), values.astype(np.float64), points)
        )
        if target.quant is None:
            return found.astype(np.float32)
        low, high = RANGES[target.dtype]
        zero = target.quant.zero_point
        found = _rounded(found + zero) if view.node.op == "LeakyRelu" else found + zero
        stored = np.rint(found).clip(low, high)
    return np.asarray(np.where(np.isnan(stored), 0, stored) - zero).astype(np.float32)


def on_lines(function: Callable[[Array], Array], x: Array, points: int) -> Array:
    """A function of float64 values by its values at ``points`` places of each power of two."""
    size = np.abs(x)
    step = np.ldexp(1.0 / points, np.frexp(size)[1] - 1)
    least = np.floor(size / step) * step
    low, high = function(np.copysign(least, x)), function(np.copysign(least + step, x))
    return np.asarray(np.where(least == size, low, low + (high - low) * ((size - least) / step)))


def _function(view: NodeView) -> Callable[[Array], Array]:
    """Of reals, with the node's parameters."""
    row, parameters = operator_of(view.node.op), view.parameters
    assert row is not None
    if row.name == "LeakyRelu":
        return lambda x: _leaky(x, view)
    if row.name == "Clip":
        return lambda x: np.clip(x, parameters["min"], parameters["max"])
    return lambda x: FUNCTIONS[row.name](x, *parameters.values())


def _leaky(x: Array, view: NodeView) -> Array:
    """The ratio of steps has 15 digits."""
    source, target = view.tensor(0).quant, view.outputs[0].quant
    assert source is not None and target is not None
    ratio = _rounded(np.array(source.scale / target.scale), _DIGITS - 1)
    return np.asarray(
        x / source.scale * ratio * np.where(x < 0, view.parameters["alpha"], 1.0) * target.scale
    )


def _rounded(values: Array, count: int = _DIGITS) -> Array:
    digits, powers = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(digits, count)), powers - count))
