"""Functions of one operand of 8 bits as what they are: the results of all 256 values, one definition for every engine."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.quant import RANGES

from .graph import Tensor
from .node_view import NodeView
from .operators import Shape, operator_of
from .unary_functions import FUNCTIONS, in_double, sigmoid

__all__ = ["centred_values", "exponentials", "function_table", "gate", "in_steps", "reals_of"]

Array = NDArray[Any]


def centred_values(tensor: Tensor) -> Array:
    """All values of a quantised tensor of 8 bits less its zero point, ascending, float32."""
    assert tensor.quant is not None
    low, high = RANGES[tensor.dtype]
    return np.arange(low, high + 1, dtype=np.float32) - np.float32(tensor.quant.zero_point)


def reals_of(tensor: Tensor) -> Array:
    """What they stand for."""
    assert tensor.quant is not None
    return np.multiply(centred_values(tensor), np.float32(tensor.quant.scale))


def in_steps(real: Array, tensor: Tensor) -> Array:
    """float32 reals as centred integers of a quantised tensor, in float32; NaN is stored as 0."""
    assert tensor.quant is not None
    low, high = RANGES.get(tensor.dtype, (-(2**31), 2**31 - 1))
    zero = np.float32(tensor.quant.zero_point)
    steps = np.divide(real, np.float32(tensor.quant.scale))
    whole = np.rint(steps + zero) - zero if tensor.zero_first else np.rint(steps)
    found = whole.clip(np.float32(low) - zero, np.float32(high) - zero)
    return np.where(np.isnan(found), -zero, found)


def function_table(view: NodeView) -> Optional[Array]:
    """The results of all values of a node's operand: centred integers where the result is quantised, else reals.

    None where the operand has not 8 bits, or the function is one that float32 gives the same bits of everywhere and that the file
    has no table for.
    """
    source, target, stage = view.tensor(0), view.outputs[0], view.node.stage
    row = operator_of(view.node.op)
    if not source.in_eight_bits or row is None or row.shape is not Shape.UNARY:
        return None
    if view.node.points:
        from .point_tables import by_points  # files of the first toolkit alone have them

        return by_points(view, centred_values(source))
    if stage is not None and stage.by_table and stage.lut is not None and target.quant is not None:
        return _of_the_file(view)
    if not row.floating or row.name not in FUNCTIONS:
        return None
    real = in_double(FUNCTIONS[row.name], reals_of(source), *view.parameters.values())
    return real if target.quant is None else in_steps(real, target)


def gate(tensor: Tensor) -> Array:
    """The sigmoid of all values, float32."""
    return in_double(sigmoid, reals_of(tensor))


def exponentials(step: float) -> Array:
    """exp(-k * step) for k of 0 to 255, float32, in whole parts of 2**-40: sums of thousands of them are exact in double."""
    parts = np.rint(np.exp(-np.arange(256.0) * np.float64(np.float32(step))) * 2.0**40)
    return (parts * 2.0**-40).astype(np.float32)


def _of_the_file(view: NodeView) -> Array:
    """By the activation table of the file: index = stored value * multiplier + offset."""
    stage, source, target = view.node.stage, view.tensor(0), view.outputs[0]
    assert (
        stage is not None and stage.lut is not None and source.quant is not None and target.quant is not None
    )
    from .activation_tables import dense_table  # few networks have one that is used

    low, high = (float(edge - target.quant.zero_point) for edge in RANGES[target.dtype])
    first, table = dense_table(stage.lut, stage.scale, stage.zero_point - target.quant.zero_point, low, high)
    stored = centred_values(source) + source.quant.zero_point
    index = (stored * stage.lut.multiplier + stage.lut.offset).astype(np.float32)
    index = index.clip(np.float32(first), np.float32(first + len(table) - 1)) - np.float32(first)
    return table[np.rint(index).astype(np.intp)].astype(np.float32)
